// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. What a CTA knows of its group's rows before it reads their selections.
#pragma once

#include <pageunion/detail/selection/selection_reader.cuh>
#include <pageunion/tuning.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Rows and requests of a group, in shared memory.
//!
//! The group's page space: the pages that its rows can see, request after request in the order in
//! which the rows meet them. A plan orders the pages of a category by their place in this space.
template <class Shape>
struct group_facts {
  static constexpr auto group_rows = Shape::group_rows;

  std::int64_t num_pages;                       //!< pages of the page space
  std::int64_t first_page[group_rows];          //!< per row: where its request's pages begin
  std::int64_t request_first_page[group_rows];  //!< per request: the same
  std::int64_t request_blocks[group_rows];      //!< per request: its row of the block table
  token_range tokens[group_rows];               //!< per row: visible and mappable
  std::int32_t num_entries[group_rows];         //!< per row: entries to read
  std::int32_t num_requests;                    //!< requests with a page
};

//! Fills the facts of the group whose first row is `first_row`. Called by one whole warp.
template <class Shape>
__device__ void read_group_facts(selected_entries const& from, std::int32_t first_row,
                                 group_facts<Shape>& facts) {
  constexpr int group_rows    = Shape::group_rows;
  constexpr unsigned all_rows = 0xffffffffu;
  int const r                 = static_cast<int>(threadIdx.x) % sm70_limits::warp_threads;
  std::int32_t request        = -1;
  token_range tokens{};
  std::int32_t num_entries = 0;
  if (r < group_rows && first_row + r < from.rows.num_rows) {
    std::int32_t const row = first_row + r;
    request                = from.rows.row_request[row];
    request                = is_request(request, from.blocks.num_requests) ? request : -1;
    tokens                 = admitted_tokens(from, row);
    num_entries            = num_row_entries(from.selected, row);
  }
  std::int32_t const pages = static_cast<std::int32_t>(
      (tokens.end + std::int64_t{Shape::page_tokens} - 1) / Shape::page_tokens);
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
    facts.tokens[r]      = tokens;
    facts.num_entries[r] = num_entries;
  }
  if (extent > 0) {
    int const index                 = __popc(leaders & ((1u << r) - 1u));
    facts.request_first_page[index] = first_page;
    facts.request_blocks[index]     = request * from.blocks.row_stride;
  }
  if (r == 0) {
    facts.num_pages    = num_pages;
    facts.num_requests = __popc(leaders);
  }
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
