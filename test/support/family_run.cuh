// SPDX-License-Identifier: Apache-2.0
//! @file
//! What every geometry of the family has to do right.
#pragma once

#include <pageunion/operands.hpp>
#include <pageunion/prefill.cuh>
#include <pageunion/selection.hpp>

#include "catch.hpp"
#include "prefill_run.cuh"

namespace pageunion::test {

//! Both routes against the reference: both forms of selections, half and float outputs, one and two
//! KV heads, a partial last group, holes, parts of pages, and NaN wherever no row attends.
template <class Policy>
void require_family_member() {
  problem_spec spec    = spec_of<Policy>();
  bool const is_first  = GENERATE(true, false);
  route const wanted   = GENERATE(from_range(all_routes()));
  spec.kind            = is_first ? selection_kind::tokens : selection_kind::pages;
  spec.out_type        = is_first ? element_type::f16 : element_type::f32;
  spec.lse_base        = is_first ? log_base::natural : log_base::two;
  spec.num_kv_heads    = is_first ? 1 : 2;
  spec.token_density   = 0.7;
  spec.holes           = 0.1;
  spec.foreign_entries = 0.1;
  spec.num_rows        = 2 * Policy::group_rows + 3;
  spec.num_requests    = 2;
  spec.block_tokens    = 48;
  spec.lengths         = {300, 170};
  CAPTURE(spec.kind, wanted);
  REQUIRE(prefill_run<Policy>(make_problem(spec), wanted).run_faults() == "");
}

}  // namespace pageunion::test
