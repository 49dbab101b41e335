// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Fills a plan_report from a selection and its finished plan. A kernel of its own, so that
//! planning without a report pays nothing. Knows the plan's arrays; not how they were made.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include <cub/block/block_reduce.cuh>

#include <pageunion/detail/launch.cuh>
#include <pageunion/detail/report_tally.cuh>
#include <pageunion/plan.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

template <class Geometry, class Table>
struct tally_params {
  selected_entries<Table> selected;
  plan<Geometry> planned;
  plan_report* report = nullptr;
};

//! One CTA's counts of one group: the entries of its rows | the pages of its plan | the sum of all
//! threads, added to the report. A bar is a CTA barrier.
template <class Geometry, class Table>
class group_tallier {
 public:
  static constexpr int threads = 256;
  using reduce                 = CUB_NS_QUALIFIER::BlockReduce<group_tally, threads>;

  struct shared_storage {
    typename reduce::TempStorage sum;
  };

  __device__ group_tallier(tally_params<Geometry, Table> const& params, std::int32_t group,
                           shared_storage& smem)
      : params_(params),
        group_(group),
        first_row_(group * Geometry::group_rows),
        num_rows_(params.selected.rows.num_rows - first_row_ < Geometry::group_rows
                      ? params.selected.rows.num_rows - first_row_
                      : Geometry::group_rows),
        smem_(smem) {}

  __device__ void run() {
    group_tally mine;
    for (std::int32_t row = first_row_; row < first_row_ + num_rows_; ++row) {
      count_entries<Geometry>(params_.selected, row, mine);
    }
    count_pages(mine);
    group_tally const all = reduce(smem_.sum).Reduce(mine, group_tally::sum());
    if (threadIdx.x == 0) {
      add_to_report(*params_.report, params_.selected, first_row_, num_rows_, all,
                    params_.planned.num_pages[group_]);
    }
  }

 private:
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

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
