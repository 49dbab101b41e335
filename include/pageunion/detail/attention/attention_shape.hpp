// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The sizes of an attention kernel, each derived once from a policy and a tuning. Numbers only.
#pragma once

#include <pageunion/element.hpp>
#include <pageunion/plan.hpp>

PAGEUNION_DETAIL_NAMESPACE_BEGIN

//! What a selector gives for code of an architecture.
template <class Policy, class Selector, int Architecture>
struct selected_tuning {
  static constexpr tuning selected = Selector::template select<Policy>(Architecture);
  //! True if code of another architecture has the same tuning, and so the same kernel.
  template <int Other>
  static constexpr bool is_for = Selector::template select<Policy>(Other) == selected;
};

//! What the grouped attention takes of it.
template <class Policy, class Selector, int Architecture>
struct grouped_tuning : selected_tuning<Policy, Selector, Architecture> {
  static constexpr int group_rows             = Policy::group_rows;
  static constexpr attention_tuning attention = grouped_tuning::selected.grouped;
};

//! What the row attention takes: its CTA has one row, an m-tile the heads of a row.
template <class Policy, class Selector, int Architecture>
struct row_tuning : selected_tuning<Policy, Selector, Architecture> {
  static constexpr int group_rows             = 1;
  static constexpr attention_tuning attention = row_tuning::selected.row;
  static constexpr int partition_tokens       = row_tuning::selected.partition_tokens;
};

//! How many rows a group of a policy may have.
template <class Policy>
struct group_limits {
  static constexpr int max_mask_bits = 64;  //!< one bit per (row, token) of a page
  //! More m-tiles have no room: their queries and weights in shared memory, their sums in registers.
  static constexpr int max_m_tiles = Policy::head_dim == 256 ? 6 : 8;

  //! True if a group of this many rows fits.
  static constexpr bool fits(int group_rows) noexcept {
    return group_rows * Policy::page_tokens <= max_mask_bits &&
           group_rows * Policy::heads_per_kv <= max_m_tiles * sm70_limits::mma_dim;
  }
  //! The widest group that fits: groups of 4 rows always do.
  static constexpr int widest = fits(16) ? 16 : fits(8) ? 8 : 4;
};

//! Sizes of one attention kernel.
//! @tparam Tuning grouped_tuning or row_tuning
template <class Policy, class Tuning>
struct attention_shape : plan_shape<Policy::page_tokens, Tuning::group_rows, Policy::heads_per_kv> {
  using plan_shape_type = plan_shape<Policy::page_tokens, Tuning::group_rows, Policy::heads_per_kv>;
  using plan_shape_type::m_rows;
  using plan_shape_type::m_tiles;
  using plan_shape_type::tile_pages;
  using plan_shape_type::tile_tokens;
  using codec  = cache_codec<Policy::cache_element>;
  using tuning = Tuning;

  static constexpr int head_dim     = Policy::head_dim;
  static constexpr int warps        = Tuning::attention.warps;
  static constexpr int warp_tiles   = Tuning::attention.warp_tiles;
  static constexpr int lane_vectors = Tuning::attention.lane_vectors;
  static constexpr int ctas_per_sm  = Tuning::attention.ctas_per_sm;
  static constexpr int threads      = warps * sm70_limits::warp_threads;
  static_assert(head_dim == 64 || head_dim == 128 || head_dim == 256,
                "head_dim must be 64, 128 or 256");
  static_assert(warps == 4 || warps == 8, "warps must be 4 or 8: one or two per quarter of an SM");
  static_assert(warp_tiles == 1 || warp_tiles == 2, "warp_tiles must be 1 or 2");
  static_assert(ctas_per_sm >= 1 && ctas_per_sm <= 4, "ctas_per_sm must be 1 to 4");
  static_assert(lane_vectors == 2 || lane_vectors == 4, "lane_vectors must be 2 or 4");

  static constexpr int padded_m_rows = m_tiles * sm70_limits::mma_dim;
  using limits                       = group_limits<Policy>;
  static_assert(
      m_tiles <= limits::max_m_tiles || limits::widest != 8,
      "group_rows * heads_per_kv must be at most 96 with head_dim 256, else 128: queries and "
      "output sums of more do not fit an SM; the nearest that fits is group_rows 8");
  static_assert(
      m_tiles <= limits::max_m_tiles || limits::widest != 4,
      "group_rows * heads_per_kv must be at most 96 with head_dim 256, else 128: queries and "
      "output sums of more do not fit an SM; the nearest that fits is group_rows 4");

  //! Step: what a CTA attends to between two exchanges of weights, warp_tiles tiles per warp.
  static constexpr int step_tiles  = warps * warp_tiles;
  static constexpr int step_tokens = step_tiles * tile_tokens;
  static constexpr int step_pages  = step_tiles * tile_pages;
  static_assert(step_pages <= sm70_limits::warp_threads,
                "warps * warp_tiles tiles must have at most 32 pages, one per lane: lower "
                "warp_tiles");

  //! Elements that the loads in flight of a warp hold.
  static constexpr int warp_elements =
      lane_vectors * sm70_limits::warp_threads * codec::vector_elements;
  //! Elements of each token's key that a warp stages at once.
  static constexpr int key_dims = warp_elements / (warp_tiles * tile_tokens);

  //! Elements of head_dim whose outputs one warp accumulates, and their 16-wide columns.
  static constexpr int value_dims    = head_dim / warps;
  static constexpr int value_columns = value_dims / sm70_limits::mma_dim;
  static_assert(value_dims % sm70_limits::mma_dim == 0,
                "head_dim / warps must be a multiple of 16: each warp owns whole columns of the "
                "output; take 4 warps");

  //! Tokens whose value_dims elements of V a warp stages at once.
  static constexpr int value_tokens = warp_elements / value_dims;
  static_assert(value_tokens % tile_tokens == 0,
                "lane_vectors * 256 / (head_dim / warps) must be a multiple of 16: a warp stages "
                "whole 16-token tiles of V; take lane_vectors 4, or 8 warps");

  //! Registers of a thread that hold output sums for the whole kernel.
  static constexpr int accumulator_registers =
      m_tiles * value_columns * sm70_limits::accumulator_registers;
  static_assert(accumulator_registers <= 128,
                "the output sums need more than 128 registers of each thread: take 8 warps");
};

PAGEUNION_DETAIL_NAMESPACE_END
