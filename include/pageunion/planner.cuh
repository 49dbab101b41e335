// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 7. Turns the selections of groups of rows into a plan. Knows tables and masks; nothing of
//! keys, values or how a plan is used.
#pragma once

#include <cuda_runtime.h>
#include <pageunion/detail/launch.cuh>

#include <cstdint>

#include <pageunion/detail/argument_checks.hpp>
#include <pageunion/detail/group_planner.cuh>
#include <pageunion/detail/memory_ranges.hpp>
#include <pageunion/detail/plan_tally.cuh>
#include <pageunion/geometry.hpp>
#include <pageunion/kv_cache.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/rules.hpp>
#include <pageunion/selection.hpp>
#include <pageunion/status.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Everything that make_plan() refuses, before anything is enqueued.
template <class Geometry>
[[nodiscard]] status check_planning(batch const& rows, selection const& selected,
                                    kv_cache const& cache, plan<Geometry> const& planned,
                                    plan_report const* report) noexcept {
  if (cache.num_blocks < 0) {
    return status::invalid_num_blocks;
  }
  if (cache.block_tokens < 1 || cache.block_tokens % Geometry::page_tokens != 0) {
    return status::invalid_block_tokens;
  }
  status checked = check_batch(rows, cache.blocks.num_requests);
  if (checked != status::ok) {
    return checked;
  }
  checked = check_selection(selected, rows.num_rows);
  if (checked != status::ok) {
    return checked;
  }
  checked = check_block_table(cache.blocks, cache.block_tokens, rows.num_rows);
  if (checked != status::ok) {
    return checked;
  }
  checked = check_plan_size<Geometry>(rows.num_rows, selected, cache);
  if (checked != status::ok) {
    return checked;
  }
  checked = check_plan(planned, rows.num_rows);
  if (checked != status::ok) {
    return checked;
  }
  std::int64_t const pages =
      max_pages_per_row(selected, Geometry::page_tokens, cache.block_tokens, cache.blocks.width);
  if (planned.capacity < group_capacity<Geometry>(pages)) {
    return status::invalid_plan_capacity;
  }
  checked = check_report(report);
  if (checked != status::ok) {
    return checked;
  }
  memory_ranges inputs;
  inputs.add(rows, cache.blocks.num_requests);
  inputs.add(selected, rows.num_rows);
  inputs.add(cache.blocks);
  plan_ranges const written = ranges_of(planned);
  return check_overlaps(inputs, {{written.addresses, status::overlapping_plan},
                                 {written.masks, status::overlapping_plan},
                                 {written.num_pages, status::overlapping_plan},
                                 {range_of(report), status::overlapping_report}});
}

//! Enqueues the planner, and the counting of what it saw if there is a report.
//! @param max_pages pages of a row at most
template <class Geometry, class Shape, class Table>
[[nodiscard]] status launch_planner(batch const& rows, Table const& table, std::int64_t max_pages,
                                    kv_cache const& cache, plan<Geometry> const& planned,
                                    plan_report* report, cudaStream_t stream) noexcept {
  using planner          = group_planner<Geometry, Table, Shape>;
  using tallier          = group_tallier<Geometry, Table>;
  auto const num_groups  = static_cast<std::uint32_t>(planned.num_groups);
  auto const block_pages = static_cast<std::uint32_t>(cache.block_tokens / Geometry::page_tokens);

  planner_params<Geometry, Table> params;
  params.rows            = rows;
  params.table           = table;
  params.blocks          = cache.blocks;
  params.num_blocks      = cache.num_blocks;
  params.pages_per_block = page_divider(block_pages);
  params.table_tokens    = cache.blocks.width * cache.block_tokens;
  params.page_limit      = static_cast<std::int32_t>(max_pages * Geometry::group_rows);
  params.planned         = planned;
  params.over_capacity   = report == nullptr ? nullptr : &report->over_capacity;
  status const launched =
      launch(&planner_kernel<Geometry, Table, Shape>, num_groups, 1, planner::threads,
             sizeof(typename planner::shared_storage), stream, params);
  if (launched != status::ok || report == nullptr) {
    return launched;
  }
  return launch(
      &tally_kernel<Geometry, Table>, num_groups, 1, tallier::threads,
      sizeof(typename tallier::shared_storage), stream,
      tally_params<Geometry, Table>{
          {rows, table, cache.blocks, cache.num_blocks, cache.block_tokens}, planned, report});
}

//! make_plan() without its checks.
template <class Geometry, class Shape = planner_shape<Geometry>>
[[nodiscard]] status enqueue_plan(batch const& rows, selection const& selected,
                                  kv_cache const& cache, plan<Geometry> const& planned,
                                  plan_report* report, cudaStream_t stream) noexcept {
  if (planned.num_groups == 0) {
    return status::ok;
  }
  std::int64_t const max_pages =
      max_pages_per_row(selected, Geometry::page_tokens, cache.block_tokens, cache.blocks.width);
  return selected.kind == selection_kind::tokens
             ? launch_planner<Geometry, Shape>(rows, selected.tokens, max_pages, cache, planned,
                                               report, stream)
             : launch_planner<Geometry, Shape>(rows, selected.pages, max_pages, cache, planned,
                                               report, stream);
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
//! @param planned capacity at least group_capacity<Geometry>(max_pages_per_row(...))
//! @param report  adds what was seen and dropped; device memory, 8-byte aligned; null to skip
//! @return ok; what detail/argument_checks.hpp says of rows, selection, block table and plan;
//!         unsupported_device; cuda_error from a launch. Unless it is the last, nothing was enqueued.
template <class Geometry>
[[nodiscard]] status make_plan(batch const& rows, selection const& selected, kv_cache const& cache,
                               plan<Geometry> const& planned, plan_report* report,
                               cudaStream_t stream) noexcept {
  status const checked = detail::check_planning(rows, selected, cache, planned, report);
  return checked == status::ok
             ? detail::enqueue_plan<Geometry>(rows, selected, cache, planned, report, stream)
             : checked;
}

PAGEUNION_DEVICE_NAMESPACE_END
