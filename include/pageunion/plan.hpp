// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 4. The plan: for each group, the pages that its rows chose. Views of device memory that the
//! planner writes and the grouped attention reads, and what of a policy they depend on.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <pageunion/tuning.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! All that the planner, a plan and a report see of a policy: those that agree in it share the
//! planner's kernels. Named by its numbers for that reason; use plan_shape_of.
template <int PageTokens, int GroupRows, int HeadsPerKv>
struct plan_shape {
  static constexpr int page_tokens  = PageTokens;  //!< the policy's three numbers
  static constexpr int group_rows   = GroupRows;
  static constexpr int heads_per_kv = HeadsPerKv;
  static_assert(page_tokens == 4 || page_tokens == 8 || page_tokens == 16,
                "page_tokens must be 4, 8 or 16: a 16-token tile holds whole pages");
  static_assert(group_rows == 1 || group_rows == 4 || group_rows == 8 || group_rows == 16,
                "group_rows must be 4, 8 or 16, or 1 for row attention");
  static_assert(heads_per_kv >= 1 && heads_per_kv <= 16,
                "heads_per_kv must be 1 to 16: a row's heads fill at most one 16-row tile");

  //! Bits of a page's mask: bit row * page_tokens + token is set if the group's row attends to the token.
  static constexpr int mask_bits = group_rows * page_tokens;
  static_assert(mask_bits <= 64 || page_tokens != 8,
                "group_rows * page_tokens must be at most 64: one bit per (row, token) of a page; "
                "the nearest that fits is group_rows 8");
  static_assert(mask_bits <= 64 || page_tokens != 16,
                "group_rows * page_tokens must be at most 64: one bit per (row, token) of a page; "
                "the nearest that fits is group_rows 4");
  using mask_type = std::conditional_t<(mask_bits <= 32), std::uint32_t, std::uint64_t>;

  //! Tile: the tokens of a column of the matrix product. A category's pages are padded to whole tiles.
  static constexpr int tile_tokens = sm70_limits::mma_dim;
  static constexpr int tile_pages  = tile_tokens / page_tokens;

  //! m-rows: (row, head) pairs of a group, row-major, padded to whole 16-row tiles.
  static constexpr int m_rows  = group_rows * heads_per_kv;
  static constexpr int m_tiles = (m_rows + sm70_limits::mma_dim - 1) / sm70_limits::mma_dim;

  //! Bands: runs of m-tiles that a category tells apart; three at most, so that there are at most
  //! seven categories. With three m-tiles or fewer a band is an m-tile.
  static constexpr int num_bands      = m_tiles < 3 ? m_tiles : 3;
  static constexpr int num_categories = (1 << num_bands) - 1;
};

//! The plan_shape of a policy.
template <class Policy>
using plan_shape_of = plan_shape<Policy::page_tokens, Policy::group_rows, Policy::heads_per_kv>;

//! Addresses of a workspace and of its arrays are multiples of it, in bytes: what cudaMalloc guarantees.
inline constexpr std::size_t workspace_alignment = 256;

//! Where a page lies in the cache, read and written at once; kv_offset() makes of it a 64-bit offset.
struct alignas(8) page_address {
  std::int32_t block       = 0;  //!< physical cache block
  std::int32_t first_token = 0;  //!< first token of the page in its cache block
};

//! Pages of every group, ordered by category, the highest (the pages of all bands) first, and then by
//! (request as the group first meets it, page number): by logical things only. Each category is
//! padded to whole tiles with entries whose mask is 0 and whose address is a page of the group, so
//! that it may be read.
template <class Shape>
struct plan {
  using mask_type = typename Shape::mask_type;  //!< one bit per (row, token) of a page

  page_address* addresses = nullptr;  //!< [num_groups, capacity]
  mask_type* masks        = nullptr;  //!< [num_groups, capacity], bits as plan_shape says
  std::int32_t* num_pages = nullptr;  //!< [num_groups], entries in use, padding included
  std::int32_t num_groups = 0;        //!< ceil(rows / group_rows)
  std::int32_t capacity   = 0;        //!< entries of a group, a multiple of tile_pages
};

//! Groups of this many rows; the last may be partial.
template <class Shape>
constexpr std::int32_t num_groups(std::int32_t num_rows) noexcept {
  return num_rows / Shape::group_rows + (num_rows % Shape::group_rows != 0 ? 1 : 0);
}

//! Entries that a group needs in the worst case, no page shared: group_rows * pages_per_row, and
//! the padding of every category.
template <class Shape>
constexpr std::int64_t group_capacity(std::int64_t pages_per_row) noexcept {
  std::int64_t const pages = Shape::group_rows * pages_per_row;
  std::int64_t const whole = (pages + Shape::tile_pages - 1) / Shape::tile_pages;
  // Each category can leave one tile that is not full.
  return (whole + Shape::num_categories - 1) * Shape::tile_pages;
}

//! The category of a page: the bands of m-tiles that its mask reaches, one bit each; 0 only if the mask is.
template <class Shape>
__host__ __device__ constexpr int category_of(typename Shape::mask_type mask) noexcept {
  int category = 0;
  for (int row = 0; row < Shape::group_rows; ++row) {
    auto const row_bits = static_cast<std::uint32_t>(mask >> (row * Shape::page_tokens)) &
                          ((1u << Shape::page_tokens) - 1u);
    if (row_bits != 0) {
      int const first_tile = row * Shape::heads_per_kv / Shape::tile_tokens;
      int const last_tile  = ((row + 1) * Shape::heads_per_kv - 1) / Shape::tile_tokens;
      for (int tile = first_tile; tile <= last_tile; ++tile) {
        category |= 1 << (tile * Shape::num_bands / Shape::m_tiles);
      }
    }
  }
  return category;
}

//! What a planning call saw and dropped. Lives on the device, optional; the caller sets it to zero,
//! and every planning call adds to it. All counters are exact and do not depend on scheduling. Pages
//! that were dropped for lack of capacity are counted as such, and in no other number of entries or pages;
//! a row that has lost all of its pages to it is an empty one.
struct plan_report {
  //! Bins of the union histogram: bin b counts groups whose union has [64 b, 64 (b + 1)) pages; the
  //! last bin counts everything beyond.
  static constexpr int num_bins  = 72;
  static constexpr int bin_pages = 64;

  unsigned long long rows;              //!< rows planned
  unsigned long long bad_request_rows;  //!< rows whose request is outside [0, num_requests)
  unsigned long long empty_rows;        //!< rows with no token, those of bad requests included
  unsigned long long entries;   //!< entries inside the counts of good rows, implied tails included
  unsigned long long negative;  //!< entries dropped: negative
  unsigned long long not_visible;          //!< entries dropped: outside the row's visible range
  unsigned long long past_table;           //!< entries dropped: past the block table's width
  unsigned long long unmapped_block;       //!< entries dropped: physical block does not exist
  unsigned long long over_capacity;        //!< pages dropped: max_pages was too small
  unsigned long long groups;               //!< groups planned
  unsigned long long union_pages;          //!< pages of all unions, without padding
  unsigned long long padded_pages;         //!< entries of all groups, padding included
  unsigned long long row_pages;            //!< (row, page) pairs: what the rows would load alone
  unsigned long long largest_union;        //!< pages of the largest union
  unsigned long long histogram[num_bins];  //!< groups by union size
};

PAGEUNION_NAMESPACE_END
