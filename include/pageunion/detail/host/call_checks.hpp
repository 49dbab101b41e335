// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Everything that the host can know about a call of each entry point before anything is
//! enqueued: its arguments, what they are to one another, and what overlaps. Plain host code.
#pragma once

#include <algorithm>
#include <cstdint>

#include <pageunion/detail/host/argument_checks.hpp>
#include <pageunion/workspace.hpp>

PAGEUNION_DETAIL_NAMESPACE_BEGIN

//! A call of make_plan().
template <class Shape>
[[nodiscard]] status check_planning(batch const& rows, selection const& selected,
                                    kv_cache const& cache, plan<Shape> const& planned,
                                    plan_report const* report) noexcept {
  std::int32_t const num_rows     = rows.num_rows;
  std::int32_t const num_requests = cache.blocks.num_requests;
  std::int64_t const pages =
      max_pages_per_row(selected, Shape::page_tokens, cache.block_tokens, cache.blocks.width);
  call_arrays arrays;
  arrays.add(rows, num_requests);
  arrays.add(selected, num_rows);
  arrays.add(cache.blocks, num_rows);
  arrays.add(planned, status::overlapping_plan);
  arrays.add(report);
  return first_error(
      {check_blocks<Shape>(cache), check_shape(rows, num_requests), check_shape(selected, num_rows),
       check_plan_size<Shape>(num_rows, selected, cache), check_plan(planned, num_rows),
       ok_if(planned.capacity >= group_capacity<Shape>(pages), status::invalid_plan_capacity),
       arrays.check()});
}

//! A call of grouped_attention().
template <class Policy>
[[nodiscard]] status check_grouped_attention(std::int32_t num_rows,
                                             attention_operands const& operands,
                                             plan<plan_shape_of<Policy>> const& planned) noexcept {
  call_arrays arrays;
  arrays.add(planned, status::ok);
  arrays.add_operands<Policy>(operands, num_rows);
  return first_error(
      {check_plan(planned, num_rows), check_shape<Policy>(operands, num_rows), arrays.check()});
}

//! What rows, their selection and the operands have in common, whichever way the rows are attended to.
template <class Policy>
[[nodiscard]] status check_shapes(batch const& rows, selection const& selected,
                                  attention_operands const& operands) noexcept {
  return first_error({check_shape(rows, operands.cache.blocks.num_requests),
                      check_shape(selected, rows.num_rows),
                      check_shape<Policy>(operands, rows.num_rows)});
}

//! The arrays of the same call.
template <class Policy>
[[nodiscard]] call_arrays arrays_of(batch const& rows, selection const& selected,
                                    attention_operands const& operands,
                                    plan_report const* report) noexcept {
  call_arrays arrays;
  arrays.add(rows, operands.cache.blocks.num_requests);
  arrays.add(selected, rows.num_rows);
  arrays.add_operands<Policy>(operands, rows.num_rows);
  arrays.add(report);
  return arrays;
}

//! Rows that row attention takes at most: its CTAs along x and its merge's items are counted in 32 bits.
constexpr std::int32_t max_rows_one_by_one(std::int32_t num_heads,
                                           std::int32_t num_partitions) noexcept {
  return num_partitions < 2 ? max_grid_x : max_grid_x / (std::max)(num_heads, num_partitions);
}

//! A row's partials as merging reads them.
inline partial_view view_of(row_partials const& partials, std::int32_t num_rows,
                            query_view const& q) noexcept {
  partial_view view;
  view.out                = partials.out;
  view.lse                = partials.lse;
  view.base               = log_base::two;
  view.lse_row_stride     = q.num_heads;
  view.lse_partial_stride = view.lse_row_stride * num_rows;
  view.out_head_stride    = q.head_dim;
  view.out_row_stride     = view.out_head_stride * q.num_heads;
  view.out_partial_stride = view.out_row_stride * num_rows;
  return view;
}

//! A call of row_attention().
template <class Policy, class Selector>
[[nodiscard]] status check_row_attention(batch const& rows, selection const& selected,
                                         attention_operands const& operands,
                                         row_partials const& partials,
                                         plan_report const* report) noexcept {
  query_view const& q           = operands.q;
  std::int32_t const num_rows   = rows.num_rows;
  std::int32_t const partitions = num_partitions<Policy, Selector>(selected, operands.cache);
  status const shapes           = check_shapes<Policy>(rows, selected, operands);
  if (shapes != status::ok) {
    return shapes;
  }
  // A single partition keeps no partial results, and no row has any.
  std::int32_t const num_kept = num_rows == 0 || partitions < 2 ? 0 : partitions;
  call_arrays arrays          = arrays_of<Policy>(rows, selected, operands, report);
  if (num_kept > 0) {
    arrays.add(view_of(partials, num_rows, q), num_kept, {num_rows, q.num_heads, q.head_dim},
               status::overlapping_partials);
  }
  return first_error(
      {ok_if(num_rows <= max_rows_one_by_one(q.num_heads, partitions), status::invalid_num_rows),
       ok_if(num_kept == 0 || partials.num_partitions >= num_kept, status::invalid_num_partials),
       arrays.check()});
}

//! A call of merge_partials().
[[nodiscard]] inline status check_merge(partial_view const& partials, std::int32_t num_partials,
                                        result_shape const& shape, output_view const& out,
                                        lse_view const& lse) noexcept {
  call_arrays arrays;
  arrays.add(partials, num_partials, shape, status::ok);
  arrays.add(out, lse, shape);
  return first_error(
      {check_shape(partials, num_partials, shape), check_shape(out, shape), check_shape(lse, shape),
       ok_if(static_cast<std::int64_t>(shape.num_rows) * shape.num_heads <= max_grid_x,
             status::invalid_num_rows),
       arrays.check()});
}

PAGEUNION_DETAIL_NAMESPACE_END
