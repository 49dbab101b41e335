// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 4. The plan: for each group, the pages that its rows chose. Views of device memory that
//! the planner writes and the grouped attention reads. Knows the geometry only.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include <pageunion/geometry.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! Bytes that the address of a workspace, and of each array in it, is a multiple of: what cudaMalloc
//! guarantees.
inline constexpr std::size_t workspace_alignment = 256;

//! Where a page lies in the cache, read and written at once. The offset is made in 64 bits by
//! kv_offset().
struct alignas(8) page_address {
  std::int32_t block       = 0;  //!< physical cache block
  std::int32_t first_token = 0;  //!< first token of the page in its cache block
};

//! Pages of every group, ordered by category, the highest (the pages of all bands) first, and then by
//! (request as the group first meets it, page number): by logical things only. Each category is
//! padded to whole tiles with entries whose mask is 0 and whose address is a page of the group, so
//! that it may be read.
template <class Geometry>
struct plan {
  using mask_type = typename Geometry::mask_type;  //!< one bit per (row, token) of a page

  page_address* addresses = nullptr;  //!< [num_groups, capacity]
  //! [num_groups, capacity]; bit row * page_tokens + token is set if the group's row attends to
  //! that token of the page
  mask_type* masks        = nullptr;
  std::int32_t* num_pages = nullptr;  //!< [num_groups], entries in use, padding included
  std::int32_t num_groups = 0;        //!< ceil(rows / group_rows)
  std::int32_t capacity   = 0;        //!< entries of a group, a multiple of tile_pages
};

//! Groups of this many rows; the last may be partial.
template <class Geometry>
constexpr std::int32_t num_groups(std::int32_t num_rows) noexcept {
  return num_rows / Geometry::group_rows + (num_rows % Geometry::group_rows != 0 ? 1 : 0);
}

//! Entries that a group needs in the worst case, no page shared: group_rows * pages_per_row, and
//! the padding of every category.
template <class Geometry>
constexpr std::int64_t group_capacity(std::int64_t pages_per_row) noexcept {
  std::int64_t const pages = Geometry::group_rows * pages_per_row;
  std::int64_t const whole = (pages + Geometry::tile_pages - 1) / Geometry::tile_pages;
  // Each category can leave one tile that is not full.
  return (whole + Geometry::num_categories - 1) * Geometry::tile_pages;
}

//! The category of a page: which bands of m-tiles its mask reaches, one bit per band, never 0 for a
//! mask that is not 0.
template <class Geometry>
__host__ __device__ constexpr int category_of(typename Geometry::mask_type mask) noexcept {
  int category = 0;
  for (int row = 0; row < Geometry::group_rows; ++row) {
    auto const row_bits = static_cast<std::uint32_t>(mask >> (row * Geometry::page_tokens)) &
                          ((1u << Geometry::page_tokens) - 1u);
    if (row_bits != 0) {
      int const first_tile = row * Geometry::heads_per_kv / Geometry::edge;
      int const last_tile  = ((row + 1) * Geometry::heads_per_kv - 1) / Geometry::edge;
      for (int tile = first_tile; tile <= last_tile; ++tile) {
        category |= 1 << (tile * Geometry::num_bands / Geometry::m_tiles);
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
  unsigned long long not_visible;          //!< entries dropped: at or past the row's visible end
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
