// SPDX-License-Identifier: Apache-2.0
// Case 0 is the control: it compiles. Every other case breaks one rule of a policy or of a tuning.
// expect-error 1: page_tokens must be 4, 8 or 16
// expect-error 2: group_rows must be 4, 8 or 16, or 1 for row attention
// expect-error 3: heads_per_kv must be 1 to 16
// expect-error 4: heads_per_kv must be 1 to 16
// expect-error 5: head_dim must be 64, 128 or 256
// expect-error 6: warps must be 4 or 8
// expect-error 7: ctas_per_sm must be 1 to 4
// expect-error 8: group_rows * page_tokens must be at most 64: one bit per (row, token) of a page; the nearest that fits is group_rows 8
// expect-error 9: head_dim / warps must be a multiple of 16
// expect-error 10: the output sums need more than 128 registers of each thread
// expect-error 11: warp_tiles must be 1 or 2
// expect-error 12: warps * warp_tiles tiles must have at most 32 pages
// expect-error 13: lane_vectors must be 2 or 4
// expect-error 14: group_rows * page_tokens must be at most 64: one bit per (row, token) of a page; the nearest that fits is group_rows 4
// expect-error 15: queries and output sums of more do not fit an SM; the nearest that fits is group_rows 8
// expect-error 16: queries and output sums of more do not fit an SM; the nearest that fits is group_rows 4
// expect-error 17: lane_vectors * 256 / (head_dim / warps) must be a multiple of 16
#include <pageunion/detail/attention/attention_shape.hpp>
#include <pageunion/policy.hpp>

struct policy : pageunion::qsa_policy {
#if PAGEUNION_CASE == 1
  static constexpr int page_tokens = 2;
#elif PAGEUNION_CASE == 2
  static constexpr int group_rows = 2;
#elif PAGEUNION_CASE == 3
  static constexpr int heads_per_kv = 0;
#elif PAGEUNION_CASE == 4
  static constexpr int heads_per_kv = 17;
#elif PAGEUNION_CASE == 5
  static constexpr int head_dim = 96;
#elif PAGEUNION_CASE == 8
  static constexpr int group_rows  = 16;
  static constexpr int page_tokens = 8;
#elif PAGEUNION_CASE == 9
  static constexpr int head_dim = 64;
#elif PAGEUNION_CASE == 10
  static constexpr int heads_per_kv = 12;
#elif PAGEUNION_CASE == 14
  static constexpr int page_tokens = 16;
#elif PAGEUNION_CASE == 15
  static constexpr int group_rows   = 16;
  static constexpr int heads_per_kv = 12;
#elif PAGEUNION_CASE == 16
  static constexpr int group_rows   = 16;
  static constexpr int heads_per_kv = 16;
#endif
};

struct selector {
  template <class Policy>
  static constexpr pageunion::tuning select(int) noexcept {
    pageunion::tuning chosen = pageunion::default_tuning::select<pageunion::qsa_policy>(700);
#if PAGEUNION_CASE == 6
    chosen.grouped.warps = 3;
#elif PAGEUNION_CASE == 7
    chosen.grouped.ctas_per_sm = 5;
#elif PAGEUNION_CASE == 9
    chosen.grouped.warps = 8;
#elif PAGEUNION_CASE == 11
    chosen.grouped.warp_tiles = 3;
#elif PAGEUNION_CASE == 12
    chosen.grouped.warps = 8;
#elif PAGEUNION_CASE == 13
    chosen.grouped.lane_vectors = 3;
#elif PAGEUNION_CASE == 17
    chosen.grouped.lane_vectors = 2;
#endif
    return chosen;
  }
};

template struct pageunion::detail::attention_shape<
    policy, pageunion::detail::grouped_tuning<policy, selector, 700>>;
