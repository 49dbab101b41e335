// SPDX-License-Identifier: Apache-2.0
//! @file
//! Policies that the tests instantiate besides qsa_policy, each for one way in which it differs, and the
//! tuning that they are run with.
#pragma once

#include <pageunion/plan.hpp>
#include <pageunion/policy.hpp>
#include <pageunion/tuning.hpp>

namespace pageunion::test {

//! default_tuning, changed by what a policy of the tests says in its tune().
struct policy_tuning {
  template <class Policy>
  static constexpr tuning select(int architecture) noexcept {
    tuning chosen = default_tuning::select<Policy>(architecture);
    change<Policy>(chosen, 0);
    return chosen;
  }

 private:
  template <class Policy>
  static constexpr auto change(tuning& chosen, int) noexcept -> decltype(Policy::tune(chosen)) {
    Policy::tune(chosen);
  }
  template <class Policy>
  static constexpr void change(tuning&, long) noexcept {}
};

//! What a plan of single rows sees of a policy.
template <class Policy>
using row_shape_of = plan_shape<Policy::page_tokens, 1, Policy::heads_per_kv>;

//! 32 m-rows in two tiles, short heads: half of the default's memory.
struct short_head_policy : qsa_policy {
  static constexpr int heads_per_kv = 4;
  static constexpr int head_dim     = 128;
};

//! QSA on fewer GPUs: 96 m-rows in six tiles, two in each band.
struct twelve_head_policy : qsa_policy {
  static constexpr int heads_per_kv = 12;
};

//! 16 rows of 4 tokens: masks of 64 bits.
struct wide_group_policy : qsa_policy {
  static constexpr int group_rows = 16;
};

//! One m-tile, one category, a page to a tile.
struct wide_page_policy : qsa_policy {
  static constexpr int page_tokens  = 16;
  static constexpr int group_rows   = 4;
  static constexpr int heads_per_kv = 3;
  static constexpr int head_dim     = 64;
};

//! Row attention in partitions of 128 tokens: a few pages are several partitions.
struct short_partition_policy : qsa_policy {
  static constexpr void tune(tuning& chosen) noexcept { chosen.partition_tokens = 128; }
};

//! Automatic routing by row as long as row attention can.
struct every_row_policy : qsa_policy {
  static constexpr void tune(tuning& chosen) noexcept {
    chosen.row_route_rows_per_sm = 1e9;
    chosen.row_route_rows        = 1 << 30;
  }
};

}  // namespace pageunion::test
