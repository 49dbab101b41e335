// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 8. The front door: sizes the workspace, checks a call, plans and attends. Knows every route
//! and no kernel.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include <pageunion/detail/argument_checks.hpp>
#include <pageunion/detail/memory_ranges.hpp>
#include <pageunion/geometry.hpp>
#include <pageunion/grouped_attention.cuh>
#include <pageunion/kv_cache.hpp>
#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/planner.cuh>
#include <pageunion/row_attention.cuh>
#include <pageunion/rules.hpp>
#include <pageunion/selection.hpp>
#include <pageunion/status.hpp>
#include <pageunion/workspace.hpp>

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
PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Everything of a workspace that follows from the shapes of a call and the routes that it may take.
struct prefill_shape {
  std::int32_t num_groups     = 0;
  std::int32_t capacity       = 0;  //!< plan entries of a group
  std::int32_t num_partitions = 0;
  std::size_t partials        = 0;  //!< offset of the partial results, which follow the plan
  std::size_t bytes           = 0;  //!< of workspace
};

//! True if automatic routing may take the row route for a call of this many rows, on some GPU.
template <class Policy>
constexpr bool may_go_by_row(std::int32_t num_rows) noexcept {
  return num_rows <= Policy::row_route_rows;
}

//! True if a call may take the row route, on some GPU.
template <class Policy>
constexpr bool may_take_row_route(prefill_args const& args) noexcept {
  return args.route == route::row ||
         (args.route == route::automatic && may_go_by_row<Policy>(args.rows.num_rows));
}

//! True if row attention is likely to be faster than grouping. Its CTAs are short: it wins until they
//! fill the device more than once or so, and later where the rows of a group come from many requests,
//! whose pages nobody shares and the group's CTA goes through one after the other.
template <class Policy>
constexpr bool is_faster_by_row(std::int32_t num_rows, std::int32_t num_requests,
                                std::int32_t num_kv_heads, int num_sms) noexcept {
  double const rows     = std::max(num_rows, 1);
  double const requests = std::clamp(static_cast<double>(num_requests), 1.0, rows);
  // Every request but the first begins at some row, and all but one in group_rows of them inside a group.
  double const group_requests = 1.0 + (Policy::group_rows - 1) * (requests - 1.0) / rows;
  return rows * num_kv_heads <= group_requests * Policy::row_route_rows_per_sm * num_sms;
}

//! Checks everything but the workspace.
template <class Geometry>
[[nodiscard]] status check_prefill(prefill_args const& args) noexcept {
  kv_cache const& cache = args.attention.cache;
  if (args.route != route::automatic && args.route != route::grouped && args.route != route::row) {
    return status::invalid_route;
  }
  status checked = check_batch(args.rows, cache.blocks.num_requests);
  if (checked == status::ok) {
    checked = check_selection(args.selected, args.rows.num_rows);
  }
  if (checked == status::ok) {
    checked = check_operands<Geometry>(args.attention, args.rows.num_rows);
  }
  if (checked == status::ok) {
    checked = check_plan_size<Geometry>(args.rows.num_rows, args.selected, cache);
  }
  if (checked != status::ok) {
    return checked;
  }
  if (may_take_row_route<typename Geometry::policy>(args) &&
      !are_rows_indexable(args.rows.num_rows, args.attention.q.num_heads,
                          num_partitions<row_geometry<Geometry>>(args.selected, cache))) {
    return status::invalid_num_rows;
  }
  return check_report(args.report);
}

//! Shapes of a call that check_prefill() found good.
template <class Policy>
prefill_shape shape_of(prefill_args const& args) noexcept {
  using G                   = geometry<Policy>;
  kv_cache const& cache     = args.attention.cache;
  query_view const& q       = args.attention.q;
  std::int32_t const rows   = args.rows.num_rows;
  bool const may_be_row     = may_take_row_route<Policy>(args);
  bool const may_be_grouped = args.route != route::row;
  prefill_shape shape{};
  if (may_be_grouped) {
    shape.num_groups = num_groups<G>(rows);
    shape.capacity   = static_cast<std::int32_t>(group_capacity<G>(
        max_pages_per_row(args.selected, G::page_tokens, cache.block_tokens, cache.blocks.width)));
  }
  shape.partials = layout_plan<G>(shape.num_groups, shape.capacity).total;
  shape.bytes    = shape.partials;
  if (may_be_row) {
    shape.num_partitions = num_partitions<row_geometry<G>>(args.selected, cache);
    shape.bytes += layout_partials(shape.num_partitions, rows, q.num_heads, q.head_dim).total;
  }
  return shape;
}

