// SPDX-License-Identifier: Apache-2.0
//! @file
//! Runs the library's grouped attention and the synchronous-tile yardstick on the same plan of the
//! same problem, checks both against the double-precision reference on sampled rows, and prints
//! times, ratios and overlap.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <pageunion/geometry.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/reference.hpp>
#include <pageunion/rules.hpp>
#if __has_include(<pageunion/grouped_attention.cuh>)
#include <pageunion/grouped_attention.cuh>
#define HAVE_GROUPED 1
#endif

#include "device_problem.hpp"
#include "parallel_for.hpp"
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

//! Median time of `enqueue()`, in milliseconds, by events: 3 warm-ups, then `repetitions`.
template <class Enqueue>
double median_ms(int repetitions, Enqueue const& enqueue) {
  cudaEvent_t start, stop;
  check(cudaEventCreate(&start), "cudaEventCreate");
  check(cudaEventCreate(&stop), "cudaEventCreate");
  std::vector<float> times;
  for (int i = -3; i < repetitions; ++i) {
    check(cudaEventRecord(start), "cudaEventRecord");
    enqueue();
    check(cudaEventRecord(stop), "cudaEventRecord");
    check(cudaEventSynchronize(stop), "kernel");
    float ms = 0.0f;
    check(cudaEventElapsedTime(&ms, start, stop), "cudaEventElapsedTime");
    if (i >= 0) {
      times.push_back(ms);
    }
  }
  cudaEventDestroy(start);
  cudaEventDestroy(stop);
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
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

void run(bench::problem const& p, int repetitions) {
  bench::overlap const o = bench::measure_overlap(p);
  bench::device_problem const device(p);
  bench::device_plan<G> const planned(p);
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

  double executed = 0.0;  // products of the active m-tiles, both of them
  double padded   = 0.0;
  for (std::int32_t g = 0; g < view.num_groups; ++g) {
    padded += num_pages[g];
    for (std::int32_t i = 0; i < num_pages[g]; i += G::tile_pages) {
      G::mask_type any = 0;
      for (int j = 0; j < G::tile_pages; ++j) {
        any |= masks[static_cast<std::int64_t>(g) * view.capacity + i + j];
      }
      for (int m = 0; m < G::m_tiles; ++m) {
        if ((category_of<G>(any) >> (m * G::num_bands / G::m_tiles) & 1) != 0) {
          executed += 4.0 * G::edge * G::tile_tokens * G::head_dim * p.num_kv_heads;
        }
      }
    }
  }
  double const asked = 4.0 * o.asked_tokens * p.num_heads * p.head_dim;

  std::printf("\n%s: %d rows, block_tokens %d\n  %s\n", p.name.c_str(), p.num_rows, p.block_tokens,
              to_string(o).c_str());
  std::printf("  %.1f padded pages per group; asked %.1f GFLOP, executed %.1f GFLOP\n",
              padded / view.num_groups, asked * 1e-9, executed * 1e-9);

  std::vector<std::int32_t> sampled = {0, 1, 5, p.num_rows - 1};
  for (int i = 0; i < 60; ++i) {
    sampled.push_back(static_cast<std::int32_t>((i * 7919LL + 13) % p.num_rows));
  }
  reference_result expected;
  reference_rows(p.rows(), p.selection_view(), p.operands(), p.page_tokens, sampled, expected);

  double yardstick_ms = 0.0;
  auto const measure  = [&](char const* name, auto const& enqueue) {
    device.poison_outputs();
    double const ms = median_ms(repetitions, enqueue);
    errors const e  = compare(p, device, sampled, expected);
    if (yardstick_ms == 0.0) {
      yardstick_ms = ms;
    }
    std::printf(
         "  %-28s %8.3f ms  %5.2fx of the first  asked %6.1f TFLOP/s executed %6.1f TFLOP/s  "
          "error out %.2e lse %.2e\n",
         name, ms, yardstick_ms / ms, asked / ms * 1e-9, executed / ms * 1e-9, e.out, e.lse);
    std::fflush(stdout);
  };
  measure("synchronous tile, 16 warps", [&] {
    check(bench::synchronous_attention<G, 16>(p.num_rows, device.operands(), view, nullptr),
          "synchronous_attention");
  });
  measure("synchronous tile, 8 warps", [&] {
    check(bench::synchronous_attention<G, 8>(p.num_rows, device.operands(), view, nullptr),
          "synchronous_attention");
  });
#ifdef HAVE_GROUPED
  measure("pageunion grouped_attention", [&] {
    check(grouped_attention<G>(p.num_rows, device.operands(), view, nullptr), "grouped_attention");
  });
#endif
}

}  // namespace

int main(int argc, char** argv) {
  int count = 0;
  if (cudaGetDeviceCount(&count) != cudaSuccess || count == 0) {
    std::fprintf(stderr, "no CUDA device: skipped\n");
    return 77;
  }
  cudaDeviceProp device{};
  check(cudaGetDeviceProperties(&device, 0), "cudaGetDeviceProperties");
  int driver = 0;
  check(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  std::printf("%s, compute %d.%d, %d SMs, driver %d, built with %d\n", device.name, device.major,
              device.minor, device.multiProcessorCount, driver, CUDART_VERSION);
  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.empty()) {
    arguments = {"fresh-8k", "chunk-32k", "long-tail"};
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    bench::problem p;
    if (auto const shape = bench::named_workload(arguments[i])) {
      p = bench::make_workload(*shape);
    } else if (std::string const error = bench::read_problem(arguments[i], p); !error.empty()) {
      std::fprintf(stderr, "%s: neither a workload nor a problem file: %s\n", arguments[i].c_str(),
                   error.c_str());
      return EXIT_FAILURE;
    }
    run(p, 20);
    if (i + 2 < arguments.size() && arguments[i + 1] == "--export") {
      std::string const error = bench::write_problem(arguments[i + 2], p);
      if (!error.empty()) {
        std::fprintf(stderr, "%s\n", error.c_str());
        return EXIT_FAILURE;
      }
      i += 2;
    }
  }
  return EXIT_SUCCESS;
}
