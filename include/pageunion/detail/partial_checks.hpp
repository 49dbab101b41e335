// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. What the host can know about partial results before anything is enqueued; the rules of
//! argument_checks.hpp hold. Plain host code; reads no array and no device.
#pragma once

#include <cstdint>
#include <initializer_list>

#include <pageunion/detail/argument_checks.hpp>
#include <pageunion/detail/memory_ranges.hpp>
#include <pageunion/operands.hpp>
#include <pageunion/status.hpp>

PAGEUNION_DETAIL_NAMESPACE_BEGIN

//! The partial results that merge_partials() reads, [num_partials, num_rows, num_heads, head_dim].
//! @return invalid_num_rows; invalid_num_heads; invalid_num_partials; invalid_lse_base;
//!         invalid_partial_stride; null_partials; misaligned_partials
[[nodiscard]] inline status check_partials(partial_view const& partials, std::int32_t num_partials,
                                           std::int32_t num_rows, std::int32_t num_heads,
                                           std::int32_t head_dim) noexcept {
  constexpr std::int64_t vector_floats = vector_bytes / sizeof(float);
  if (num_rows < 0) {
    return status::invalid_num_rows;
  }
  if (num_heads < 1) {
    return status::invalid_num_heads;
  }
  if (num_partials < 0) {
    return status::invalid_num_partials;
  }
  if (partials.base != log_base::natural && partials.base != log_base::two) {
    return status::invalid_lse_base;
  }
  std::initializer_list<array_axis> const out = {{num_partials, partials.out_partial_stride},
                                                 {num_rows, partials.out_row_stride},
                                                 {num_heads, partials.out_head_stride}};
  std::initializer_list<array_axis> const lse = {{num_partials, partials.lse_partial_stride},
                                                 {num_rows, partials.lse_row_stride},
                                                 {num_heads, partials.lse_head_stride}};
  if (!are_strides_valid(out, vector_floats) || !are_strides_valid(lse, 1) ||
      !is_addressable(out, static_cast<std::uint64_t>(head_dim), sizeof(float)) ||
      !is_addressable(lse, 1, sizeof(float))) {
    return status::invalid_partial_stride;
  }
  bool const has_elements = num_partials > 0 && num_rows > 0;
  if (has_elements && (partials.out == nullptr || partials.lse == nullptr)) {
    return status::null_partials;
  }
  bool const is_good =
      is_aligned(partials.out, vector_bytes) && is_aligned(partials.lse, sizeof(float));
  return is_good ? status::ok : status::misaligned_partials;
}

//! Where row attention writes partial results; not looked at if a row has one partition.
//! @return invalid_num_partials; null_partials; misaligned_partials
[[nodiscard]] inline status check_row_partials(row_partials const& partials,
                                               std::int32_t num_partitions) noexcept {
  if (num_partitions < 2) {
    return status::ok;
  }
  if (partials.num_partitions < num_partitions) {
    return status::invalid_num_partials;
  }
  if (partials.out == nullptr || partials.lse == nullptr) {
    return status::null_partials;
  }
  bool const is_good =
      is_aligned(partials.out, vector_bytes) && is_aligned(partials.lse, sizeof(float));
  return is_good ? status::ok : status::misaligned_partials;
}

PAGEUNION_DETAIL_NAMESPACE_END
