// SPDX-License-Identifier: Apache-2.0
//! @file
//! Time of the grouped attention alone, and of the synchronous-tile yardstick on the same plan: the
//! plan is made before the clock starts.
//!
//! Counters:
//!   median_ms           median over the repetitions
//!   asked_TFLOP/s       both products over the (row, token) pairs that the caller asked for
//!   executed_TFLOP/s    the same over the 16-row m-tiles and 16-token tiles that the plan reaches
//!   kv_GB/s             bytes of K and V that the plan stages: each of its pages once a group
//!   sharing             pages that the rows asked for over pages in the unions
//!   tiles               16-token tiles of the plan
//!   jaccard, growth_n   overlap of adjacent rows, and of unions of n rows
#include <string>
#include <utility>
#include <vector>

#include <pageunion/grouped_attention.cuh>
#include <pageunion/planner.cuh>

#include "harness.hpp"
#include "plan_figures.hpp"
#include "policies.hpp"
#include "synchronous_tile.cuh"

namespace {

using namespace pageunion;
using namespace pageunion::bench;

//! What is timed.
enum class kernel_choice {
  library,
  synchronous_16_warps,     //!< the published shape
  synchronous_16_warps_x2,  //!< the same, its registers bounded for two CTAs on an SM
  synchronous_8_warps,
};

template <class Policy>
status launch(kernel_choice kernel, loaded_problem const& p,
              plan<plan_shape_of<Policy>> const& planned) {
  int const num_rows                = p.host().num_rows;
  attention_operands const operands = p.device.operands();
  switch (kernel) {
    case kernel_choice::synchronous_16_warps:
      return synchronous_attention<Policy, 16>(num_rows, operands, planned, nullptr);
    case kernel_choice::synchronous_16_warps_x2:
      return synchronous_attention<Policy, 16, 2>(num_rows, operands, planned, nullptr);
    case kernel_choice::synchronous_8_warps:
      return synchronous_attention<Policy, 8>(num_rows, operands, planned, nullptr);
    case kernel_choice::library:
      break;
  }
  return grouped_attention<Policy>(num_rows, operands, planned, nullptr);
}

template <class Policy>
prepared_case prepare(kernel_choice kernel, problem_handle const& p) {
  auto const planned = std::make_shared<device_plan<plan_shape_of<Policy>> const>(p->host());
  check(make_plan(p->device.rows(), p->device.selected(), p->device.operands().cache,
                  planned->view(), nullptr, nullptr),
        "make_plan");
  plan_figures const figures = measure_plan(p->host(), *planned);
  prepared_case c            = described(*p, "attention");
  c.enqueue                  = [kernel, p, planned] {
    check(launch<Policy>(kernel, *p, planned->view()), "attention");
  };
  c.facts["tiles"]           = figures.tiles;
  c.facts["sharing"]         = p->sharing.pages_per_row * p->host().num_rows / figures.union_pages;
  c.amounts["asked_TFLOP/s"] = 1e-12 * p->sharing.asked_flop;
  c.amounts["executed_TFLOP/s"] = 1e-12 * figures.executed_flop;
  c.amounts["kv_GB/s"]          = 1e-9 * figures.staged_bytes;
  return c;
}

bench_case make_case(std::string name, problem_source const& source, int group_rows,
                     kernel_choice kernel = kernel_choice::library, l2_state l2 = l2_state::warm) {
  return {std::move(name), l2, [source, group_rows, kernel] {
            problem_handle const p = load(source);
            return with_policy(p->host(), group_rows,
                               [&](auto policy) { return prepare<decltype(policy)>(kernel, p); });
          }};
}

//! The library and all variants of the yardstick on one problem.
void add_compared(std::vector<bench_case>& cases, std::string const& axis,
                  problem_source const& source) {
  for (auto const& [kernel, name] :
       {std::pair{kernel_choice::library, "grouped/"},
        std::pair{kernel_choice::synchronous_16_warps, "synchronous_16_warps/"},
        std::pair{kernel_choice::synchronous_16_warps_x2, "synchronous_16_warps_x2/"},
        std::pair{kernel_choice::synchronous_8_warps, "synchronous_8_warps/"}}) {
    cases.push_back(make_case(name + axis, source, widest_groups, kernel));
  }
}

// One axis at a time, the others at their default, so that each table is a curve.

void sweep_workloads(std::vector<bench_case>& cases) {
  for (std::string const& name : workload_names()) {
    problem_source const source = generated(*named_workload(name));
    add_compared(cases, "workload:" + name, source);
    cases.push_back(make_case("grouped/workload:" + name + "/cold", source, 8,
                              kernel_choice::library, l2_state::cold));
  }
}

void sweep_overlap(std::vector<bench_case>& cases) {
  for (int step = 0; step < num_overlap_steps; ++step) {
    problem_source const source = generated(overlap_step(step));
    std::string const axis      = "overlap:" + std::to_string(step);
    add_compared(cases, axis, source);
    cases.push_back(make_case("grouped_4_rows/" + axis, source, 4));
  }
}

void sweep_widths(std::vector<bench_case>& cases) {
  for (std::string const name : {"fresh-8k", "chunk-32k", "long-tail", "disjoint"}) {
    for (int const group_rows : {4, 8}) {
      cases.push_back(make_case("grouped/" + name + "/group_rows:" + std::to_string(group_rows),
                                generated(*named_workload(name)), group_rows));
    }
  }
}

void sweep_cache(std::vector<bench_case>& cases) {
  for (int const tokens : {16, 400, 784, 1600}) {
    cases.push_back(make_case("grouped/chunk-32k/block_tokens:" + std::to_string(tokens),
                              varied("chunk-32k", &problem_spec::block_tokens, tokens), 8));
  }
  cases.push_back(make_case("grouped/chunk-32k/layout:separate",
                            varied("chunk-32k", &problem_spec::layout, kv_layout::separate), 8));
  cases.push_back(
      make_case("grouped/chunk-32k/layout:interleaved",
                varied("chunk-32k", &problem_spec::layout, kv_layout::interleaved_blocks), 8));
}

void sweep_requests(std::vector<bench_case>& cases) {
  for (int const requests : {1, 4, 16}) {
    cases.push_back(make_case("grouped/fresh-8k/requests:" + std::to_string(requests),
                              varied("fresh-8k", &problem_spec::num_requests, requests), 8));
  }
}

void sweep_heads(std::vector<bench_case>& cases) {
  for (int const kv_heads : {1, 2}) {
    problem_spec shape = *named_workload("fresh-8k");
    shape.heads_per_kv = 12;
    shape.num_kv_heads = kv_heads;
    cases.push_back(
        make_case("grouped/fresh-8k/heads:" + std::to_string(12 * kv_heads), generated(shape), 4));
  }
}

std::vector<bench_case> cases() {
  std::vector<bench_case> all;
  for (auto const sweep :
       {sweep_workloads, sweep_overlap, sweep_widths, sweep_cache, sweep_requests, sweep_heads}) {
    sweep(all);
  }
  return all;
}

std::vector<bench_case> cases_on_file(problem_source const& source) {
  std::vector<bench_case> all;
  add_compared(all, "problem", source);
  all.push_back(make_case("grouped/problem/cold", source, widest_groups, kernel_choice::library,
                          l2_state::cold));
  return all;
}

}  // namespace

int main(int argc, char** argv) { return run_benchmarks(argc, argv, cases, cases_on_file); }
