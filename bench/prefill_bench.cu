// SPDX-License-Identifier: Apache-2.0
//! @file
//! Time of the whole prefill(), planning included, by each route.
//!
//! Counters:
//!   median_ms           median over the repetitions
//!   rows/s              rows of the batch
//!   asked_TFLOP/s       both products over the (row, token) pairs that the caller asked for
//!   route               the route that ran, as the number of its enumerator
//!   workspace_MiB       workspace_bytes()
//!   jaccard, growth_n   overlap of adjacent rows, and of unions of n rows
#include <string>
#include <utility>
#include <vector>

#include "harness.hpp"
#include "prefill_case.cuh"

namespace {

using namespace pageunion;
using namespace pageunion::bench;

// One axis at a time, the others at their default, so that each table is a curve.

void sweep_workloads(std::vector<bench_case>& cases) {
  for (std::string const& name : workload_names()) {
    problem_source const source = generated(*named_workload(name));
    for (route const wanted : {route::automatic, route::grouped, route::row}) {
      std::string const title = "prefill/" + name_of(wanted) + "/workload:" + name;
      cases.push_back(prefill_case(title, source, wanted));
      cases.push_back(prefill_case(title + "/cold", source, wanted, l2_state::cold));
    }
  }
}

void sweep_overlap(std::vector<bench_case>& cases) {
  for (int step = 0; step < num_overlap_steps; ++step) {
    for (route const wanted : {route::grouped, route::row}) {
      cases.push_back(
          prefill_case("prefill/" + name_of(wanted) + "/overlap:" + std::to_string(step),
                       generated(overlap_step(step)), wanted));
    }
  }
}

void sweep_shapes(std::vector<bench_case>& cases) {
  for (auto const& [kind, name] :
       {std::pair{selection_kind::tokens, "tokens"}, std::pair{selection_kind::pages, "pages"}}) {
    cases.push_back(prefill_case(std::string("prefill/fresh-8k/selection:") + name,
                                 varied("fresh-8k", &problem_spec::kind, kind), route::automatic));
  }
  for (int const rows : {512, 1024, 2048, 4096, 8192}) {
    cases.push_back(prefill_case("prefill/chunk-32k/rows:" + std::to_string(rows),
                                 varied("chunk-32k", &problem_spec::num_rows, rows),
                                 route::automatic));
  }
}

std::vector<bench_case> cases() {
  std::vector<bench_case> all;
  sweep_workloads(all);
  sweep_overlap(all);
  sweep_shapes(all);
  return all;
}

std::vector<bench_case> cases_on_file(problem_source const& source) {
  std::vector<bench_case> all;
  for (route const wanted : {route::automatic, route::grouped, route::row}) {
    all.push_back(prefill_case("prefill/" + name_of(wanted) + "/problem", source, wanted));
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) { return run_benchmarks(argc, argv, cases, cases_on_file); }
