// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 8. The front door: checks a call, once, plans and attends. Knows every route and no kernel.
#pragma once

#include <pageunion/detail/host/launch.cuh>

#include <cstddef>

#include <pageunion/grouped_attention.cuh>
#include <pageunion/planner.cuh>
#include <pageunion/prefill.hpp>
#include <pageunion/row_attention.cuh>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Chooses the route of a call by what the host knows: rows, requests, KV heads and the device's SMs.
template <class Policy, class Selector>
[[nodiscard]] status choose_route(tuning const& tuned, prefill_args const& args,
                                  prefill_info& info) noexcept {
  std::int32_t const num_rows = args.rows.num_rows;
  if (args.route != route::automatic) {
    info = {args.route, "the caller asked for it"};
    return status::ok;
  }
  if (num_rows > tuned.row_route_rows || num_rows > shape_of<Policy, Selector>(args).max_row_rows) {
    info = {
        route::grouped,
        "there are more rows than the tuning's row_route_rows, or than row attention can index"};
    return status::ok;
  }
  int device = 0, num_sms = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&num_sms, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    return status::cuda_error;
  }
  kv_cache const& cache = args.attention.cache;
  info = is_faster_by_row<Policy>(tuned, num_rows, cache.blocks.num_requests, cache.num_kv_heads,
                                  num_sms)
             ? prefill_info{route::row, "there are few rows for the device's SMs and the requests"}
             : prefill_info{route::grouped,
                            "there are many rows for the device's SMs and the requests"};
  return status::ok;
}

//! prefill() without its checks.
template <class Policy, class Selector, class Code>
[[nodiscard]] status enqueue_prefill(Code grouped, prefill_args const& args, void* workspace,
                                     cudaStream_t stream, prefill_info* info) noexcept {
  prefill_info chosen;
  status outcome = choose_route<Policy, Selector>(
      Selector::template select<Policy>(Code::architecture), args, chosen);
  if (outcome != status::ok) {
    return outcome;
  }
  if (info != nullptr) {
    *info = chosen;
  }
  auto const shape    = shape_of<Policy, Selector>(args);
  query_view const& q = args.attention.q;
  if (chosen.route == route::row) {
    return enqueue_row_attention(row_attention_code<Policy, Selector, Code::architecture>{},
                                 args.rows, args.selected, args.attention,
                                 carve_partials(workspace, shape.num_partitions, args.rows.num_rows,
                                                q.num_heads, q.head_dim),
                                 args.report, stream);
  }
  auto const planned =
      carve_plan<plan_shape_of<Policy>>(workspace, shape.num_groups, shape.capacity);
  // What the device may be unable to do is asked before the planner is enqueued.
  outcome = shape.num_groups > 0 ? allow_smem(Code::kernel, Code::smem_bytes) : status::ok;
  if (outcome == status::ok) {
    outcome =
        enqueue_plan(args.rows, args.selected, args.attention.cache, planned, args.report, stream);
  }
  return outcome == status::ok ? enqueue_grouped_attention(grouped, args.rows.num_rows,
                                                           args.attention, planned, stream)
                               : outcome;
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
PAGEUNION_DEVICE_NAMESPACE_BEGIN

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
//! Device: the current device must be the one that holds `stream` and all of the memory, which is not
//! checked. On another device's stream the runtime refuses the first launch, before anything is
//! enqueued: cuda_error (CUDA C++ Programming Guide, "Stream and Event Behavior").
//! Source: online softmax, Milakov and Gimelshein, arXiv:1805.02867; tiling, Dao et al.,
//! arXiv:2205.14135. The union of the pages of adjacent rows is this library's own subject.
//!
//! @tparam Policy   what to compile for; the shapes of the call must fit it
//! @tparam Selector the tuning: speed alone, never what is computed
//! @param workspace device memory, 256-byte aligned
//! @param bytes     size of `workspace`, at least workspace_bytes() of the same shapes
//! @param info      host memory, or null: which route was taken and why
//! @return ok; what can_prefill() says; unsupported_device; cuda_error from a launch. Unless it is the
//!         last, nothing was enqueued.
template <class Policy = qsa_policy, class Selector = default_tuning>
[[nodiscard]] status prefill(prefill_args const& args, void* workspace, std::size_t bytes,
                             cudaStream_t stream, prefill_info* info = nullptr) noexcept {
  status const checked = can_prefill<Policy, Selector>(args, workspace, bytes);
  if (checked != status::ok) {
    return checked;
  }
  return detail::with_loaded_code<detail::grouped_attention_code, Policy, Selector>([&](auto code) {
    return detail::enqueue_prefill<Policy, Selector>(code, args, workspace, stream, info);
  });
}

PAGEUNION_DEVICE_NAMESPACE_END
