// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. What the host can know about the shape and the values of one argument before anything is
//! enqueued. Plain host code; reads no array and no device.
//!
//! Rules that hold throughout: the pointer of an array without elements may be null, and the stride
//! of an axis with at most one element is not looked at. With zero rows the arrays of a row may be null;
//! shapes, strides, alignment and the workspace are checked all the same. A check may be asked whatever
//! the others answered: no argument lets it overflow, divide by zero or read memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <pageunion/detail/float_bits.hpp>
#include <pageunion/detail/host/call_arrays.hpp>
#include <pageunion/rules.hpp>
#include <pageunion/status.hpp>

PAGEUNION_DETAIL_NAMESPACE_BEGIN

//! What makes scores of base 2 of products of queries and keys.
constexpr float scale_of_base_two(float scale) noexcept {
  constexpr float log2_e = 1.44269504088896341f;
  return scale * log2_e;
}

inline constexpr std::int64_t vector_halves = 8;  //!< of vector_bytes: strides are multiples of it
inline constexpr std::int32_t max_grid_y    = 65535;  //!< CTAs along y: one per KV head
inline constexpr std::int32_t max_grid_x    = (std::numeric_limits<std::int32_t>::max)();

//! The first of some answers that is not ok.
constexpr status first_error(std::initializer_list<status> answers) noexcept {
  for (status const answer : answers) {
    if (answer != status::ok) {
      return answer;
    }
  }
  return status::ok;
}

constexpr status ok_if(bool holds, status otherwise) noexcept {
  return holds ? status::ok : otherwise;
}

//! True if every axis that is walked has a stride that is not negative and a multiple of this, and the
//! array's bytes can be counted in an int64.
constexpr bool has_valid_strides(strided_array const& array, std::int64_t multiple) noexcept {
  for (array_axis const& axis : array.axes) {
    if (axis.count > 1 && (axis.stride < 0 || axis.stride % multiple != 0)) {
      return false;
    }
  }
  return array.bytes() <= max_array_bytes;
}

//! True if also no two elements share memory: heads lie within a row's stride or rows within a head's.
constexpr bool has_output_strides(strided_array const& array, std::int64_t multiple) noexcept {
  auto const inner     = static_cast<std::uint64_t>(array.inner);
  auto const is_nested = [&](array_axis const& outer, array_axis const& within) {
    return (within.count <= 1 || within.stride >= array.inner) &&
           (outer.count <= 1 ||
            static_cast<std::uint64_t>(outer.stride) >= extent_elements({within}, inner));
  };
  array_axis const& rows  = array.axes[0];
  array_axis const& heads = array.axes[1];
  return has_valid_strides(array, multiple) && (is_nested(rows, heads) || is_nested(heads, rows));
}

//! True if the rows of a table lie apart without sharing an entry.
constexpr bool has_table_stride(strided_array const& table) noexcept {
  array_axis const& rows = table.axes[0];
  return (rows.count <= 1 || rows.stride >= table.inner) && table.bytes() <= max_array_bytes;
}

//! @return invalid_num_rows; invalid_num_requests
[[nodiscard]] constexpr status check_shape(batch const& rows, std::int32_t num_requests) noexcept {
  return first_error({ok_if(rows.num_rows >= 0, status::invalid_num_rows),
                      ok_if(num_requests >= 0, status::invalid_num_requests)});
}

//! @return invalid_selection_kind; invalid_selection_width; invalid_selection_stride;
//!         invalid_max_pages; invalid_count_stride, unless there are no counts
[[nodiscard]] constexpr status check_shape(selection const& selected,
                                           std::int32_t num_rows) noexcept {
  strided_array const table  = array_of(selected, num_rows);
  strided_array const counts = counts_of(selected, num_rows);
  bool const is_by_pages     = selected.kind == selection_kind::pages;
  return first_error({
      ok_if(is_by_pages || selected.kind == selection_kind::tokens, status::invalid_selection_kind),
      ok_if(table.inner >= 0, status::invalid_selection_width),
      ok_if(has_table_stride(table), status::invalid_selection_stride),
      ok_if(is_by_pages || selected.tokens.max_pages >= 0, status::invalid_max_pages),
      ok_if(counts.data == nullptr || has_table_stride(counts), status::invalid_count_stride),
  });
}

