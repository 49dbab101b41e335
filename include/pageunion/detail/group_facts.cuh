// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. What a CTA knows of the rows of its group before it reads their selections. Knows the
//! batch and the block table's shape.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include <pageunion/detail/selected_runs.cuh>
#include <pageunion/geometry.hpp>
#include <pageunion/kv_cache.hpp>
#include <pageunion/rules.hpp>
#include <pageunion/selection.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Rows and requests of a group, in shared memory.
//!
//! The group's page space: the pages that its rows can see, request after request in the order in
//! which the rows meet them. A plan orders the pages of a category by their place in this space.
template <class Geometry>
struct group_facts {
  static constexpr int group_rows = Geometry::group_rows;

  std::int64_t num_pages;                       //!< pages of the page space
  std::int64_t first_page[group_rows];          //!< per row: where its request's pages begin
  std::int64_t request_first_page[group_rows];  //!< per request: the same
  std::int64_t request_blocks[group_rows];      //!< per request: its row of the block table
  std::int32_t end[group_rows];          //!< per row: tokens [0, end) are visible and mappable
  std::int32_t num_entries[group_rows];  //!< per row: entries to read
  std::int32_t num_requests;             //!< requests with a page
};

//! Fills the facts of the group whose first row is `first_row`. Called by one whole warp.
//! @param table_tokens tokens that the block table can map for a request
template <class Geometry, class Table>
__device__ void read_group_facts(batch const& rows, Table const& table, block_table const& blocks,
                                 std::int32_t table_tokens, std::int32_t first_row,
                                 group_facts<Geometry>& facts) {
  constexpr int group_rows    = Geometry::group_rows;
  constexpr unsigned all_rows = 0xffffffffu;
  int const r                 = static_cast<int>(threadIdx.x) % sm70_limits::warp_threads;
  std::int32_t request        = -1;
  std::int32_t end            = 0;
  std::int32_t num_entries    = 0;
  if (r < group_rows && first_row + r < rows.num_rows) {
    std::int32_t const row      = first_row + r;
    std::int32_t const named    = rows.row_request[row];
    std::int64_t const position = rows.row_position[row];
    num_entries                 = num_row_entries(table, row);
    if (is_request(named, blocks.num_requests)) {
      request = named;
      end     = visible_end(position, rows.sequence_length[request]);
      end     = end < table_tokens ? end : table_tokens;
    }
  }
  std::int32_t const pages = static_cast<std::int32_t>(
      (end + std::int64_t{Geometry::page_tokens} - 1) / Geometry::page_tokens);
  // A request's pages are as many as its farthest row sees. Its first row stands for it.
  int leader          = r;
  std::int32_t extent = 0;
#pragma unroll
  for (int other = group_rows - 1; other >= 0; --other) {
    bool const is_same             = __shfl_sync(all_rows, request, other) == request;
    std::int32_t const other_pages = __shfl_sync(all_rows, pages, other);
    leader                         = is_same && other < leader ? other : leader;
    extent                         = is_same && other_pages > extent ? other_pages : extent;
  }
  extent = leader == r && r < group_rows && request >= 0 ? extent : 0;

  std::int64_t first_page = 0;
  std::int64_t num_pages  = 0;
#pragma unroll
  for (int other = 0; other < group_rows; ++other) {
    std::int32_t const other_extent = __shfl_sync(all_rows, extent, other);
    first_page += other < leader ? other_extent : 0;
    num_pages += other_extent;
  }
  unsigned const leaders = __ballot_sync(all_rows, extent > 0);
  if (r < group_rows) {
    facts.first_page[r]  = first_page;
    facts.end[r]         = end;
    facts.num_entries[r] = end > 0 ? num_entries : 0;
  }
  if (extent > 0) {
    int const index                 = __popc(leaders & ((1u << r) - 1u));
    facts.request_first_page[index] = first_page;
    facts.request_blocks[index]     = request * blocks.row_stride;
  }
  if (r == 0) {
    facts.num_pages    = num_pages;
    facts.num_requests = __popc(leaders);
  }
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
