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
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <pageunion/geometry.hpp>
#include <pageunion/grouped_attention.cuh>
#include <pageunion/plan.hpp>
#include <pageunion/reference.hpp>
#include <pageunion/rules.hpp>

#include "device_problem.hpp"
#include "event_timer.hpp"
#include "parallel_for.hpp"
#include "plan_figures.hpp"
#include "problem_file.hpp"
#include "synchronous_tile.cuh"
#include "workload.hpp"

namespace {

using namespace pageunion;
using bench::check;
using G = geometry<qsa_policy>;

//! Plans one group on the host: (request as first met, page) -> mask, by category, padded.
void plan_group(bench::problem const& p, std::int32_t group, std::int32_t capacity,
                page_address* addresses, G::mask_type* masks, std::int32_t& num_pages) {
  std::map<std::pair<std::int32_t, std::int32_t>, G::mask_type> chosen;
  std::map<std::int32_t, std::int32_t> met;
  std::vector<std::int32_t> request_of;
  for (int i = 0; i < G::group_rows; ++i) {
    std::int32_t const row = group * G::group_rows + i;
    if (row >= p.num_rows || !is_request(p.row_request[row], p.num_requests)) {
      continue;
    }
    auto const [found, is_new] = met.emplace(p.row_request[row], met.size());
    if (is_new) {
      request_of.push_back(p.row_request[row]);
    }
    std::int32_t const end =
        visible_end(p.row_position[row], p.sequence_length[p.row_request[row]]);
    for (std::int32_t j = 0; j < p.width; ++j) {
      std::int32_t const token = p.selected[static_cast<std::int64_t>(row) * p.width + j];
      if (check_token(token, end, p.block_tokens, p.table_width) == drop_reason::none) {
        chosen[{found->second, token / G::page_tokens}] |=
            G::mask_type{1} << (i * G::page_tokens + token % G::page_tokens);
      }
    }
  }
  num_pages = 0;
  for (int category = 1; category <= G::num_categories; ++category) {
    for (auto const& [key, mask] : chosen) {
      if (category_of<G>(mask) == category) {
        std::int32_t const token = key.second * G::page_tokens;
        std::int32_t const block =
            p.block_table[static_cast<std::int64_t>(request_of[key.first]) * p.table_width +
                          token / p.block_tokens];
        addresses[num_pages] = {block, token % p.block_tokens};
        masks[num_pages++]   = mask;
      }
    }
    for (; num_pages % G::tile_pages != 0; ++num_pages) {
      addresses[num_pages] = addresses[num_pages - 1];
      masks[num_pages]     = 0;
    }
  }
  if (num_pages > capacity) {
    std::fprintf(stderr, "plan overflow\n");
    std::exit(EXIT_FAILURE);
  }
}

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

//! The plan of a problem, made on the host and uploaded.
bench::device_plan<G> make_host_plan(bench::problem const& p) {
  bench::device_plan<G> planned(p);
  plan<G> const& view = planned.view();
  std::vector<page_address> addresses(planned.addresses().size());
  std::vector<G::mask_type> masks(planned.masks().size());
  std::vector<std::int32_t> num_pages(planned.num_pages().size());
  bench::parallel_for(view.num_groups, [&](std::int64_t g) {
    plan_group(p, static_cast<std::int32_t>(g), view.capacity, addresses.data() + g * view.capacity,
               masks.data() + g * view.capacity, num_pages[g]);
  });
  check(cudaMemcpy(view.addresses, addresses.data(), planned.addresses().bytes(),
                   cudaMemcpyHostToDevice),
        "upload");
  check(cudaMemcpy(view.masks, masks.data(), planned.masks().bytes(), cudaMemcpyHostToDevice),
        "upload");
  check(cudaMemcpy(view.num_pages, num_pages.data(), planned.num_pages().bytes(),
                   cudaMemcpyHostToDevice),
        "upload");
  return planned;
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

//! Runs all kernels on one problem; prints a line for each and returns the results.
nlohmann::ordered_json run(bench::problem const& p, int repetitions) {
  bench::overlap const o = bench::measure_overlap(p);
  bench::device_problem const device(p);
  bench::device_plan<G> const planned = make_host_plan(p);
  bench::plan_figures const figures   = bench::measure_plan(p, planned);
  double const asked_flop             = 4.0 * o.asked_tokens * p.num_heads * p.head_dim;

  std::printf("\n%s: %d rows, cache blocks of %d tokens\n  %s\n", p.name.c_str(), p.num_rows,
              p.block_tokens, to_string(o).c_str());
  std::printf("  %.1f pages per group with padding; asked %.1f GFLOP, executed %.1f GFLOP\n",
              figures.padded_pages / planned.view().num_groups, asked_flop * 1e-9,
              figures.executed_flop * 1e-9);

  std::vector<std::int32_t> const sampled = sampled_rows(p.num_rows);
  reference_result expected;
  reference_rows(p.rows(), p.selection_view(), p.operands(), p.page_tokens, sampled, expected);

  bench::event_timer timer;
  nlohmann::ordered_json results = nlohmann::ordered_json::array();
  auto const measure             = [&](char const* name, auto const& enqueue) {
    device.poison_outputs();
    for (int i = 0; i < bench::num_warm_ups; ++i) {
      timer.seconds(enqueue, nullptr);
    }
    std::vector<double> times;
    for (int i = 0; i < repetitions; ++i) {
      times.push_back(timer.seconds(enqueue, nullptr));
    }
    double const seconds = bench::median(times);
    errors const e       = compare(p, device, sampled, expected);
    std::printf(
                    "  %-30s %8.3f ms  asked %6.1f TFLOP/s  executed %6.1f TFLOP/s  error out %.2e "
                                "lse %.2e\n",
                    name, 1e3 * seconds, 1e-12 * asked_flop / seconds, 1e-12 * figures.executed_flop / seconds,
                    e.out, e.lse);
    std::fflush(stdout);
    results.push_back(
                    {{"problem", p.name},
         {"kernel", name},
         {"time_ms", 1e3 * seconds},
         {"asked_GFLOP", 1e-9 * asked_flop},
         {"executed_GFLOP", 1e-9 * figures.executed_flop},
         {"error_out", e.out},
         {"error_lse", e.lse},
         {"rows", p.num_rows},
         {"jaccard", o.jaccard},
         {"growth", o.growth},
         {"pages_per_row", o.pages_per_row},
         {"padded_pages_per_group", figures.padded_pages / planned.view().num_groups}});
  };
  auto const& operands = device.operands();
  auto const& view     = planned.view();
  measure("pageunion grouped", [&](cudaStream_t stream) {
    check(grouped_attention<G>(p.num_rows, operands, view, stream), "grouped_attention");
  });
  measure("synchronous tile, 16 warps", [&](cudaStream_t stream) {
    check(bench::synchronous_attention<G, 16>(p.num_rows, operands, view, stream), "16 warps");
  });
  measure("synchronous tile, 16 warps x2", [&](cudaStream_t stream) {
    check(bench::synchronous_attention<G, 16, 2>(p.num_rows, operands, view, stream),
          "16 warps x2");
  });
  measure("synchronous tile, 8 warps", [&](cudaStream_t stream) {
    check(bench::synchronous_attention<G, 8>(p.num_rows, operands, view, stream), "8 warps");
  });
  return results;
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
  if (p.page_tokens != G::page_tokens || p.head_dim != G::head_dim ||
      p.num_heads != p.num_kv_heads * G::heads_per_kv || p.num_rows == 0) {
    fail(name + ": expected rows, pages of 4 tokens, 6 heads per KV head and head_dim 256");
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
  check(cudaFuncGetAttributes(&code, bench::synchronous_tile_kernel<G, 16, 0>), "code");
  std::printf("%s; code: PTX %d, machine code %d; built with CUDA %d.%d\n", device.name,
              code.ptxVersion, code.binaryVersion, CUDART_VERSION / 1000,
              CUDART_VERSION % 1000 / 10);
  nlohmann::ordered_json all = {{"device", device.name},
                                {"ptx_version", code.ptxVersion},
                                {"binary_version", code.binaryVersion},
                                {"cuda_of_build", CUDART_VERSION},
                                {"repetitions", o.repetitions},
                                {"results", nlohmann::ordered_json::array()}};
  for (std::string const& name : o.problems) {
    bench::problem const p = load(name);
    for (auto const& result : run(p, o.repetitions)) {
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