//! The cache blocks and the table that maps them.
//! @return invalid_num_blocks; invalid_block_tokens; invalid_num_requests; invalid_table_width;
//!         invalid_block_table_stride
template <class Shape>
[[nodiscard]] constexpr status check_blocks(kv_cache const& cache) noexcept {
  block_table const& blocks        = cache.blocks;
  std::int64_t const mapped_tokens = static_cast<std::int64_t>(blocks.width) * cache.block_tokens;
  return first_error({
      ok_if(cache.num_blocks >= 0, status::invalid_num_blocks),
      ok_if(cache.block_tokens >= 1 && cache.block_tokens % Shape::page_tokens == 0,
            status::invalid_block_tokens),
      ok_if(blocks.num_requests >= 0, status::invalid_num_requests),
      ok_if(blocks.width >= 0 && mapped_tokens <= (std::numeric_limits<std::int32_t>::max)(),
            status::invalid_table_width),
      ok_if(has_table_stride(array_of(blocks)), status::invalid_block_table_stride),
  });
}

//! K and V, [num_blocks, block_tokens, num_kv_heads, head_dim] by their strides, and the blocks.
//! @return invalid_cache_element; invalid_num_kv_heads; what check_blocks() returns; invalid_k_stride;
//!         invalid_v_stride
template <class Policy>
[[nodiscard]] constexpr status check_shape(kv_cache const& cache) noexcept {
  using codec        = cache_codec<Policy::cache_element>;
  auto const is_good = [&cache](kv_strides const& strides) {
    return has_valid_strides(array_of<Policy>(cache, nullptr, strides), codec::vector_elements);
  };
  return first_error({ok_if(cache.element == Policy::cache_element, status::invalid_cache_element),
                      ok_if(cache.num_kv_heads >= 1 && cache.num_kv_heads <= max_grid_y,
                            status::invalid_num_kv_heads),
                      check_blocks<Policy>(cache),
                      ok_if(is_good(cache.k_strides), status::invalid_k_stride),
                      ok_if(is_good(cache.v_strides), status::invalid_v_stride)});
}

//! The queries, [num_rows, num_heads, head_dim].
//! @return invalid_head_dim; invalid_num_heads; invalid_heads_per_kv; invalid_q_stride
template <class Policy>
[[nodiscard]] constexpr status check_shape(query_view const& q, std::int32_t num_rows,
                                           std::int32_t num_kv_heads) noexcept {
  std::int32_t const kv_heads = (std::max)(num_kv_heads, 1);  // none are the cache's error
  return first_error(
      {ok_if(q.head_dim == Policy::head_dim, status::invalid_head_dim),
       ok_if(q.num_heads >= 1 && q.num_heads % kv_heads == 0, status::invalid_num_heads),
       ok_if(q.num_heads / kv_heads == Policy::heads_per_kv, status::invalid_heads_per_kv),
       ok_if(has_valid_strides(array_of(q, num_rows), vector_halves), status::invalid_q_stride)});
}

//! The output, [num_rows, num_heads, head_dim].
//! @return invalid_out_type; invalid_out_stride
[[nodiscard]] constexpr status check_shape(output_view const& out,
                                           result_shape const& shape) noexcept {
  return first_error(
      {ok_if(out.type == element_type::f16 || out.type == element_type::f32,
             status::invalid_out_type),
       ok_if(has_output_strides(array_of(out, shape), vector_halves), status::invalid_out_stride)});
}

constexpr bool is_base(log_base base) noexcept {
  return base == log_base::natural || base == log_base::two;
}

//! The lse, [num_rows, num_heads]; null is legal and asks for none.
//! @return invalid_lse_base; invalid_lse_stride
[[nodiscard]] constexpr status check_shape(lse_view const& lse,
                                           result_shape const& shape) noexcept {
  return first_error({ok_if(is_base(lse.base), status::invalid_lse_base),
                      ok_if(lse.data == nullptr || has_output_strides(array_of(lse, shape), 1),
                            status::invalid_lse_stride)});
}

