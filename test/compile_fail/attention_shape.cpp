// SPDX-License-Identifier: Apache-2.0
// Each case breaks one rule of a policy or of a tuning.
// expect-error POLICY(page_tokens = 2): page_tokens must be 4, 8 or 16
// expect-error POLICY(group_rows = 2): group_rows must be 4, 8 or 16, or 1 for row attention
// expect-error POLICY(heads_per_kv = 0): heads_per_kv must be 1 to 16
// expect-error POLICY(heads_per_kv = 17): heads_per_kv must be 1 to 16
// expect-error POLICY(head_dim = 96): head_dim must be 64, 128 or 256
// expect-error TUNING(warps = 3): warps must be 4 or 8
// expect-error TUNING(ctas_per_sm = 5): ctas_per_sm must be 1 to 4
// expect-error POLICY(group_rows = 16, page_tokens = 8): group_rows * page_tokens must be at most 64: one bit per (row, token) of a page; the nearest that fits is group_rows 8
// expect-error POLICY(head_dim = 64) TUNING(warps = 8): head_dim / warps must be a multiple of 16
// expect-error POLICY(heads_per_kv = 12): the output sums need more than 128 registers of each thread
// expect-error TUNING(warp_tiles = 3): warp_tiles must be 1 or 2
// expect-error TUNING(warps = 8): warps * warp_tiles tiles must have at most 32 pages
// expect-error TUNING(lane_vectors = 3): lane_vectors must be 2 or 4
// expect-error POLICY(page_tokens = 16): group_rows * page_tokens must be at most 64: one bit per (row, token) of a page; the nearest that fits is group_rows 4
// expect-error POLICY(group_rows = 16, heads_per_kv = 12): queries and output sums of more do not fit an SM; the nearest that fits is group_rows 8
// expect-error POLICY(group_rows = 16, heads_per_kv = 16): queries and output sums of more do not fit an SM; the nearest that fits is group_rows 4
// expect-error TUNING(lane_vectors = 2): lane_vectors * 256 / (head_dim / warps) must be a multiple of 16
#include <pageunion/detail/attention/attention_shape.hpp>
#include <pageunion/policy.hpp>

struct policy : pageunion::qsa_policy {
#ifdef POLICY
  static constexpr int POLICY;
#endif
};

struct selector {
  template <class Policy>
  static constexpr pageunion::tuning select(int) noexcept {
    pageunion::tuning chosen = pageunion::default_tuning::select<pageunion::qsa_policy>(700);
#ifdef TUNING
    chosen.grouped.TUNING;
#endif
    return chosen;
  }
};

template struct pageunion::detail::attention_shape<
    policy, pageunion::detail::grouped_tuning<policy, selector, 700>>;
