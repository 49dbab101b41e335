// SPDX-License-Identifier: Apache-2.0
//! @file
//! Time of the planner alone.
//!
//! Counters:
//!   median_ms           median over the repetitions
//!   rows/s, entries/s   rows planned; (row, token) pairs that the rows asked for
//!   union_pages/s       pages in the unions
//!   sharing             pages that the rows asked for over pages in the unions
//!   tiles               16-token tiles of the plan
//!   jaccard, growth_n   overlap of adjacent rows, and of unions of n rows
#include <string>
#include <utility>
#include <vector>

#include <pageunion/planner.cuh>

#include "harness.hpp"
#include "plan_figures.hpp"
#include "policies.hpp"

namespace {

using namespace pageunion;
using namespace pageunion::bench;

//! Whether the planner also counts what it saw.
enum class reporting { off, on };

template <class Policy>
prepared_case prepare(problem_handle const& p, reporting reports) {
  auto const planned = std::make_shared<device_plan<plan_shape_of<Policy>> const>(p->host());
  auto const report =
      std::make_shared<device_array const>(std::vector<plan_report>(1, plan_report{}));
  plan_report* const counted = reports == reporting::on ? report->as<plan_report>() : nullptr;
  prepared_case c            = described(*p, "plan");
  c.enqueue                  = [p, planned, report, counted] {
    check(make_plan(p->device.rows(), p->device.selected(), p->device.operands().cache,
                                     planned->view(), counted, nullptr),
                           "make_plan");
  };
  c.enqueue();
  plan_figures const figures = measure_plan(p->host(), *planned);
  c.facts["tiles"]           = figures.tiles;
  c.facts["sharing"]         = p->sharing.pages_per_row * p->host().num_rows / figures.union_pages;
  c.amounts["rows/s"]        = p->host().num_rows;
  c.amounts["entries/s"]     = p->sharing.asked_tokens;
  c.amounts["union_pages/s"] = figures.union_pages;
  return c;
}

bench_case make_case(std::string name, problem_source const& source, int group_rows,
                     l2_state l2 = l2_state::warm, reporting reports = reporting::off) {
  return {std::move(name), l2, [source, group_rows, reports] {
            problem_handle const p = load(source);
            if (group_rows == group16_policy::group_rows) {
              return prepare<plan_shape_of<group16_policy>>(p, reports);
            }
            return with_policy(p->host(), group_rows,
                               [&](auto policy) { return prepare<decltype(policy)>(p, reports); });
          }};
}

std::vector<bench_case> cases() {
  std::vector<bench_case> all;
  // One axis at a time, the others at their default, so that each table is a curve.
  for (std::string const& name : workload_names()) {
    problem_source const source = generated(*named_workload(name));
    all.push_back(make_case("planner/workload:" + name, source, 8));
    all.push_back(make_case("planner/workload:" + name + "/cold", source, 8, l2_state::cold));
  }
  for (int const rows : {64, 512, 2048, 8192}) {
    all.push_back(make_case("planner/chunk-32k/rows:" + std::to_string(rows),
                            varied("chunk-32k", &problem_spec::num_rows, rows), 8));
  }
  for (auto const& [kind, name] :
       {std::pair{selection_kind::tokens, "tokens"}, std::pair{selection_kind::pages, "pages"}}) {
    all.push_back(make_case(std::string("planner/chunk-32k/selection:") + name,
                            varied("chunk-32k", &problem_spec::kind, kind), 8));
  }
  problem_source const chunk = generated(*named_workload("chunk-32k"));
  for (int const group_rows : {4, 8, 16}) {
    all.push_back(
        make_case("planner/chunk-32k/group_rows:" + std::to_string(group_rows), chunk, group_rows));
  }
  all.push_back(make_case("planner/chunk-32k/report:off", chunk, 8));
  all.push_back(make_case("planner/chunk-32k/report:on", chunk, 8, l2_state::warm, reporting::on));
  for (int const requests : {1, 4, 16}) {
    all.push_back(make_case("planner/fresh-8k/requests:" + std::to_string(requests),
                            varied("fresh-8k", &problem_spec::num_requests, requests), 8));
  }
  return all;
}

std::vector<bench_case> cases_on_file(problem_source const& source) {
  return {make_case("planner/problem", source, widest_groups),
          make_case("planner/problem/cold", source, widest_groups, l2_state::cold)};
}

}  // namespace

int main(int argc, char** argv) { return run_benchmarks(argc, argv, cases, cases_on_file); }
