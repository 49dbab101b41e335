// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 8. The host's part of the front door: the arguments of a call, its workspace and what it would
//! be refused for. Knows every route, no kernel and no device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <pageunion/detail/host/call_checks.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! How a call is computed. Every route gives the same result within the accuracy of prefill(), as long as
//! max_pages is true (selection.hpp).
enum class route : int {
  automatic,  //!< the library chooses by what the host knows
  grouped,    //!< plans groups of rows and loads the union of their pages once
  row,        //!< each row by itself: for few rows, or rows that share no pages
};

//! One call of prefill().
struct prefill_args {
  batch rows;
  selection selected;
  attention_operands attention;
  pageunion::route route = pageunion::route::automatic;
  //! Device memory, added to; null for none. The row route reports each row as a group of its own.
  plan_report* report = nullptr;
};

//! What a call of prefill() did, filled on the host before prefill() returns.
struct prefill_info {
  pageunion::route route = pageunion::route::automatic;  //!< the route taken, never automatic
  char const* reason     = "";                           //!< one sentence, static storage
};

PAGEUNION_NAMESPACE_END
PAGEUNION_DETAIL_NAMESPACE_BEGIN

//! What follows from the shapes of a call. A call takes one route: a plan or partial results, whichever
//! that one keeps, begin where the workspace begins.
struct prefill_shape {
  std::int32_t num_groups     = 0;
  std::int32_t capacity       = 0;  //!< plan entries of a group
  std::int32_t num_partitions = 0;
  std::int32_t max_row_rows   = 0;  //!< a call of more rows does not take the row route, on any GPU
  std::size_t bytes           = 0;  //!< of workspace
};

//! Shapes of a call that check_prefill_shapes() found good.
template <class Policy, class Selector>
constexpr prefill_shape shape_of(prefill_args const& args) noexcept {
  using plan_shape      = plan_shape_of<Policy>;
  kv_cache const& cache = args.attention.cache;
  query_view const& q   = args.attention.q;
  prefill_shape shape;
  shape.num_groups     = num_groups<plan_shape>(args.rows.num_rows);
  shape.capacity       = static_cast<std::int32_t>(group_capacity<plan_shape>(max_pages_per_row(
            args.selected, Policy::page_tokens, cache.block_tokens, cache.blocks.width)));
  shape.num_partitions = num_partitions<Policy, Selector>(args.selected, cache);
  shape.max_row_rows   = max_rows_one_by_one(q.num_heads, shape.num_partitions);
  if (args.route == route::automatic) {
    shape.max_row_rows =
        (std::min)(shape.max_row_rows, most_demanding_tuning<Policy, Selector>().row_route_rows);
  }
  if (args.route != route::row) {
    shape.bytes = layout_plan<plan_shape>(shape.num_groups, shape.capacity).total;
  }
  if (args.route != route::grouped) {
    // Of calls of up to these rows, the largest that may go by row.
    std::int32_t const rows = (std::min)(args.rows.num_rows, shape.max_row_rows);
    shape.bytes             = (std::max)(
        shape.bytes, layout_partials(shape.num_partitions, rows, q.num_heads, q.head_dim).total);
  }
  return shape;
}

//! True if row attention is likely to be faster than grouping. Its CTAs are short: it wins until they
//! fill the device more than once or so, and later where the rows of a group come from many requests,
//! whose pages nobody shares and the group's CTA goes through one after the other.
template <class Policy>
constexpr bool is_faster_by_row(tuning const& tuned, std::int32_t num_rows,
                                std::int32_t num_requests, std::int32_t num_kv_heads,
                                int num_sms) noexcept {
  double const rows     = (std::max)(num_rows, 1);
  double const requests = std::clamp(static_cast<double>(num_requests), 1.0, rows);
  // Every request but the first begins at some row, and all but one in group_rows of them inside a group.
  double const group_requests = 1.0 + (Policy::group_rows - 1) * (requests - 1.0) / rows;
  return rows * num_kv_heads <= group_requests * tuned.row_route_rows_per_sm * num_sms;
}

//! Checks everything but pointers and the workspace.
template <class Policy, class Selector>
[[nodiscard]] status check_prefill_shapes(prefill_args const& args) noexcept {
  std::int32_t const num_rows = args.rows.num_rows;
  bool const is_by_row        = args.route == route::row;
  return first_error(
      {ok_if(is_by_row || args.route == route::automatic || args.route == route::grouped,
             status::invalid_route),
       check_shapes<Policy>(args.rows, args.selected, args.attention),
       check_plan_size<plan_shape_of<Policy>>(num_rows, args.selected, args.attention.cache),
       ok_if(!is_by_row || num_rows <= shape_of<Policy, Selector>(args).max_row_rows,
             status::invalid_num_rows)});
}

PAGEUNION_DETAIL_NAMESPACE_END
PAGEUNION_NAMESPACE_BEGIN

//! Bytes of workspace that prefill() needs for calls of these shapes, and by the route asked for. No
//! pointer is looked at, except that the strides of counts or lse that are null do not matter.
//!
//! Calls of fewer rows, and the same other shapes and route, need no more bytes than these: what the
//! largest step needs is enough for every step. With route::automatic that is the most that any number
//! of rows up to these may need by whichever route it takes, on any GPU.
//!
//! @return ok, or what can_prefill() would say of the shapes; then `bytes` is untouched
template <class Policy = qsa_policy, class Selector = default_tuning>
[[nodiscard]] status workspace_bytes(prefill_args const& args, std::size_t& bytes) noexcept {
  status const checked = detail::check_prefill_shapes<Policy, Selector>(args);
  if (checked == status::ok) {
    bytes = detail::shape_of<Policy, Selector>(args).bytes;
  }
  return checked;
}

//! What prefill() would answer to the same arguments before it enqueues anything. Needs no device.
//! @param workspace as for prefill()
//! @param bytes     as for prefill()
template <class Policy = qsa_policy, class Selector = default_tuning>
[[nodiscard]] status can_prefill(prefill_args const& args, void const* workspace,
                                 std::size_t bytes) noexcept {
  status const checked = detail::check_prefill_shapes<Policy, Selector>(args);
  if (checked != status::ok) {
    return checked;
  }
  detail::call_arrays arrays =
      detail::arrays_of<Policy>(args.rows, args.selected, args.attention, args.report);
  arrays.add(detail::strided_array(workspace, static_cast<std::int64_t>(bytes), 1),
             workspace_alignment, status::null_workspace, status::misaligned_workspace,
             status::overlapping_workspace);
  std::size_t const needed = detail::shape_of<Policy, Selector>(args).bytes;
  return detail::first_error({detail::check_workspace(workspace, bytes, needed), arrays.check()});
}

PAGEUNION_NAMESPACE_END
