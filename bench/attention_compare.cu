// SPDX-License-Identifier: Apache-2.0
//! @file
//! Runs the library's grouped attention and the synchronous-tile yardstick on the same plan of the
//! same problem, checks both against the double-precision reference on sampled rows, and prints
//! times and overlap. compare.sh runs it together with the Triton yardsticks.
//!
//!   attention_compare [WORKLOAD or FILE]... [--export-folder DIR] [--json FILE] [--repetitions N]
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <type_traits>
#include <vector>

#include <pageunion/geometry.hpp>
#include <pageunion/grouped_attention.cuh>
#include <pageunion/plan.hpp>
#include <pageunion/planner.cuh>
#include <pageunion/prefill.cuh>
#include <pageunion/reference.hpp>

#include "device_problem.hpp"
#include "event_timer.hpp"
#include "plan_figures.hpp"
#include "policies.hpp"
#include "problem_file.hpp"
#include "problem_name.hpp"
#include "synchronous_tile.cuh"
#include "workload.hpp"

namespace {

using namespace pageunion;
using bench::check;
using json = nlohmann::ordered_json;

struct errors {
  double out = 0.0;
  double lse = 0.0;
};

errors compare(bench::problem const& p, bench::device_problem const& device,
               std::vector<std::int32_t> const& sampled, reference_result const& expected) {
  auto const out = device.out().download();
  auto const lse = device.lse().download();
  errors worst;
  std::size_t const per_row = static_cast<std::size_t>(p.num_heads) * p.head_dim;
  auto const raise          = [](double& maximum, double difference) {
    maximum = difference <= maximum ? maximum : difference;  // NaN wins
  };
  for (std::size_t i = 0; i < sampled.size(); ++i) {
    for (std::size_t d = 0; d < per_row; ++d) {
      raise(worst.out,
            std::fabs(__half2float(out[sampled[i] * per_row + d]) - expected.out[i * per_row + d]));
    }
    for (std::int32_t h = 0; h < p.num_heads; ++h) {
      raise(worst.lse, std::fabs(lse[static_cast<std::size_t>(sampled[i]) * p.num_heads + h] -
                                 expected.lse[i * p.num_heads + h]));
    }
  }
  return worst;
}

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
  bench::problem const& p;
  bench::overlap sharing;
  bench::device_problem device;
  std::vector<std::int32_t> sampled;
  reference_result expected;
  int repetitions;

  double asked_flop() const { return 4.0 * sharing.asked_tokens * p.num_heads * p.head_dim; }
};

template <class Enqueue>
double median_seconds(int repetitions, Enqueue const& enqueue) {
  bench::event_timer timer;
  for (int i = 0; i < bench::num_warm_ups; ++i) {
    timer.seconds(enqueue, nullptr);
  }
  std::vector<double> times;
  for (int i = 0; i < repetitions; ++i) {
    times.push_back(timer.seconds(enqueue, nullptr));
  }
  return bench::median(times);
}

//! Times one attention kernel, checks its result, prints a line and returns the result.
template <class Enqueue>
json measure(context const& c, char const* name, bench::plan_figures const& figures,
             Enqueue const& enqueue) {
  c.device.poison_outputs();
  double const seconds = median_seconds(c.repetitions, enqueue);
  errors const e       = compare(c.p, c.device, c.sampled, c.expected);
  std::printf(
      "  %-30s %8.3f ms  asked %6.1f TFLOP/s  executed %6.1f TFLOP/s  error out %.2e lse %.2e\n",
      name, 1e3 * seconds, 1e-12 * c.asked_flop() / seconds,
      1e-12 * figures.executed_flop / seconds, e.out, e.lse);
  std::fflush(stdout);
  return {{"problem", c.p.name},
          {"kernel", name},
          {"time_ms", 1e3 * seconds},
          {"asked_GFLOP", 1e-9 * c.asked_flop()},
          {"executed_GFLOP", 1e-9 * figures.executed_flop},
          {"union_pages", figures.union_pages},
          {"padded_pages", figures.padded_pages},
          {"error_out", e.out},
          {"error_lse", e.lse},
          {"rows", c.p.num_rows},
          {"jaccard", c.sharing.jaccard},
          {"growth", c.sharing.growth},
          {"pages_per_row", c.sharing.pages_per_row}};
}

//! A plan on the device, the time it took, and what it makes the attention do.
template <class Geometry>
struct timed_plan {
  explicit timed_plan(context const& c) : planned(c.p) {
    seconds = median_seconds(c.repetitions, [&](cudaStream_t stream) {
      check(make_plan<Geometry>(c.device.rows(), c.device.selected(), c.device.operands().cache,
                                planned.view(), nullptr, stream),
            "make_plan");
    });
    figures = bench::measure_plan(c.p, planned);
    std::printf(
        "  groups of %2d rows: planner %.3f ms, %.1f pages per group, executed %.1f GFLOP\n",
        Geometry::group_rows, 1e3 * seconds, figures.padded_pages / planned.view().num_groups,
        1e-9 * figures.executed_flop);
  }

  bench::device_plan<Geometry> planned;
  double seconds = 0.0;
  bench::plan_figures figures;
};

//! Times the library's grouped attention at one width.
template <class Geometry>
json measure_grouped(context const& c, char const* name, timed_plan<Geometry> const& plan) {
  json result          = measure(c, name, plan.figures, [&](cudaStream_t stream) {
    check(
                 grouped_attention<Geometry>(c.p.num_rows, c.device.operands(), plan.planned.view(), stream),
                 "grouped_attention");
  });
  result["planner_ms"] = 1e3 * plan.seconds;
  return result;
}

