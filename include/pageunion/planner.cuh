// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 7. Turns the selections of groups of rows into a plan. Knows nothing of keys or values.
#pragma once

#include <pageunion/detail/host/launch.cuh>

#include <pageunion/detail/host/call_checks.hpp>
#include <pageunion/detail/planner/group_planner.cuh>
#include <pageunion/detail/report/report_kernels.cuh>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! make_plan() without its checks.
template <class Shape, class Sizes = planner_sizes<Shape>>
[[nodiscard]] status enqueue_plan(batch const& rows, selection const& selected,
                                  kv_cache const& cache, plan<Shape> const& planned,
                                  plan_report* report, cudaStream_t stream) noexcept {
  using planner         = group_planner<Shape, Sizes>;
  using reporter        = group_report<Shape>;
  auto const num_groups = static_cast<std::uint32_t>(planned.num_groups);
  if (num_groups == 0) {
    return status::ok;
  }
  std::int64_t const page_limit =
      Shape::group_rows *
      max_pages_per_row(selected, Shape::page_tokens, cache.block_tokens, cache.blocks.width);
  planner_params<Shape> const params{
      {rows, selected, cache.blocks, cache.num_blocks, cache.block_tokens},
      static_cast<page_divider>(
          static_cast<std::uint32_t>(cache.block_tokens / Shape::page_tokens)),
      static_cast<std::int32_t>(page_limit),
      planned,
      report == nullptr ? nullptr : &report->over_capacity};
  status const launched = launch(&planner_kernel<Shape, Sizes>, num_groups, 1, planner::threads,
                                 sizeof(typename planner::shared_storage), stream, params);
  return launched != status::ok || report == nullptr
             ? launched
             : launch(&group_report_kernel<Shape>, num_groups, 1, reporter::threads,
                      sizeof(typename reporter::shared_storage), stream,
                      group_report_params<Shape>{params.from, planned, report});
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
PAGEUNION_DEVICE_NAMESPACE_BEGIN

//! Plans groups of rows: for each group, the pages that its rows chose, each once, with the rows and
//! tokens that attend to it.
//!
//! For group g with rows g * group_rows to (g + 1) * group_rows - 1, and S(row) as in rules.hpp:
//!   pages   = {(request(row), t / page_tokens) : t in S(row), row of the group}
//!   mask of (request, page): bit (row - first row) * page_tokens + t % page_tokens for each such t
//!
//! Order: by category, the pages that all bands reach first; in a category by request, as the group's
//! rows meet them, and by page number, so that neighbouring pages of a cache block follow each other.
//! Nothing depends on physical blocks or on the order of a row's entries.
//!
//! Shapes: as in batch, selection, kv_cache (block table, num_blocks and block_tokens alone are read)
//! and plan; device memory, 4-byte aligned at least (row_position 8, the plan's arrays 16).
//! Determinism: the same inputs give the same bits; the only atomics are OR and sums of integers.
//! Stream: enqueues one kernel on `stream`, two with a report, and returns without waiting. All arrays
//! must stay alive and unchanged until the stream has passed this call. Allocates nothing; can be
//! captured, and replayed after the contents of the arrays changed.
//! Source: the union of the pages of adjacent rows is the idea of 1Cat-vLLM #387; the ranking of
//! marked pages by prefix sums over a bit map is folklore.
//!
//! @tparam Shape   plan_shape_of a policy
//! @param planned capacity at least group_capacity<Shape>(max_pages_per_row(...))
//! @param report  adds what was seen and dropped; device memory, 8-byte aligned; null to skip
//! @return ok; what detail/host/argument_checks.hpp says of rows, selection, block table and plan;
//!         unsupported_device; cuda_error from a launch. Unless it is the last, nothing was enqueued.
template <class Shape>
[[nodiscard]] status make_plan(batch const& rows, selection const& selected, kv_cache const& cache,
                               plan<Shape> const& planned, plan_report* report,
                               cudaStream_t stream) noexcept {
  status const checked = detail::check_planning(rows, selected, cache, planned, report);
  return checked == status::ok
             ? detail::enqueue_plan(rows, selected, cache, planned, report, stream)
             : checked;
}

PAGEUNION_DEVICE_NAMESPACE_END