//! @return invalid_scale unless the scale is finite, also in base 2, as the kernels take it
[[nodiscard]] inline status check_scale(float scale) noexcept {
  return ok_if(!is_nonfinite(scale_of_base_two(scale)), status::invalid_scale);
}

//! Everything that an attention call reads and writes besides rows and selection.
template <class Policy>
[[nodiscard]] status check_shape(attention_operands const& operands,
                                 std::int32_t num_rows) noexcept {
  query_view const& q = operands.q;
  result_shape const results{num_rows, q.num_heads, q.head_dim};
  return first_error({check_shape<Policy>(operands.cache),
                      check_shape<Policy>(q, num_rows, operands.cache.num_kv_heads),
                      check_shape(operands.out, results), check_shape(operands.lse, results),
                      check_scale(operands.scale)});
}

//! That the plan of this many rows can be sized and indexed.
//! @return invalid_selection_width if a group's entries overflow int32; invalid_num_rows if all
//!         groups' entries overflow the address space
template <class Shape>
[[nodiscard]] constexpr status check_plan_size(std::int32_t num_rows, selection const& selected,
                                               kv_cache const& cache) noexcept {
  std::int64_t const capacity = group_capacity<Shape>(
      max_pages_per_row(selected, Shape::page_tokens, cache.block_tokens, cache.blocks.width));
  constexpr std::size_t entry_bytes = sizeof(page_address) + sizeof(typename Shape::mask_type);
  return first_error(
      {ok_if(capacity <= (std::numeric_limits<std::int32_t>::max)(),
             status::invalid_selection_width),
       ok_if(strided_array(nullptr, capacity, entry_bytes, {num_groups<Shape>(num_rows), capacity})
                     .bytes() <= max_array_bytes,
             status::invalid_num_rows)});
}

//! A plan of this many rows, as a caller of the planner or of the grouped attention gives it.
//! @return invalid_num_rows; invalid_plan_groups if num_groups is another number of rows';
//!         invalid_plan_capacity if it is no whole number of tiles; null_plan; misaligned_plan
template <class Shape>
[[nodiscard]] status check_plan(plan<Shape> const& planned, std::int32_t num_rows) noexcept {
  call_arrays arrays;
  arrays.add(planned, status::ok);
  return first_error(
      {ok_if(num_rows >= 0, status::invalid_num_rows),
       ok_if(planned.num_groups == num_groups<Shape>(num_rows), status::invalid_plan_groups),
       ok_if(planned.capacity >= 0 && planned.capacity % Shape::tile_pages == 0,
             status::invalid_plan_capacity),
       arrays.check()});
}

//! The partial results that merge_partials() reads, [num_partials, num_rows, num_heads, head_dim].
//! @return invalid_num_rows; invalid_num_heads; invalid_num_partials; invalid_lse_base;
//!         invalid_partial_stride
[[nodiscard]] constexpr status check_shape(partial_view const& partials, std::int32_t num_partials,
                                           result_shape const& shape) noexcept {
  constexpr std::int64_t vector_floats = vector_bytes / sizeof(float);
  return first_error(
      {ok_if(shape.num_rows >= 0, status::invalid_num_rows),
       ok_if(shape.num_heads >= 1, status::invalid_num_heads),
       ok_if(num_partials >= 0, status::invalid_num_partials),
       ok_if(is_base(partials.base), status::invalid_lse_base),
       ok_if(has_valid_strides(out_array_of(partials, num_partials, shape), vector_floats) &&
                 has_valid_strides(lse_array_of(partials, num_partials, shape), 1),
             status::invalid_partial_stride)});
}

//! @param needed bytes that workspace_bytes() gives for the same call
//! @return null_workspace; misaligned_workspace; workspace_too_small
[[nodiscard]] inline status check_workspace(void const* workspace, std::size_t bytes,
                                            std::size_t needed) noexcept {
  return first_error(
      {ok_if(workspace != nullptr, status::null_workspace),
       ok_if(is_aligned(workspace, workspace_alignment), status::misaligned_workspace),
       ok_if(bytes >= needed, status::workspace_too_small)});
}

PAGEUNION_DETAIL_NAMESPACE_END
