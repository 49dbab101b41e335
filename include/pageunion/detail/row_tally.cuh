// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Fills a plan_report from the selections of rows that are attended to one by one. A kernel of
//! its own, so that a call without a report pays nothing. Every row is a group of its own.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include <cub/block/block_reduce.cuh>

#include <pageunion/detail/launch.cuh>
#include <pageunion/detail/report_tally.cuh>
#include <pageunion/detail/row_pages.cuh>
#include <pageunion/plan.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

template <class Table>
struct row_tally_params {
  selected_entries<Table> selected;
  std::int32_t page_limit = 0;  //!< pages that a row may have
  plan_report* report     = nullptr;
};

//! One CTA's counts of one row: the row's pages, then its entries | the sum of all threads, added to the
//! report. A bar is a CTA barrier.
template <class Geometry, class Table>
class row_tallier {
  using lister = row_lister<Geometry, Table>;
  using reduce = CUB_NS_QUALIFIER::BlockReduce<group_tally, Geometry::threads>;

 public:
  struct shared_storage {
    typename lister::shared_storage listing;
    typename reduce::TempStorage sum;
  };

  static __device__ void run(row_tally_params<Table> const& params, std::int32_t row,
                             shared_storage& smem) {
    int const num_pages = lister(params.selected, params.page_limit, row, smem.listing).count();
    int const kept      = num_pages < params.page_limit ? num_pages : params.page_limit;
    group_tally mine;
    count_entries<Geometry>(params.selected, row, mine);
    group_tally all = reduce(smem.sum).Reduce(mine, group_tally::sum());
    if (threadIdx.x == 0) {
      all.union_pages = static_cast<group_tally::counter>(kept);
      all.row_pages   = all.union_pages;
      all.rows_met    = kept > 0 ? 1 : 0;
      add_to_report(*params.report, params.selected, row, 1, all, kept);
      atomicAdd(&params.report->over_capacity, static_cast<group_tally::counter>(num_pages - kept));
    }
  }
};

//! Entry of the device code: one CTA per row.
template <class Geometry, class Table>
__global__ void __launch_bounds__(Geometry::threads)
    row_tally_kernel(row_tally_params<Table> const params) {
  using tallier = row_tallier<Geometry, Table>;
  tallier::run(params, static_cast<std::int32_t>(blockIdx.x),
               dynamic_smem<typename tallier::shared_storage>());
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
