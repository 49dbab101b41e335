// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Fills a plan_report: from selections and their finished plan, or from the selections of rows
//! that are attended to one by one. Kernels of their own, so that a call without a report pays nothing.
#pragma once

#include <cub/block/block_reduce.cuh>

#include <pageunion/detail/host/launch.cuh>
#include <pageunion/detail/selection/row_lister.cuh>
#include <pageunion/plan.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Counts of one thread, of one group in the end.
struct report_counters {
  using counter                    = unsigned long long;
  static constexpr int num_reasons = static_cast<int>(drop_reason::unmapped_block) + 1;

  counter entries[num_reasons] = {};  //!< by drop_reason
  counter union_pages          = 0;
  counter row_pages            = 0;
  std::uint32_t rows_met       = 0;  //!< one bit for each row that has a page

  //! Counts one entry.
  __device__ void add(drop_reason reason) {
#pragma unroll
    for (int r = 0; r < num_reasons; ++r) {
      entries[r] += static_cast<int>(reason) == r ? 1 : 0;
    }
  }

  //! The sum of two threads' counts.
  struct sum {
    __device__ report_counters operator()(report_counters both,
                                          report_counters const& other) const {
#pragma unroll
      for (int r = 0; r < num_reasons; ++r) {
        both.entries[r] += other.entries[r];
      }
      both.union_pages += other.union_pages;
      both.row_pages += other.row_pages;
      both.rows_met |= other.rows_met;
      return both;
    }
  };
};

//! Why an entry for which this token stands is dropped.
__device__ inline drop_reason check_entry(selected_entries const& from, std::int32_t request,
                                          std::int64_t token, token_range visible) {
  block_table const& blocks = from.blocks;
  drop_reason const reason  = check_token(token, visible, from.block_tokens, blocks.width);
  if (reason != drop_reason::none) {
    return reason;
  }
  std::int64_t const entry = request * blocks.row_stride + token / from.block_tokens;
  return is_mapped(blocks.table[entry], from.num_blocks) ? reason : drop_reason::unmapped_block;
}

//! Counts this thread's share of a row's entries; all threads of the CTA call it.
template <int PageTokens>
__device__ void count_entries(selected_entries const& from, std::int32_t row,
                              report_counters& mine) {
  std::int32_t const request = from.rows.row_request[row];
  if (!is_request(request, from.blocks.num_requests)) {
    return;
  }
  token_range const visible =
      visible_tokens(from.rows.row_position[row], from.rows.sequence_length[request]);
  auto const num_entries = static_cast<std::uint32_t>(num_row_entries(from.selected, row));
  read_row<PageTokens>(from.selected, row, [&](auto const& entries) {
    auto const count = [&](std::int32_t entry) {
      mine.add(check_entry(from, request, entries.token_of(entry, visible), visible));
    };
    for (std::uint32_t i = threadIdx.x; i < num_entries; i += blockDim.x) {
      count(entries.entry(i));
    }
    std::int32_t const tail = entries.has_pages ? tail_page(visible.end, PageTokens) : -1;
    if (threadIdx.x == 0 && tail >= 0) {
      count(tail);
    }
  });
}

//! Adds the counts of the group of rows [first_row, first_row + num_rows); one thread calls it. Sums do
//! not depend on the order in which the groups add.
//! @param padded_pages entries of the group, padding included
__device__ inline void add_to_report(plan_report& report, selected_entries const& from,
                                     std::int32_t first_row, std::int32_t num_rows,
                                     report_counters const& all, std::int32_t padded_pages) {
  using counter    = report_counters::counter;
  counter bad_rows = 0;
  for (std::int32_t row = first_row; row < first_row + num_rows; ++row) {
    bad_rows += is_request(from.rows.row_request[row], from.blocks.num_requests) ? 0 : 1;
  }
  counter num_entries = 0;
  for (counter const entries : all.entries) {
    num_entries += entries;
  }
  auto const dropped = [&all](drop_reason reason) { return all.entries[static_cast<int>(reason)]; };
  counter const bin  = all.union_pages / plan_report::bin_pages;
  constexpr counter last = plan_report::num_bins - 1;
  atomicAdd(&report.rows, static_cast<counter>(num_rows));
  atomicAdd(&report.bad_request_rows, bad_rows);
  atomicAdd(&report.empty_rows, static_cast<counter>(num_rows - __popc(all.rows_met)));
  atomicAdd(&report.entries, num_entries);
  atomicAdd(&report.negative, dropped(drop_reason::negative));
  atomicAdd(&report.not_visible, dropped(drop_reason::not_visible));
  atomicAdd(&report.past_table, dropped(drop_reason::past_table));
  atomicAdd(&report.unmapped_block, dropped(drop_reason::unmapped_block));
  atomicAdd(&report.groups, counter{1});
  atomicAdd(&report.union_pages, all.union_pages);
  atomicAdd(&report.padded_pages, static_cast<counter>(padded_pages));
  atomicAdd(&report.row_pages, all.row_pages);
  atomicMax(&report.largest_union, all.union_pages);
  atomicAdd(&report.histogram[bin < last ? bin : last], counter{1});
}

