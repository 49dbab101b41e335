// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 0. What a host function can answer, one enumerator per cause. Knows nothing else.
#pragma once

#include <pageunion/version.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! Result of every host function that can fail. Each cause names the argument that was wrong.
//! Nothing was enqueued and nothing was written unless the result is ok or cuda_error.
enum class status : int {
  ok = 0,

  // Pointers that must not be null.
  null_q,
  null_k,
  null_v,
  null_out,
  null_selection,
  null_row_request,
  null_row_position,
  null_sequence_length,
  null_block_table,
  null_workspace,
  null_plan,
  null_partials,

  // Pointers and strides that must keep vector loads aligned.
  misaligned_q,
  misaligned_k,
  misaligned_v,
  misaligned_out,
  misaligned_lse,
  misaligned_selection,
  misaligned_batch,
  misaligned_workspace,
  misaligned_plan,
  misaligned_partials,
  misaligned_report,

  // Shapes.
  invalid_num_rows,
  invalid_num_heads,
  invalid_num_kv_heads,
  invalid_heads_per_kv,
  invalid_head_dim,
  invalid_num_requests,
  invalid_cache_element,
  invalid_num_blocks,
  invalid_block_tokens,
  invalid_table_width,
  invalid_selection_width,
  invalid_max_pages,
  invalid_plan_groups,
  invalid_plan_capacity,
  invalid_num_partials,

  // Strides, in elements.
  invalid_q_stride,
  invalid_k_stride,
  invalid_v_stride,
  invalid_out_stride,
  invalid_lse_stride,
  invalid_block_table_stride,
  invalid_selection_stride,
  invalid_count_stride,
  invalid_partial_stride,

  // Values.
  invalid_scale,
  invalid_out_type,
  invalid_lse_base,
  invalid_selection_kind,
  invalid_route,

  // Buffers.
  workspace_too_small,
  overlapping_out,
  overlapping_lse,
  overlapping_report,
  overlapping_workspace,
  overlapping_plan,
  overlapping_partials,

  // What the CUDA runtime or the device answered.
  unsupported_device,
  cuda_error,
};

