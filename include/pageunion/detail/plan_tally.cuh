// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Fills a plan_report from a selection and its finished plan. A kernel of its own, so that
//! planning without a report pays nothing. Knows the rules; not how the plan was made.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include <cub/block/block_reduce.cuh>

#include <pageunion/detail/launch.cuh>
#include <pageunion/detail/selected_runs.cuh>
#include <pageunion/kv_cache.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/rules.hpp>
#include <pageunion/selection.hpp>

namespace pageunion::detail {

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
  std::uint32_t rows_met = 0;  //!< one bit for each row that has a page in the plan

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

template <class Geometry, class Table>
struct tally_params {
  batch rows;
  Table table;
  block_table blocks;
  std::int32_t num_blocks   = 0;  //!< physical cache blocks
  std::int32_t block_tokens = 0;  //!< tokens of a cache block
  plan<Geometry> planned;
  plan_report* report = nullptr;
};

//! One CTA's counts of one group: the entries of its rows | the pages of its plan | the sum of all
//! threads, added to the report. A bar is a CTA barrier.
template <class Geometry, class Table>
class group_tallier {
 public:
  static constexpr int threads = 256;

  struct shared_storage {
    typename cub::BlockReduce<group_tally, threads>::TempStorage sum;
  };

  __device__ group_tallier(tally_params<Geometry, Table> const& params, std::int32_t group,
                           shared_storage& smem)
      : params_(params),
        group_(group),
        first_row_(group * Geometry::group_rows),
        num_rows_(params.rows.num_rows - first_row_ < Geometry::group_rows
                      ? params.rows.num_rows - first_row_
                      : Geometry::group_rows),
        smem_(smem) {}

  __device__ void run() {
    group_tally mine;
    for (std::int32_t row = first_row_; row < first_row_ + num_rows_; ++row) {
      count_entries(row, mine);
    }
    count_pages(mine);
    group_tally const all =
        cub::BlockReduce<group_tally, threads>(smem_.sum).Reduce(mine, group_tally::sum());
    if (threadIdx.x == 0) {
      add(all);
    }
  }

 private:
  using counter = group_tally::counter;

  __device__ void count_entries(std::int32_t row, group_tally& mine) const {
    std::int32_t const request = params_.rows.row_request[row];
    if (!is_request(request, params_.blocks.num_requests)) {
      return;
    }
    std::int32_t const end =
        visible_end(params_.rows.row_position[row], params_.rows.sequence_length[request]);
    std::int32_t const* const entries = row_entries(params_.table, row);
    auto const num_entries = static_cast<std::uint32_t>(num_row_entries(params_.table, row));
    for (std::uint32_t i = threadIdx.x; i < num_entries; i += threads) {
      count_entry(request, first_token_of(params_.table, entries[i]), end, mine);
    }
    std::int32_t const tail = implied_page(params_.table, end);
    if (threadIdx.x == 0 && tail >= 0) {
      count_entry(request, first_token_of(params_.table, tail), end, mine);
    }
  }

  //! All tokens of an entry share its fate: a page lies in one cache block, and of a page that is
  //! visible in part the first token is visible.
  __device__ void count_entry(std::int32_t request, std::int64_t token, std::int32_t end,
                              group_tally& mine) const {
    mine.entries += 1;
    switch (check_token(token, end, params_.block_tokens, params_.blocks.width)) {
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
        std::int64_t const entry =
            request * params_.blocks.row_stride + token / params_.block_tokens;
        if (!is_mapped(params_.blocks.table[entry], params_.num_blocks)) {
          mine.unmapped_block += 1;
        }
    }
  }

  static __device__ std::int64_t first_token_of(token_table const&, std::int32_t token) {
    return token;
  }
  static __device__ std::int64_t first_token_of(page_table const&, std::int32_t page) {
    return std::int64_t{page} * Geometry::page_tokens;
  }
  static __device__ std::int32_t implied_page(token_table const&, std::int32_t) { return -1; }
  static __device__ std::int32_t implied_page(page_table const&, std::int32_t end) {
    return tail_page(end, Geometry::page_tokens);
  }

  __device__ void count_pages(group_tally& mine) const {
    auto const* const masks =
        params_.planned.masks + std::int64_t{group_} * params_.planned.capacity;
    std::int32_t const num_pages = params_.planned.num_pages[group_];
    for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); i < num_pages; i += threads) {
      auto const mask = masks[i];
      mine.union_pages += mask != 0 ? 1 : 0;
      for (int row = 0; row < Geometry::group_rows; ++row) {
        auto const bits = static_cast<std::uint32_t>(mask >> (row * Geometry::page_tokens)) &
                          ((1u << Geometry::page_tokens) - 1u);
        mine.row_pages += bits != 0 ? 1 : 0;
        mine.rows_met |= bits != 0 ? 1u << row : 0;
      }
    }
  }

  //! Sums do not depend on the order in which the groups add.
  __device__ void add(group_tally const& all) const {
    plan_report& report = *params_.report;
    counter bad_rows    = 0;
    for (std::int32_t row = first_row_; row < first_row_ + num_rows_; ++row) {
      bad_rows += is_request(params_.rows.row_request[row], params_.blocks.num_requests) ? 0 : 1;
    }
    counter const bin      = all.union_pages / plan_report::bin_pages;
    constexpr counter last = plan_report::num_bins - 1;
    atomicAdd(&report.rows, static_cast<counter>(num_rows_));
    atomicAdd(&report.bad_request_rows, bad_rows);
    atomicAdd(&report.empty_rows, static_cast<counter>(num_rows_ - __popc(all.rows_met)));
    atomicAdd(&report.entries, all.entries);
    atomicAdd(&report.negative, all.negative);
    atomicAdd(&report.not_visible, all.not_visible);
    atomicAdd(&report.past_table, all.past_table);
    atomicAdd(&report.unmapped_block, all.unmapped_block);
    atomicAdd(&report.groups, counter{1});
    atomicAdd(&report.union_pages, all.union_pages);
    atomicAdd(&report.padded_pages, static_cast<counter>(params_.planned.num_pages[group_]));
    atomicAdd(&report.row_pages, all.row_pages);
    atomicMax(&report.largest_union, all.union_pages);
    atomicAdd(&report.histogram[bin < last ? bin : last], counter{1});
  }

  tally_params<Geometry, Table> const& params_;
  std::int32_t group_;
  std::int32_t first_row_;
  std::int32_t num_rows_;
  shared_storage& smem_;
};

//! Entry of the device code: one CTA per group.
template <class Geometry, class Table>
__global__ void __launch_bounds__(group_tallier<Geometry, Table>::threads)
    tally_kernel(tally_params<Geometry, Table> const params) {
  using tallier = group_tallier<Geometry, Table>;
  tallier(params, static_cast<std::int32_t>(blockIdx.x),
          dynamic_smem<typename tallier::shared_storage>())
      .run();
}

}  // namespace pageunion::detail
