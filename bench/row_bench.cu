// SPDX-License-Identifier: Apache-2.0
//! @file
//! The row route's ground: 1 to 256 rows at the end of 8,192 tokens, from one request and from many,
//! by each route. The policy's threshold for the automatic route comes from this sweep.
//!
//! Counters: those of prefill_bench.cu.
#include <algorithm>
#include <string>
#include <vector>

#include "harness.hpp"
#include "prefill_case.cuh"

namespace {

using namespace pageunion;
using namespace pageunion::bench;

//! Requests of the sweep "many": as many as rows, but no more caches than this.
constexpr int max_requests = 64;

void sweep_rows(std::vector<bench_case>& cases, char const* name, int most_requests) {
  for (int const rows : {1, 2, 3, 5, 8, 12, 16, 24, 33, 64, 96, 128, 256}) {
    workload_shape shape = *named_workload("verify");
    shape.num_requests   = std::min(rows, most_requests);
    shape.num_rows       = rows / shape.num_requests * shape.num_requests;
    for (route const wanted : {route::row, route::grouped, route::automatic}) {
      cases.push_back(prefill_case(std::string("verify/") + name + "/" + name_of(wanted) +
                                       "/rows:" + std::to_string(shape.num_rows),
                                   generated(shape), wanted));
    }
  }
}

std::vector<bench_case> cases() {
  std::vector<bench_case> all;
  sweep_rows(all, "one_request", 1);
  sweep_rows(all, "many_requests", max_requests);
  return all;
}

std::vector<bench_case> cases_on_file(problem_source const& source) {
  return {prefill_case("verify/row/problem", source, route::row),
          prefill_case("verify/row/problem/cold", source, route::row, l2_state::cold)};
}

//! Only tells which machine code the device runs.
__global__ void empty_kernel() {}

}  // namespace

int main(int argc, char** argv) {
  return run_benchmarks(argc, argv, cases, cases_on_file,
                        reinterpret_cast<void const*>(&empty_kernel));
}