//! The partial results in a workspace.
inline row_partials carve_partials(void* workspace, prefill_shape const& shape,
                                   prefill_args const& args) noexcept {
  query_view const& q = args.attention.q;
  partials_layout layout =
      layout_partials(shape.num_partitions, args.rows.num_rows, q.num_heads, q.head_dim);
  auto* const bytes = static_cast<unsigned char*>(workspace) + shape.partials;
  row_partials partials;
  partials.out            = reinterpret_cast<float*>(bytes + layout.out);
  partials.lse            = reinterpret_cast<float*>(bytes + layout.lse);
  partials.num_partitions = shape.num_partitions;
  return partials;
}

//! Chooses the route of a call by what the host knows: rows, requests, KV heads and the device's SMs.
template <class Policy>
[[nodiscard]] status choose_route(prefill_args const& args, prefill_info& info) noexcept {
  if (args.route != route::automatic) {
    info = {args.route, "the caller asked for it"};
    return status::ok;
  }
  if (!may_go_by_row<Policy>(args.rows.num_rows)) {
    info = {route::grouped, "there are more rows than the policy's row_route_rows"};
    return status::ok;
  }
  int device = 0, num_sms = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    return status::cuda_error;
  }
  kv_cache const& cache = args.attention.cache;
  info = is_faster_by_row<Policy>(args.rows.num_rows, cache.blocks.num_requests, cache.num_kv_heads,
                                  num_sms)
             ? prefill_info{route::row, "there are few rows for the device's SMs and the requests"}
             : prefill_info{route::grouped,
                            "there are many rows for the device's SMs and the requests"};
  return status::ok;
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
PAGEUNION_DEVICE_NAMESPACE_BEGIN

//! Bytes of workspace that prefill() needs for calls of these shapes, and by the route asked for.
//! No memory is looked at.
//! @return ok, or what can_prefill() would say of the arguments; then `bytes` is untouched
template <class Policy = qsa_policy>
[[nodiscard]] status workspace_bytes(prefill_args const& args, std::size_t& bytes) noexcept {
  status const checked = detail::check_prefill<geometry<Policy>>(args);
  if (checked == status::ok) {
    bytes = detail::shape_of<Policy>(args).bytes;
  }
  return checked;
}

//! What prefill() would answer to the same arguments before it enqueues anything. Needs no device.
//! @param workspace as for prefill()
//! @param bytes     as for prefill()
template <class Policy = qsa_policy>
[[nodiscard]] status can_prefill(prefill_args const& args, void const* workspace,
                                 std::size_t bytes) noexcept {
  using G                            = geometry<Policy>;
  attention_operands const& operands = args.attention;
  std::int32_t const rows            = args.rows.num_rows;
  status checked                     = detail::check_prefill<G>(args);
  if (checked == status::ok) {
    checked = detail::check_workspace(workspace, bytes, detail::shape_of<Policy>(args).bytes);
  }
  if (checked != status::ok) {
    return checked;
  }
  detail::memory_ranges inputs;
  inputs.add(args.rows, operands.cache.blocks.num_requests);
  inputs.add(args.selected, rows);
  inputs.add(operands.cache, operands.q.head_dim);
  inputs.add(operands.q, rows);
  return detail::check_overlaps(
      inputs,
      {{detail::range_of(operands.out, rows, operands.q.num_heads, operands.q.head_dim),
        status::overlapping_out},
       {detail::range_of(operands.lse, rows, operands.q.num_heads), status::overlapping_lse},
       {detail::range_of(args.report), status::overlapping_report},
       {detail::range_of(workspace, bytes), status::overlapping_workspace}});
}

