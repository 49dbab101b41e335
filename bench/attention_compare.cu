// SPDX-License-Identifier: Apache-2.0
//! @file
//! Runs the library's grouped attention and the synchronous-tile yardstick on the same plan of the
//! same problem, checks both against the double-precision reference on sampled rows, and prints
//! times and overlap. compare.sh runs it together with the Triton yardsticks.
//!
//!   attention_compare [WORKLOAD or FILE]... [--export-folder DIR] [--json FILE] [--repetitions N]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <pageunion/grouped_attention.cuh>
#include <pageunion/plan.hpp>
#include <pageunion/planner.cuh>
#include <pageunion/policy.hpp>
#include <pageunion/prefill.cuh>

#include "check.hpp"
#include "event_timer.hpp"
#include "plan_figures.hpp"
#include "policies.hpp"
#include "problem_file.hpp"
#include "problem_name.hpp"
#include "support/attention_run.cuh"
#include "support/device_problem.cuh"
#include "synchronous_tile.cuh"
#include "take_option.hpp"
#include "workload.hpp"

namespace {

using namespace pageunion;
using bench::check;
using json = nlohmann::ordered_json;

//! Rows whose results are compared with the reference: the first, the last, and some between.
std::vector<std::int32_t> sampled_rows(std::int32_t num_rows) {
  std::vector<std::int32_t> rows = {0, std::min(1, num_rows - 1), std::min(5, num_rows - 1),
                                    num_rows - 1};
  for (std::int64_t i = 0; i < 60; ++i) {
    rows.push_back(static_cast<std::int32_t>((i * 7919 + 13) % num_rows));
  }
  return rows;
}

//! Everything about one problem that its kernels share.
struct context {
  bench::host_problem const& p;
  bench::overlap sharing;
  bench::device_problem device;
  std::vector<std::int32_t> sampled;
  int repetitions;
};

template <class Enqueue>
double median_seconds(int repetitions, Enqueue const& enqueue) {
  bench::event_timer timer;
  for (int i = 0; i < bench::num_warm_ups; ++i) {
    timer.seconds(enqueue);
  }
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    times.push_back(timer.seconds(enqueue));
  }
  return bench::median(times);
}

//! Times one attention kernel, checks its result, prints a line and returns the result.
template <class Enqueue>
json measure(context const& c, char const* name, bench::plan_figures const& figures,
             Enqueue const& enqueue) {
  c.device.poison_outputs();
  double const seconds              = median_seconds(c.repetitions, enqueue);
  test::row_comparisons const error = test::compare_rows(c.device, c.sampled);
  std::printf(
      "  %-30s %8.3f ms  asked %6.1f TFLOP/s  executed %6.1f TFLOP/s  error out %.2e lse %.2e\n",
      name, 1e3 * seconds, 1e-12 * c.sharing.asked_flop / seconds,
      1e-12 * figures.executed_flop / seconds, error.out.max_abs, error.lse.max_abs);
  std::fflush(stdout);
  return {{"problem", c.p.name},
          {"kernel", name},
          {"time_ms", 1e3 * seconds},
          {"asked_GFLOP", 1e-9 * c.sharing.asked_flop},
          {"executed_GFLOP", 1e-9 * figures.executed_flop},
          {"union_pages", figures.union_pages},
          {"padded_pages", figures.padded_pages},
          {"error_out", error.out.max_abs},
          {"error_lse", error.lse.max_abs},
          {"rows", c.p.num_rows},
          {"jaccard", c.sharing.jaccard},
          {"growth", c.sharing.growth},
          {"pages_per_row", c.sharing.pages_per_row}};
}

//! A plan on the device, the time it took, and what it makes the attention do.
template <class Policy>
struct timed_plan {
  explicit timed_plan(context const& c) : planned(c.p) {
    seconds = median_seconds(c.repetitions, [&] {
      check(make_plan(c.device.rows(), c.device.selected(), c.device.operands().cache,
                      planned.view(), nullptr, nullptr),
            "make_plan");
    });
    figures = bench::measure_plan(c.p, planned);
    std::printf(
        "  groups of %2d rows: planner %.3f ms, %.1f pages per group, executed %.1f GFLOP\n",
        Policy::group_rows, 1e3 * seconds, figures.padded_pages / planned.view().num_groups,
        1e-9 * figures.executed_flop);
  }

  bench::device_plan<plan_shape_of<Policy>> planned;
  double seconds = 0.0;
  bench::plan_figures figures;
};

//! Times the library's grouped attention at one width.
template <class Policy>
json measure_grouped(context const& c, char const* name, timed_plan<Policy> const& plan) {
  json result          = measure(c, name, plan.figures, [&] {
    check(
                 grouped_attention<Policy>(c.p.num_rows, c.device.operands(), plan.planned.view(), nullptr),
                 "grouped_attention");
  });
  result["planner_ms"] = 1e3 * plan.seconds;
  return result;
}

