// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. What a plan_report counts of a call's entries, and the adding of a CTA's counts to it. Knows
//! the rules; not how the pages were found.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include <pageunion/detail/selected_runs.cuh>
#include <pageunion/kv_cache.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/rules.hpp>
#include <pageunion/selection.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Counts of one thread, of one group in the end.
struct group_tally {
  using counter = unsigned long long;

  counter entries        = 0;
  counter negative       = 0;
  counter not_visible    = 0;
  counter past_table     = 0;
  counter unmapped_block = 0;
  counter union_pages    = 0;
  counter row_pages      = 0;
  std::uint32_t rows_met = 0;  //!< one bit for each row that has a page

  //! The sum of two threads' counts.
  struct sum {
    __device__ group_tally operator()(group_tally const& a, group_tally const& b) const {
      group_tally both;
      both.entries        = a.entries + b.entries;
      both.negative       = a.negative + b.negative;
      both.not_visible    = a.not_visible + b.not_visible;
      both.past_table     = a.past_table + b.past_table;
      both.unmapped_block = a.unmapped_block + b.unmapped_block;
      both.union_pages    = a.union_pages + b.union_pages;
      both.row_pages      = a.row_pages + b.row_pages;
      both.rows_met       = a.rows_met | b.rows_met;
      return both;
    }
  };
};

template <class Geometry>
__device__ std::int64_t first_token_of(token_table const&, std::int32_t token) {
  return token;
}
template <class Geometry>
__device__ std::int64_t first_token_of(page_table const&, std::int32_t page) {
  return std::int64_t{page} * Geometry::page_tokens;
}
template <class Geometry>
__device__ std::int32_t implied_page(token_table const&, std::int32_t) {
  return -1;
}
template <class Geometry>
__device__ std::int32_t implied_page(page_table const&, std::int32_t end) {
  return tail_page(end, Geometry::page_tokens);
}

//! Counts an entry that begins with this token. All tokens of an entry share its fate: a page lies in
//! one cache block, and of a page that is visible in part the first token is visible.
template <class Table>
__device__ void count_entry(selected_entries<Table> const& selected, std::int32_t request,
                            std::int64_t token, std::int32_t end, group_tally& mine) {
  block_table const& blocks = selected.blocks;
  mine.entries += 1;
  switch (check_token(token, end, selected.block_tokens, blocks.width)) {
    case drop_reason::negative:
      mine.negative += 1;
      break;
    case drop_reason::not_visible:
      mine.not_visible += 1;
      break;
    case drop_reason::past_table:
      mine.past_table += 1;
      break;
    default:
      std::int64_t const entry = request * blocks.row_stride + token / selected.block_tokens;
      if (!is_mapped(blocks.table[entry], selected.num_blocks)) {
        mine.unmapped_block += 1;
      }
  }
}

//! Counts this thread's share of a row's entries; all threads of the CTA call it.
template <class Geometry, class Table>
__device__ void count_entries(selected_entries<Table> const& selected, std::int32_t row,
                              group_tally& mine) {
  Table const& table         = selected.table;
  std::int32_t const request = selected.rows.row_request[row];
  if (!is_request(request, selected.blocks.num_requests)) {
    return;
  }
  std::int32_t const end =
      visible_end(selected.rows.row_position[row], selected.rows.sequence_length[request]);
  std::int32_t const* const entries = row_entries(table, row);
  auto const num_entries            = static_cast<std::uint32_t>(num_row_entries(table, row));
  for (std::uint32_t i = threadIdx.x; i < num_entries; i += blockDim.x) {
    count_entry(selected, request, first_token_of<Geometry>(table, entries[i]), end, mine);
  }
  std::int32_t const tail = implied_page<Geometry>(table, end);
  if (threadIdx.x == 0 && tail >= 0) {
    count_entry(selected, request, first_token_of<Geometry>(table, tail), end, mine);
  }
}

//! Adds the counts of the group of rows [first_row, first_row + num_rows); one thread calls it. Sums do
//! not depend on the order in which the groups add.
//! @param padded_pages entries of the group, padding included
template <class Table>
__device__ void add_to_report(plan_report& report, selected_entries<Table> const& selected,
                              std::int32_t first_row, std::int32_t num_rows, group_tally const& all,
                              std::int32_t padded_pages) {
  using counter    = group_tally::counter;
  counter bad_rows = 0;
  for (std::int32_t row = first_row; row < first_row + num_rows; ++row) {
    bad_rows += is_request(selected.rows.row_request[row], selected.blocks.num_requests) ? 0 : 1;
  }
  counter const bin      = all.union_pages / plan_report::bin_pages;
  constexpr counter last = plan_report::num_bins - 1;
  atomicAdd(&report.rows, static_cast<counter>(num_rows));
  atomicAdd(&report.bad_request_rows, bad_rows);
  atomicAdd(&report.empty_rows, static_cast<counter>(num_rows - __popc(all.rows_met)));
  atomicAdd(&report.entries, all.entries);
  atomicAdd(&report.negative, all.negative);
  atomicAdd(&report.not_visible, all.not_visible);
  atomicAdd(&report.past_table, all.past_table);
  atomicAdd(&report.unmapped_block, all.unmapped_block);
  atomicAdd(&report.groups, counter{1});
  atomicAdd(&report.union_pages, all.union_pages);
  atomicAdd(&report.padded_pages, static_cast<counter>(padded_pages));
  atomicAdd(&report.row_pages, all.row_pages);
  atomicMax(&report.largest_union, all.union_pages);
  atomicAdd(&report.histogram[bin < last ? bin : last], counter{1});
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
