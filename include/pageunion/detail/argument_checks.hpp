// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. What the host can know about a call's arguments before anything is enqueued: one check
//! per argument, used by every entry point. Plain host code; reads no array and no device.
//!
//! Rules that hold throughout: the pointer of an array without elements may be null, and the stride
//! of an axis with at most one element is not looked at. With zero rows the arrays of a row may be null;
//! shapes, strides, alignment and the workspace are checked all the same.
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <limits>

#include <pageunion/detail/memory_ranges.hpp>
#include <pageunion/geometry.hpp>
#include <pageunion/kv_cache.hpp>
#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/rules.hpp>
#include <pageunion/selection.hpp>
#include <pageunion/status.hpp>

PAGEUNION_DETAIL_NAMESPACE_BEGIN

//! What makes scores of base 2 of products of queries and keys.
constexpr float scale_of_base_two(float scale) noexcept {
  constexpr float log2_e = 1.44269504088896341f;
  return scale * log2_e;
}

//! Kernels load 16 bytes at a time: addresses are multiples of it, strides of its 8 halves.
inline constexpr std::size_t vector_bytes   = 16;
inline constexpr std::int64_t vector_halves = 8;
inline constexpr std::int32_t max_grid_y    = 65535;  //!< CTAs along y: one per KV head

