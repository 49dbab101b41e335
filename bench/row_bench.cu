// SPDX-License-Identifier: Apache-2.0
//! @file
//! The row route's ground: 1 to 512 rows at the end of 8,192 tokens, from one request and from many,
//! and up to 1,024 rows of requests that have 1 to 16 of them, by each route. The automatic route's
//! rule comes from these sweeps. And the merging of partial results alone, as shards of a cache give
//! them.
//!
//! Counters: those of prefill_bench.cu; of a merging also
//!   partials_GB/s       bytes of the partial results, each read once
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <pageunion/merge_partials.cuh>

#include "harness.hpp"
#include "prefill_case.cuh"

namespace {

using namespace pageunion;
using namespace pageunion::bench;

//! Requests of the sweep "many": as many as rows, but no more caches than this.
constexpr int max_requests = 64;

void add_routes(std::vector<bench_case>& cases, std::string const& name,
                problem_spec const& shape) {
  for (route const wanted : {route::row, route::grouped, route::automatic}) {
    cases.push_back(prefill_case(
        "verify/" + name + "/" + name_of(wanted) + "/rows:" + std::to_string(shape.num_rows),
        generated(shape), wanted));
  }
}

void sweep_rows(std::vector<bench_case>& cases, char const* name, int most_requests) {
  for (int const rows : {1, 2, 3, 5, 8, 12, 16, 24, 33, 64, 96, 128, 256, 320, 384, 512}) {
    problem_spec shape = *named_workload("verify");
    shape.num_requests = std::min(rows, most_requests);
    shape.num_rows     = rows / shape.num_requests * shape.num_requests;
    add_routes(cases, name, shape);
  }
}

void sweep_requests(std::vector<bench_case>& cases) {
  for (int const rows_of_request : {1, 2, 5, 8, 16}) {
    for (int const num_requests : {32, 64, 128, 256, 512, 1024}) {
      problem_spec shape = *named_workload("verify");
      shape.num_requests = num_requests;
      shape.num_rows     = num_requests * rows_of_request;
      set_context(shape, 4096);  // so that all caches fit a GPU of 16 GiB
      if (shape.num_rows >= 256 && shape.num_rows <= 1024) {
        add_routes(cases, "rows_of_request:" + std::to_string(rows_of_request), shape);
      }
    }
  }
}

//! What one merging reads and writes.
struct merge_arrays {
  device_array out;
  device_array lse;
  device_array merged;
};

std::vector<float> normal_numbers(std::size_t count) {
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(count);
  std::generate(numbers.begin(), numbers.end(), [&] { return normal(generator); });
  return numbers;
}

//! Prepares the merging of a prefill's rows from `num_partials` shards.
prepared_case prepare_merge(std::int32_t num_partials) {
  using G                       = qsa_policy;
  constexpr std::int32_t rows   = 8192;
  constexpr std::int32_t heads  = G::heads_per_kv;
  constexpr std::size_t results = static_cast<std::size_t>(rows) * heads;
  std::size_t const in_partials = results * static_cast<std::size_t>(num_partials);
  auto const arrays             = std::make_shared<merge_arrays const>(
      merge_arrays{device_array(normal_numbers(in_partials * G::head_dim)),
                   device_array(normal_numbers(in_partials)),
                   device_array(results * G::head_dim * sizeof(__half))});
  prepared_case c;
  c.range   = "merge";
  c.enqueue = [arrays, num_partials] {
    partial_view partials;
    partials.out                = arrays->out.as<float>();
    partials.lse                = arrays->lse.as<float>();
    partials.out_partial_stride = results * G::head_dim;
    partials.out_row_stride     = heads * G::head_dim;
    partials.out_head_stride    = G::head_dim;
    partials.lse_partial_stride = results;
    partials.lse_row_stride     = heads;
    output_view const out{arrays->merged.data(), element_type::f16, heads * G::head_dim,
                          G::head_dim};
    check(merge_partials<G::head_dim>(partials, num_partials, rows, heads, out, {}, nullptr),
          "merge");
  };
  c.amounts["rows/s"] = rows;
  c.amounts["partials_GB/s"] =
      1e-9 * static_cast<double>(arrays->out.size_bytes() + arrays->lse.size_bytes());
  return c;
}

void sweep_partials(std::vector<bench_case>& cases) {
  for (int const num_partials : {2, 4, 8}) {
    for (l2_state const l2 : {l2_state::warm, l2_state::cold}) {
      cases.push_back(
          {"merge/partials:" + std::to_string(num_partials) + (l2 == l2_state::cold ? "/cold" : ""),
           l2, [num_partials] { return prepare_merge(num_partials); }});
    }
  }
}

std::vector<bench_case> cases() {
  std::vector<bench_case> all;
  sweep_rows(all, "one_request", 1);
  sweep_rows(all, "many_requests", max_requests);
  sweep_requests(all);
  sweep_partials(all);
  return all;
}

std::vector<bench_case> cases_on_file(problem_source const& source) {
  return {prefill_case("verify/row/problem", source, route::row),
          prefill_case("verify/row/problem/cold", source, route::row, l2_state::cold)};
}

}  // namespace

int main(int argc, char** argv) { return run_benchmarks(argc, argv, cases, cases_on_file); }
