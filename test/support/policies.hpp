// SPDX-License-Identifier: Apache-2.0
//! @file
//! Policies that the tests instantiate besides qsa_policy, each for one way in which it differs.
#pragma once

#include <pageunion/geometry.hpp>

namespace pageunion::test {

//! 32 m-rows in two tiles, short heads: half of the default's memory.
struct short_head_policy : qsa_policy {
  static constexpr int heads_per_kv = 4;
  static constexpr int head_dim     = 128;
};

//! QSA on fewer GPUs: 96 m-rows in six tiles, two in each band.
struct twelve_head_policy : qsa_policy {
  static constexpr int heads_per_kv = 12;
  static constexpr int warps        = 8;
  static constexpr int warp_tiles   = 1;
  static constexpr int lane_vectors = 2;
  static constexpr int ctas_per_sm  = 1;
};

//! 16 rows of 4 tokens: masks of 64 bits.
struct wide_group_policy : qsa_policy {
  static constexpr int group_rows   = 16;
  static constexpr int warps        = 8;
  static constexpr int warp_tiles   = 1;
  static constexpr int lane_vectors = 2;
  static constexpr int ctas_per_sm  = 1;
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
  static constexpr int partition_tokens = 128;
};

}  // namespace pageunion::test