//! Times the yardstick.
template <int Warps, int CtasPerSm, class Geometry>
json measure_synchronous(context const& c, char const* name, timed_plan<Geometry> const& plan) {
  return measure(c, name, plan.figures, [&](cudaStream_t stream) {
    check(bench::synchronous_attention<Geometry, Warps, CtasPerSm>(
              c.p.num_rows, c.device.operands(), plan.planned.view(), stream),
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
  bench::device_array<unsigned char> const workspace(bytes);
  return measure(c, name, bench::plan_figures{}, [&](cudaStream_t stream) {
    check(prefill<Policy>(args, workspace.data(), bytes, stream), "prefill");
  });
}

//! Runs all kernels on one problem. The library's widest groups come first: compare_table.py takes
//! ratios to them.
template <class Geometry>
std::vector<json> run_as(bench::problem const& p, int repetitions) {
  context c{
      p,          bench::measure_overlap(p), bench::device_problem(p), sampled_rows(p.num_rows), {},
      repetitions};
  std::printf("\n%s: %d rows, cache blocks of %d tokens, asked %.1f GFLOP\n  %s\n", p.name.c_str(),
              p.num_rows, p.block_tokens, 1e-9 * c.asked_flop(), to_string(c.sharing).c_str());
  reference_rows(p.rows(), p.selection_view(), p.operands(), p.page_tokens, c.sampled, c.expected);
  timed_plan<Geometry> const plan(c);
  std::vector<json> results = {measure_grouped(c, "pageunion grouped", plan)};
  if constexpr (std::is_same_v<Geometry, geometry<qsa_policy>>) {
    timed_plan<geometry<bench::group4_policy>> const plan_of_4(c);
    results.push_back(measure_grouped(c, "pageunion grouped, 4 rows", plan_of_4));
  }
  results.push_back(measure_rows<typename Geometry::policy>(c, "pageunion row route"));
  results.push_back(measure_synchronous<16, 0>(c, "synchronous tile, 16 warps", plan));
  results.push_back(measure_synchronous<16, 2>(c, "synchronous tile, 16 warps x2", plan));
  results.push_back(measure_synchronous<8, 0>(c, "synchronous tile, 8 warps", plan));
  return results;
}

//! Runs all kernels on one problem, at the geometry of its heads.
std::vector<json> run(bench::problem const& p, int repetitions) {
  return bench::with_geometry(p, bench::widest_groups, [&](auto geometry) {
    return run_as<decltype(geometry)>(p, repetitions);
  });
}

struct options {
  std::vector<std::string> problems;  //!< workload names and problem files
  std::string export_folder;          //!< where each problem is written, if not empty
  std::string json;                   //!< file for the results, if not empty
  int repetitions = 30;
};

options parse(int argc, char** argv) {
  options o;
  for (int i = 1; i < argc; ++i) {
    std::string const argument = argv[i];
    bool const has_value       = i + 1 < argc;
    if (argument == "--export-folder" && has_value) {
      o.export_folder = argv[++i];
    } else if (argument == "--json" && has_value) {
      o.json = argv[++i];
    } else if (argument == "--repetitions" && has_value) {
      o.repetitions = std::max(20, std::atoi(argv[++i]));
    } else {
      o.problems.push_back(argument);
    }
  }
  if (o.problems.empty()) {
    o.problems = {"fresh-8k", "chunk-32k", "long-tail"};
  }
  return o;
}

[[noreturn]] void fail(std::string const& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::exit(EXIT_FAILURE);
}

//! A workload by name, or else a problem file.
bench::problem load(std::string const& name) {
  bench::problem p;
  if (auto const shape = bench::named_workload(name)) {
    p = bench::make_workload(*shape);
  } else if (std::string const error = bench::read_problem(name, p); !error.empty()) {
    fail(name + " is no workload, and as a problem file: " + error);
  }
  if (p.num_rows == 0) {
    fail(name + ": expected rows");
  }
  return p;
}

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::fprintf(stderr, "no CUDA device: skipped\n");
    return 77;
  }
  options const o = parse(argc, argv);
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  cudaFuncAttributes code{};
  check(cudaFuncGetAttributes(&code, bench::synchronous_tile_kernel<geometry<qsa_policy>, 16, 0>),
        "code");
  std::printf("%s; code: PTX %d, machine code %d; built with CUDA %d.%d\n", device.name,
              code.ptxVersion, code.binaryVersion, CUDART_VERSION / 1000,
              CUDART_VERSION % 1000 / 10);
  json all = {{"device", device.name},
              {"ptx_version", code.ptxVersion},
              {"binary_version", code.binaryVersion},
              {"cuda_of_build", CUDART_VERSION},
              {"repetitions", o.repetitions},
              {"results", json::array()}};
  std::set<std::string> names;  // of the problems so far
  for (std::string const& name : o.problems) {
    bench::problem p = load(name);
    p.name           = bench::claim_name(p.name, names);
    for (json const& result : run(p, o.repetitions)) {
      all["results"].push_back(result);
    }
    if (!o.export_folder.empty()) {
      std::string const path = o.export_folder + "/" + p.name + ".safetensors";
      if (std::string const error = bench::write_problem(path, p); !error.empty()) {
        fail(error);
      }
    }
  }
  if (!o.json.empty()) {
    std::ofstream out(o.json);
    out << all.dump(1) << "\n";
    if (!out.good()) {
      fail(o.json + " cannot be written");
    }
  }
  return EXIT_SUCCESS;
}