inline bool is_aligned(void const* pointer, std::size_t bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

//! True if every axis that is walked has a stride that is not negative and a multiple of this.
constexpr bool are_strides_valid(std::initializer_list<array_axis> axes,
                                 std::int64_t multiple) noexcept {
  for (array_axis const& axis : axes) {
    if (axis.count > 1 && (axis.stride < 0 || axis.stride % multiple != 0)) {
      return false;
    }
  }
  return true;
}

//! True if no two elements of [rows, heads, inner] share memory: heads lie within a row's stride or
//! rows within a head's.
constexpr bool are_outputs_disjoint(array_axis rows, array_axis heads,
                                    std::int64_t inner) noexcept {
  auto const is_nested = [inner](array_axis outer, array_axis within) {
    if (within.count > 1 && within.stride < inner) {
      return false;
    }
    return outer.count <= 1 || static_cast<std::uint64_t>(outer.stride) >=
                                   extent_elements({within}, static_cast<std::uint64_t>(inner));
  };
  return is_nested(rows, heads) || is_nested(heads, rows);
}

//! @return invalid_num_rows; invalid_num_requests; null_row_request; null_row_position;
//!         null_sequence_length; misaligned_batch
[[nodiscard]] inline status check_batch(batch const& rows, std::int32_t num_requests) noexcept {
  if (rows.num_rows < 0) {
    return status::invalid_num_rows;
  }
  if (num_requests < 0) {
    return status::invalid_num_requests;
  }
  if (rows.num_rows == 0) {
    return status::ok;
  }
  if (rows.row_request == nullptr) {
    return status::null_row_request;
  }
  if (rows.row_position == nullptr) {
    return status::null_row_position;
  }
  if (rows.sequence_length == nullptr && num_requests > 0) {
    return status::null_sequence_length;
  }
  bool const is_good = is_aligned(rows.row_request, sizeof(std::int32_t)) &&
                       is_aligned(rows.row_position, sizeof(std::int64_t)) &&
                       is_aligned(rows.sequence_length, sizeof(std::int32_t));
  return is_good ? status::ok : status::misaligned_batch;
}

//! One of a selection's tables, [num_rows, width].
[[nodiscard]] inline status check_selection_table(std::int32_t const* table, std::int32_t width,
                                                  std::int64_t row_stride,
                                                  std::int32_t num_rows) noexcept {
  if (width < 0) {
    return status::invalid_selection_width;
  }
  if (num_rows > 1 && row_stride < width) {
    return status::invalid_selection_stride;
  }
  if (!is_addressable({{num_rows, row_stride}}, static_cast<std::uint64_t>(width),
                      sizeof(std::int32_t))) {
    return status::invalid_selection_stride;
  }
  if (table == nullptr && num_rows > 0 && width > 0) {
    return status::null_selection;
  }
  return is_aligned(table, sizeof(std::int32_t)) ? status::ok : status::misaligned_selection;
}

//! @return invalid_selection_kind; invalid_selection_width; invalid_selection_stride;
//!         null_selection; misaligned_selection; invalid_max_pages; invalid_count_stride
[[nodiscard]] inline status check_selection(selection const& selected,
                                            std::int32_t num_rows) noexcept {
  if (selected.kind == selection_kind::pages) {
    page_table const& table = selected.pages;
    return check_selection_table(table.pages, table.width, table.row_stride, num_rows);
  }
  if (selected.kind != selection_kind::tokens) {
    return status::invalid_selection_kind;
  }
  token_table const& table = selected.tokens;
  status const checked =
      check_selection_table(table.tokens, table.width, table.row_stride, num_rows);
  if (checked != status::ok) {
    return checked;
  }
  if (table.max_pages < 0) {
    return status::invalid_max_pages;
  }
  if (table.counts == nullptr) {
    return status::ok;
  }
  if (num_rows > 1 && table.count_stride < 1) {
    return status::invalid_count_stride;
  }
  if (!is_addressable({{num_rows, table.count_stride}}, 1, sizeof(std::int32_t))) {
    return status::invalid_count_stride;
  }
  return is_aligned(table.counts, sizeof(std::int32_t)) ? status::ok : status::misaligned_selection;
}

//! The block table, [num_requests, width].
//! @return invalid_num_requests; invalid_table_width; invalid_block_table_stride; null_block_table;
//!         misaligned_batch
[[nodiscard]] inline status check_block_table(block_table const& blocks, std::int32_t block_tokens,
                                              std::int32_t num_rows) noexcept {
  if (blocks.num_requests < 0) {
    return status::invalid_num_requests;
  }
  std::int64_t const mapped_tokens = static_cast<std::int64_t>(blocks.width) * block_tokens;
  if (blocks.width < 0 || mapped_tokens > std::numeric_limits<std::int32_t>::max()) {
    return status::invalid_table_width;
  }
  if (blocks.num_requests > 1 && blocks.row_stride < blocks.width) {
    return status::invalid_block_table_stride;
  }
  if (!is_addressable({{blocks.num_requests, blocks.row_stride}},
                      static_cast<std::uint64_t>(blocks.width), sizeof(std::int32_t))) {
    return status::invalid_block_table_stride;
  }
  if (blocks.table == nullptr && num_rows > 0 && blocks.num_requests > 0 && blocks.width > 0) {
    return status::null_block_table;
  }
  return is_aligned(blocks.table, sizeof(std::int32_t)) ? status::ok : status::misaligned_batch;
}

//! What check_cache_array() answers for K or for V.
struct cache_array_statuses {
  status null;
  status misaligned;
  status stride;
};

//! K or V, [num_blocks, block_tokens, num_kv_heads, head_dim] by its strides.
template <class Geometry>
[[nodiscard]] status check_cache_array(typename Geometry::cache_element const* data,
                                       kv_strides const& strides, kv_cache const& cache,
                                       std::int32_t num_rows,
                                       cache_array_statuses const& statuses) noexcept {
  array_axis const blocks{cache.num_blocks, strides.block};
  array_axis const tokens{cache.block_tokens, strides.token};
  array_axis const heads{cache.num_kv_heads, strides.head};
  if (!are_strides_valid({blocks, tokens, heads}, vector_halves) ||
      !is_addressable({blocks, tokens, heads}, Geometry::head_dim,
                      sizeof(typename Geometry::cache_element))) {
    return statuses.stride;
  }
  if (data == nullptr && num_rows > 0 && cache.num_blocks > 0) {
    return statuses.null;
  }
  return is_aligned(data, vector_bytes) ? status::ok : statuses.misaligned;
}

//! The cache and its block table.
//! @return invalid_num_kv_heads; invalid_num_blocks; invalid_block_tokens; what
//!         check_block_table() returns; null, misaligned or invalid stride of k or v
template <class Geometry>
[[nodiscard]] status check_cache(kv_cache const& cache, std::int32_t num_rows) noexcept {
  if (cache.num_kv_heads < 1 || cache.num_kv_heads > max_grid_y) {
    return status::invalid_num_kv_heads;
  }
  if (cache.num_blocks < 0) {
    return status::invalid_num_blocks;
  }
  if (cache.block_tokens < 1 || cache.block_tokens % Geometry::page_tokens != 0) {
    return status::invalid_block_tokens;
  }
  status checked = check_block_table(cache.blocks, cache.block_tokens, num_rows);
  if (checked != status::ok) {
    return checked;
  }
  checked =
      check_cache_array<Geometry>(cache.k, cache.k_strides, cache, num_rows,
                                  {status::null_k, status::misaligned_k, status::invalid_k_stride});
  if (checked != status::ok) {
    return checked;
  }
  return check_cache_array<Geometry>(
      cache.v, cache.v_strides, cache, num_rows,
      {status::null_v, status::misaligned_v, status::invalid_v_stride});
}

//! The queries, [num_rows, num_heads, head_dim].
//! @param num_kv_heads what check_cache() accepted
//! @return invalid_head_dim; invalid_num_heads; invalid_heads_per_kv; invalid_q_stride; null_q;
//!         misaligned_q
template <class Geometry>
[[nodiscard]] status check_query(query_view const& q, std::int32_t num_rows,
                                 std::int32_t num_kv_heads) noexcept {
  if (q.head_dim != Geometry::head_dim) {
    return status::invalid_head_dim;
  }
  if (q.num_heads < 1 || q.num_heads % num_kv_heads != 0) {
    return status::invalid_num_heads;
  }
  if (q.num_heads / num_kv_heads != Geometry::heads_per_kv) {
    return status::invalid_heads_per_kv;
  }
  array_axis const rows{num_rows, q.row_stride};
  array_axis const heads{q.num_heads, q.head_stride};
  if (!are_strides_valid({rows, heads}, vector_halves) ||
      !is_addressable({rows, heads}, Geometry::head_dim, sizeof(__half))) {
    return status::invalid_q_stride;
  }
  if (q.data == nullptr && num_rows > 0) {
    return status::null_q;
  }
  return is_aligned(q.data, vector_bytes) ? status::ok : status::misaligned_q;
}

//! The output, [num_rows, num_heads, head_dim].
//! @return invalid_out_type; invalid_out_stride; null_out; misaligned_out
[[nodiscard]] inline status check_output(output_view const& out, std::int32_t num_rows,
                                         std::int32_t num_heads, std::int32_t head_dim) noexcept {
  if (out.type != element_type::f16 && out.type != element_type::f32) {
    return status::invalid_out_type;
  }
  array_axis const rows{num_rows, out.row_stride};
  array_axis const heads{num_heads, out.head_stride};
  if (!are_strides_valid({rows, heads}, vector_halves) ||
      !are_outputs_disjoint(rows, heads, head_dim) ||
      !is_addressable({rows, heads}, static_cast<std::uint64_t>(head_dim),
                      element_bytes(out.type))) {
    return status::invalid_out_stride;
  }
  if (out.data == nullptr && num_rows > 0) {
    return status::null_out;
  }
  return is_aligned(out.data, vector_bytes) ? status::ok : status::misaligned_out;
}

//! The lse, [num_rows, num_heads]; null is legal and asks for none.
//! @return invalid_lse_base; invalid_lse_stride; misaligned_lse
[[nodiscard]] inline status check_lse(lse_view const& lse, std::int32_t num_rows,
                                      std::int32_t num_heads) noexcept {
  if (lse.base != log_base::natural && lse.base != log_base::two) {
    return status::invalid_lse_base;
  }
  if (lse.data == nullptr) {
    return status::ok;
  }
  array_axis const rows{num_rows, lse.row_stride};
  array_axis const heads{num_heads, lse.head_stride};
  if (!are_strides_valid({rows, heads}, 1) || !are_outputs_disjoint(rows, heads, 1) ||
      !is_addressable({rows, heads}, 1, sizeof(float))) {
    return status::invalid_lse_stride;
  }
  return is_aligned(lse.data, sizeof(float)) ? status::ok : status::misaligned_lse;
}

//! @return invalid_scale unless the scale is finite, also in base 2, as the kernels take it
[[nodiscard]] inline status check_scale(float scale) noexcept {
  // By the bits: a user's fast-math flags may make std::isfinite always true.
  constexpr std::uint32_t exponent = 0x7f800000u;
  float const scale_log2           = scale_of_base_two(scale);
  std::uint32_t bits               = 0;
  std::memcpy(&bits, &scale_log2, sizeof(bits));
  return (bits & exponent) != exponent ? status::ok : status::invalid_scale;
}

//! Everything that an attention call reads and writes besides rows and selection.
template <class Geometry>
[[nodiscard]] status check_operands(attention_operands const& operands,
                                    std::int32_t num_rows) noexcept {
  status checked = check_cache<Geometry>(operands.cache, num_rows);
  if (checked != status::ok) {
    return checked;
  }
  query_view const& q = operands.q;
  checked             = check_query<Geometry>(q, num_rows, operands.cache.num_kv_heads);
  if (checked != status::ok) {
    return checked;
  }
  checked = check_output(operands.out, num_rows, q.num_heads, q.head_dim);
  if (checked != status::ok) {
    return checked;
  }
  checked = check_lse(operands.lse, num_rows, q.num_heads);
  return checked != status::ok ? checked : check_scale(operands.scale);
}

//! That the plan of this many rows can be sized and indexed. The other checks come before it.
//! @return invalid_selection_width if a group's entries overflow int32; invalid_num_rows if all
//!         groups' entries overflow the address space
template <class Geometry>
[[nodiscard]] status check_plan_size(std::int32_t num_rows, selection const& selected,
                                     kv_cache const& cache) noexcept {
  std::int64_t const pages =
      max_pages_per_row(selected, Geometry::page_tokens, cache.block_tokens, cache.blocks.width);
  std::int64_t const capacity = group_capacity<Geometry>(pages);
  if (capacity > std::numeric_limits<std::int32_t>::max()) {
    return status::invalid_selection_width;
  }
  constexpr std::size_t entry_bytes = sizeof(page_address) + sizeof(typename Geometry::mask_type);
  return is_addressable({{num_groups<Geometry>(num_rows), capacity}},
                        static_cast<std::uint64_t>(capacity), entry_bytes)
             ? status::ok
             : status::invalid_num_rows;
}

//! The arrays of a plan of this many rows, as a caller of the planner or of the grouped attention
//! gives them.
//! @return invalid_num_rows; invalid_plan_groups if num_groups is another number of rows';
//!         invalid_plan_capacity if it is no whole number of tiles; null_plan; misaligned_plan
template <class Geometry>
[[nodiscard]] status check_plan(plan<Geometry> const& planned, std::int32_t num_rows) noexcept {
  if (num_rows < 0) {
    return status::invalid_num_rows;
  }
  if (planned.num_groups != num_groups<Geometry>(num_rows)) {
    return status::invalid_plan_groups;
  }
  if (planned.capacity < 0 || planned.capacity % Geometry::tile_pages != 0) {
    return status::invalid_plan_capacity;
  }
  bool const has_entries = planned.num_groups > 0 && planned.capacity > 0;
  if ((has_entries && (planned.addresses == nullptr || planned.masks == nullptr)) ||
      (planned.num_groups > 0 && planned.num_pages == nullptr)) {
    return status::null_plan;
  }
  bool const is_good = is_aligned(planned.addresses, vector_bytes) &&
                       is_aligned(planned.masks, vector_bytes) &&
                       is_aligned(planned.num_pages, sizeof(std::int32_t));
  return is_good ? status::ok : status::misaligned_plan;
}

//! @param needed bytes that workspace_bytes() gives for the same call
//! @return null_workspace; misaligned_workspace; workspace_too_small
[[nodiscard]] inline status check_workspace(void const* workspace, std::size_t bytes,
                                            std::size_t needed) noexcept {
  if (workspace == nullptr) {
    return status::null_workspace;
  }
  if (!is_aligned(workspace, workspace_alignment)) {
    return status::misaligned_workspace;
  }
  return bytes >= needed ? status::ok : status::workspace_too_small;
}

//! @param report null is legal and asks for none
//! @return misaligned_report
[[nodiscard]] inline status check_report(plan_report const* report) noexcept {
  return is_aligned(report, alignof(plan_report)) ? status::ok : status::misaligned_report;
}

//! An array that a call writes, and the status that names it if it overlaps another.
struct written_array {
  memory_range range;
  status overlapping;
};

//! That nothing that is written shares memory with anything that is read, or with each other.
//! @return of the first array that does, its own status
[[nodiscard]] inline status check_overlaps(memory_ranges const& inputs,
                                           std::initializer_list<written_array> written) noexcept {
  for (written_array const* one = written.begin(); one != written.end(); ++one) {
    bool overlapping = inputs.meets(one->range);
    for (written_array const* other = one + 1; other != written.end(); ++other) {
      overlapping = overlapping || overlaps(one->range, other->range);
    }
    if (overlapping) {
      return one->overlapping;
    }
  }
  return status::ok;
}

PAGEUNION_DETAIL_NAMESPACE_END