//! Times the yardstick.
template <int Warps, int CtasPerSm, class Policy>
json measure_synchronous(context const& c, char const* name, timed_plan<Policy> const& plan) {
  return measure(c, name, plan.figures, [&] {
    check(bench::synchronous_attention<Policy, Warps, CtasPerSm>(c.p.num_rows, c.device.operands(),
                                                                 plan.planned.view(), nullptr),
          "synchronous_attention");
  });
}

//! Times the library's row route as a whole: it makes no plan.
template <class Policy>
json measure_rows(context const& c, char const* name) {
  prefill_args args;
  args.rows         = c.device.rows();
  args.selected     = c.device.selected();
  args.attention    = c.device.operands();
  args.route        = route::row;
  std::size_t bytes = 0;
  check(workspace_bytes<Policy>(args, bytes), "workspace_bytes");
  bench::device_array const workspace(bytes);
  return measure(c, name, bench::plan_figures{}, [&] {
    check(prefill<Policy>(args, workspace.data(), bytes, nullptr), "prefill");
  });
}

//! Runs all kernels on one problem. The library's widest groups come first: compare_table.py takes
//! ratios to them.
template <class Policy>
void measure_all(bench::host_problem const& p, int repetitions, json& results) {
  context const c{p, bench::measure_overlap(p), bench::device_problem(p), sampled_rows(p.num_rows),
                  repetitions};
  std::printf("\n%s: %d rows, cache blocks of %d tokens, asked %.1f GFLOP\n  %s\n", p.name.c_str(),
              p.num_rows, p.block_tokens, 1e-9 * c.sharing.asked_flop,
              to_string(c.sharing).c_str());
  timed_plan<Policy> const plan(c);
  results.push_back(measure_grouped(c, "pageunion grouped", plan));
  if constexpr (std::is_same_v<Policy, qsa_policy>) {
    timed_plan<bench::group4_policy> const plan_of_4(c);
    results.push_back(measure_grouped(c, "pageunion grouped, 4 rows", plan_of_4));
  }
  results.push_back(measure_rows<Policy>(c, "pageunion row route"));
  results.push_back(measure_synchronous<16, 0>(c, "synchronous tile, 16 warps", plan));
  results.push_back(measure_synchronous<16, 2>(c, "synchronous tile, 16 warps x2", plan));
  results.push_back(measure_synchronous<8, 0>(c, "synchronous tile, 8 warps", plan));
}

//! A workload by name, or else a problem file.
bench::host_problem load(std::string const& name) {
  bench::host_problem p;
  if (auto const shape = bench::named_workload(name)) {
    p = bench::make_workload(*shape);
  } else if (std::string const error = bench::read_problem(name, p); !error.empty()) {
    bench::fail(name + " is no workload, and as a problem file: " + error);
  }
  if (p.num_rows == 0) {
    bench::fail(name + ": expected rows");
  }
  return p;
}

}  // namespace

int main(int argc, char** argv) {
  bench::require_device();
  std::string const export_folder = bench::take_option(argc, argv, "--export-folder");
  std::string const json_file     = bench::take_option(argc, argv, "--json");
  int const repetitions =
      std::max(20, std::atoi(bench::take_option(argc, argv, "--repetitions", "30").c_str()));
  std::vector<std::string> problems(argv + 1, argv + argc);
  if (problems.empty()) {
    problems = {"fresh-8k", "chunk-32k", "long-tail"};
  }
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  cudaFuncAttributes code{};
  check(cudaFuncGetAttributes(&code, bench::synchronous_tile_kernel<qsa_policy, 16, 0>), "code");
  std::printf("%s; code: PTX %d, machine code %d; built with CUDA %d.%d\n", device.name,
              code.ptxVersion, code.binaryVersion, CUDART_VERSION / 1000,
              CUDART_VERSION % 1000 / 10);
  json all = {{"device", device.name},
              {"ptx_version", code.ptxVersion},
              {"binary_version", code.binaryVersion},
              {"cuda_of_build", CUDART_VERSION},
              {"repetitions", repetitions},
              {"results", json::array()}};
  std::set<std::string> names;  // of the problems so far
  for (std::string const& name : problems) {
    bench::host_problem p = load(name);
    p.name                = bench::claim_name(p.name, names);
    bench::with_policy(p, bench::widest_groups, [&](auto policy) {
      measure_all<decltype(policy)>(p, repetitions, all["results"]);
    });
    if (!export_folder.empty()) {
      std::string const path = export_folder + "/" + p.name + ".safetensors";
      if (std::string const error = bench::write_problem(path, p); !error.empty()) {
        bench::fail(error);
      }
    }
  }
  if (!json_file.empty()) {
    std::ofstream out(json_file);
    out << all.dump(1) << "\n";
    if (!out.good()) {
      bench::fail(json_file + " cannot be written");
    }
  }
  return EXIT_SUCCESS;
}
