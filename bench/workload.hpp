// SPDX-License-Identifier: Apache-2.0
//! @file
//! Synthetic problems whose rows overlap as the rows of real prompts do, and the figures that say how
//! much they overlap. Host memory only; knows no kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/make_problem.hpp"

namespace pageunion::bench {

//! Problems are those of the tests.
using namespace test;

//! How much the rows of a problem share.
struct overlap {
  double jaccard       = 0.0;  //!< mean over adjacent rows of |A and B| / |A or B|, in pages
  double growth[4]     = {};  //!< pages of a union of 2, 4, 8, 16 rows over the mean pages of a row
  double pages_per_row = 0.0;  //!< mean
  double asked_tokens  = 0.0;  //!< (row, token) pairs of all rows
  double asked_flop    = 0.0;  //!< of both products over these pairs, for all query heads
};

//! Row counts of overlap::growth.
inline constexpr int growth_rows[4] = {2, 4, 8, 16};

//! The workloads by name: fresh-8k, chunk-32k, long-tail, long-tail-131k, disjoint, verify.
std::optional<problem_spec> named_workload(std::string_view name);

//! The names that named_workload() knows.
std::vector<std::string> workload_names();

//! A step of the overlap sweep: 8,192 rows at the end of 32,768 tokens whose union growth at 8 rows
//! climbs with `step`, from 1.05 (step 0) to 3.96 (the last).
problem_spec overlap_step(int step);

//! Steps of overlap_step().
inline constexpr int num_overlap_steps = 7;

//! Gives all requests of a workload so many tokens, this call's rows included.
void set_context(problem_spec& workload, int tokens);

//! The problem of a workload. Its tables are as wide as its pages need.
host_problem make_workload(problem_spec const& workload);

//! The same without Q, K and V.
host_problem make_tables(problem_spec const& workload);

//! Measures the overlap of a problem's selection, tail pages included.
overlap measure_overlap(host_problem const& p);

//! One line: Jaccard and growth, for people.
std::string to_string(overlap const& o);

}  // namespace pageunion::bench