//! Sparse attention of a batch of rows over a paged KV cache, each row over its own selection.
//!
//! For row r and query head h, with S(r) the set of tokens of r's selection that r may see and g the
//! KV head h / (num_heads / num_kv_heads):
//!   out[r, h] = sum over t in S(r) of softmax(scale * q[r, h] . k[t, g]) * v[t, g]
//!   lse[r, h] = log(sum over t in S(r) of exp(scale * q[r, h] . k[t, g]))
//! A row with an empty S(r) gets out = +0 and lse = -inf. What is in S(r), and what is dropped, is said
//! in rules.hpp; nothing outside S(r), NaN included, changes a bit of the row's result. Inf and NaN inside
//! act as in IEEE arithmetic, but for a head whose scores are all -inf, which has no softmax: its lse is
//! -inf and its out unspecified.
//!
//! Shapes, strides, alignment: at the members of prefill_args. Device memory throughout.
//! Units: lengths and strides in elements, sizes in bytes, `scale` dimensionless.
//! Accuracy: products and sums in float, probabilities rounded to half for the product with V. With n
//! tokens in S(r), and maxima over them, an element of out is off by no more than
//!   max|v| (2^-11 + n 2^-25 + 2^-16 + 2^-22 (head_dim + 8) |scale| |q| max|k|),
//! and 2^-11 max|v| more if out is half; lse by no more than 1e-5, or 1e-4 of itself. That is the worst
//! case: on normal numbers a float output's relative L2 error is some 1e-4. test/support/tolerance.hpp
//! derives the bound and every test holds results to it.
//! Determinism: the same inputs give the same bits on the same device, wherever the physical blocks
//! lie and whatever the order of a selection's columns. Automatic routing also depends on the numbers
//! of rows, of requests and of the device's SMs.
//! Stream: enqueues on `stream` and returns without waiting; can be captured in a graph and replayed
//! after the contents of the arrays changed. All arrays and `workspace` must stay alive until the
//! stream has passed the call, and no other call may use `workspace` meanwhile. Allocates nothing.
//! Source: online softmax, Milakov and Gimelshein, arXiv:1805.02867; tiling, Dao et al.,
//! arXiv:2205.14135. The union of the pages of adjacent rows is this library's own subject.
//!
//! @tparam Policy   geometry to compile for; the shapes of the call must fit it
//! @param workspace device memory, 256-byte aligned
//! @param bytes     size of `workspace`, at least workspace_bytes() of the same shapes
//! @param info      host memory, or null: which route was taken and why
//! @return ok; what can_prefill() says; unsupported_device; cuda_error from a launch. Unless it is the
//!         last, nothing was enqueued.
template <class Policy = qsa_policy>
[[nodiscard]] status prefill(prefill_args const& args, void* workspace, std::size_t bytes,
                             cudaStream_t stream, prefill_info* info = nullptr) noexcept {
  using G        = geometry<Policy>;
  status outcome = can_prefill<Policy>(args, workspace, bytes);
  prefill_info chosen;
  if (outcome == status::ok) {
    outcome = detail::choose_route<Policy>(args, chosen);
  }
  if (outcome != status::ok) {
    return outcome;
  }
  if (info != nullptr) {
    *info = chosen;
  }
  auto const shape = detail::shape_of<Policy>(args);
  if (chosen.route == route::row) {
    return row_attention<G>(args.rows, args.selected, args.attention,
                            detail::carve_partials(workspace, shape, args), args.report, stream);
  }
  auto const planned = carve_plan<G>(workspace, shape.num_groups, shape.capacity);
  outcome            = shape.num_groups > 0 ? detail::allow_grouped_attention<G>() : status::ok;
  if (outcome == status::ok) {
    outcome =
        make_plan<G>(args.rows, args.selected, args.attention.cache, planned, args.report, stream);
  }
  return outcome == status::ok
             ? grouped_attention<G>(args.rows.num_rows, args.attention, planned, stream)
             : outcome;
}

PAGEUNION_DEVICE_NAMESPACE_END