template <class Shape>
struct group_report_params {
  selected_entries from;
  plan<Shape> planned;
  plan_report* report = nullptr;
};

//! One CTA's counts of one group: the entries of its rows, the pages of its plan.
template <class Shape>
struct group_report {
  static constexpr int threads = 256;
  using reduce                 = CUB_NS_QUALIFIER::BlockReduce<report_counters, threads>;
  using shared_storage         = typename reduce::TempStorage;

  static __device__ void count_pages(plan<Shape> const& planned, std::int32_t group,
                                     report_counters& mine) {
    auto const* const masks = planned.masks + std::int64_t{group} * planned.capacity;
    auto const num_pages    = static_cast<std::uint32_t>(planned.num_pages[group]);
    for (std::uint32_t i = threadIdx.x; i < num_pages; i += threads) {
      auto const mask = masks[i];
      mine.union_pages += mask != 0 ? 1 : 0;
      for (int row = 0; row < Shape::group_rows; ++row) {
        bool const has_page = (static_cast<std::uint32_t>(mask >> (row * Shape::page_tokens)) &
                               ((1u << Shape::page_tokens) - 1u)) != 0;
        mine.row_pages += has_page ? 1 : 0;
        mine.rows_met |= has_page ? 1u << row : 0;
      }
    }
  }
};

//! Entry of the device code: one CTA per group.
template <class Shape>
__global__ void __launch_bounds__(group_report<Shape>::threads)
    group_report_kernel(group_report_params<Shape> const params) {
  using report           = group_report<Shape>;
  auto const group       = static_cast<std::int32_t>(blockIdx.x);
  std::int32_t const row = group * Shape::group_rows;
  std::int32_t const end = params.from.rows.num_rows - row < Shape::group_rows
                               ? params.from.rows.num_rows
                               : row + Shape::group_rows;
  report_counters mine;
  for (std::int32_t r = row; r < end; ++r) {
    count_entries<Shape::page_tokens>(params.from, r, mine);
  }
  report::count_pages(params.planned, group, mine);
  auto& smem                = dynamic_smem<typename report::shared_storage>();
  report_counters const all = typename report::reduce(smem).Reduce(mine, report_counters::sum());
  if (threadIdx.x == 0) {
    add_to_report(*params.report, params.from, row, end - row, all,
                  params.planned.num_pages[group]);
  }
}

struct row_report_params {
  selected_entries from;
  std::int32_t page_limit = 0;  //!< pages that a row may have
  plan_report* report     = nullptr;
};

//! What a CTA of the row report has.
template <int PageTokens>
struct row_report {
  static constexpr int threads = 128;
  using lister                 = row_lister<PageTokens, threads>;
  using reduce                 = CUB_NS_QUALIFIER::BlockReduce<report_counters, threads>;

  struct shared_storage {
    typename lister::shared_storage listing;
    typename reduce::TempStorage sum;
  };
};

//! Entry of the device code: one CTA per row.
template <int PageTokens>
__global__ void __launch_bounds__(row_report<PageTokens>::threads)
    row_report_kernel(row_report_params const params) {
  using report        = row_report<PageTokens>;
  using counter       = report_counters::counter;
  auto& smem          = dynamic_smem<typename report::shared_storage>();
  auto const row      = static_cast<std::int32_t>(blockIdx.x);
  int const num_pages = typename report::lister(params.from, row, smem.listing).count();
  int const kept      = num_pages < params.page_limit ? num_pages : params.page_limit;
  report_counters mine;
  count_entries<PageTokens>(params.from, row, mine);
  report_counters all = typename report::reduce(smem.sum).Reduce(mine, report_counters::sum());
  if (threadIdx.x == 0) {
    all.union_pages = static_cast<counter>(kept);
    all.row_pages   = all.union_pages;
    all.rows_met    = kept > 0 ? 1 : 0;
    add_to_report(*params.report, params.from, row, 1, all, kept);
    atomicAdd(&params.report->over_capacity, static_cast<counter>(num_pages - kept));
  }
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