//! One sentence for a person: which argument was wrong and what was expected. Never null. As long as
//! there are enumerators: a table that the compiler checks for gaps.
constexpr char const* to_string(status s) noexcept {
  switch (s) {
    case status::ok:
      return "ok";
    case status::null_q:
      return "q is null: expected half [rows, num_heads, head_dim] in device memory";
    case status::null_k:
      return "cache.k is null: expected half [num_blocks, block_tokens, num_kv_heads, head_dim]";
    case status::null_v:
      return "cache.v is null: expected half [num_blocks, block_tokens, num_kv_heads, head_dim]";
    case status::null_out:
      return "out is null: expected half or float [rows, num_heads, head_dim] in device memory";
    case status::null_selection:
      return "the selection's table is null: expected int32 [rows, width] in device memory";
    case status::null_row_request:
      return "rows.row_request is null: expected int32 [rows] in device memory";
    case status::null_row_position:
      return "rows.row_position is null: expected int64 [rows] in device memory";
    case status::null_sequence_length:
      return "rows.sequence_length is null: expected int32 [num_requests] in device memory";
    case status::null_block_table:
      return "cache.blocks.table is null: expected int32 [num_requests, width] in device memory";
    case status::null_workspace:
      return "workspace is null: expected workspace_bytes() bytes of device memory";
    case status::null_plan:
      return "an array of the plan is null: expected the arrays that layout_plan() sizes";
    case status::null_partials:
      return "partial.out or partial.lse is null: expected float arrays in device memory";
    case status::misaligned_q:
      return "q is misaligned: its address must be a multiple of 16 bytes";
    case status::misaligned_k:
      return "cache.k is misaligned: its address must be a multiple of 16 bytes";
    case status::misaligned_v:
      return "cache.v is misaligned: its address must be a multiple of 16 bytes";
    case status::misaligned_out:
      return "out is misaligned: its address must be a multiple of 16 bytes";
    case status::misaligned_lse:
      return "lse is misaligned: its address must be a multiple of 4 bytes";
    case status::misaligned_selection:
      return "the selection is misaligned: table and counts must be multiples of 4 bytes";
    case status::misaligned_batch:
      return "an array of rows or cache.blocks is misaligned: int32 needs 4 bytes, int64 needs 8";
    case status::misaligned_workspace:
      return "workspace is misaligned: its address must be a multiple of 256 bytes";
    case status::misaligned_plan:
      return "the plan is misaligned: addresses and masks need 16 bytes, num_pages needs 4";
    case status::misaligned_partials:
      return "the partial results are misaligned: out needs 16 bytes, lse needs 4";
    case status::misaligned_report:
      return "report is misaligned: its address must be a multiple of 8 bytes";
    case status::invalid_num_rows:
      return "rows.num_rows is invalid: expected 0 or more, and no overflow in rows x pages";
    case status::invalid_num_heads:
      return "num_heads is invalid: expected a positive multiple of cache.num_kv_heads";
    case status::invalid_num_kv_heads:
      return "cache.num_kv_heads is invalid: expected 1 or more, 65535 at most";
    case status::invalid_heads_per_kv:
      return "num_heads / cache.num_kv_heads differs from the policy's heads_per_kv";
    case status::invalid_head_dim:
      return "head_dim differs from the policy's head_dim";
    case status::invalid_num_requests:
      return "num_requests is negative: expected 0 or more";
    case status::invalid_cache_element:
      return "cache.element differs from the policy's cache_element";
    case status::invalid_num_blocks:
      return "cache.num_blocks is negative: expected 0 or more";
    case status::invalid_block_tokens:
      return "cache.block_tokens is invalid: expected a positive multiple of page_tokens";
    case status::invalid_table_width:
      return "cache.blocks.width is invalid: expected 0 or more, and width x block_tokens in int32";
    case status::invalid_selection_width:
      return "the selection's width is invalid: expected 0 or more, and no overflow per group";
    case status::invalid_max_pages:
      return "max_pages is invalid: expected 0 (derive it) or a positive number of pages per row";
    case status::invalid_plan_groups:
      return "the plan's num_groups is invalid: expected num_groups() of the rows";
    case status::invalid_plan_capacity:
      return "the plan's capacity is invalid: expected group_capacity() or more, in whole tiles";
    case status::invalid_num_partials:
      return "the number of partial results is invalid: expected 0 or more, or what a row needs";
    case status::invalid_q_stride:
      return "a stride of q is invalid: expected non-negative multiples of 8 elements";
    case status::invalid_k_stride:
      return "a stride of cache.k is invalid: expected non-negative multiples of 8 elements";
    case status::invalid_v_stride:
      return "a stride of cache.v is invalid: expected non-negative multiples of 8 elements";
    case status::invalid_out_stride:
      return "a stride of out is invalid: rows and heads must not overlap, multiples of 8 elements";
    case status::invalid_lse_stride:
      return "a stride of lse is invalid: rows and heads must not overlap";
    case status::invalid_block_table_stride:
      return "cache.blocks.row_stride is invalid: expected at least width elements";
    case status::invalid_selection_stride:
      return "the selection's row_stride is invalid: expected at least width elements";
    case status::invalid_count_stride:
      return "count_stride is invalid: expected 1 or more elements";
    case status::invalid_partial_stride:
      return "a stride of the partial results is invalid: expected non-negative multiples of 4";
    case status::invalid_scale:
      return "scale is invalid: expected a finite float of magnitude 2e38 at most";
    case status::invalid_out_type:
      return "out.type is not an enumerator of element_type";
    case status::invalid_lse_base:
      return "lse.base is not an enumerator of log_base";
    case status::invalid_selection_kind:
      return "selection.kind is not an enumerator of selection_kind";
    case status::invalid_route:
      return "route is not an enumerator of route";
    case status::workspace_too_small:
      return "workspace is too small: expected at least workspace_bytes() bytes";
    case status::overlapping_out:
      return "out overlaps something else of the call: outputs need memory of their own";
    case status::overlapping_lse:
      return "lse overlaps something else of the call: outputs need memory of their own";
    case status::overlapping_report:
      return "report overlaps something else of the call: it needs memory of its own";
    case status::overlapping_workspace:
      return "workspace overlaps an input: the workspace needs memory of its own";
    case status::overlapping_plan:
      return "the plan overlaps something else of the call: each array needs memory of its own";
    case status::overlapping_partials:
      return "the partial results overlap another array: they need memory of their own";
    case status::unsupported_device:
      return "the device cannot give a CTA the shared memory that the policy needs";
    case status::cuda_error:
      return "the CUDA runtime refused the launch: cudaGetLastError() was left alone";
  }
  return "not an enumerator of status";
}

PAGEUNION_NAMESPACE_END
