// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Which bytes the arrays of a call cover, so that overlaps are found before anything is
//! enqueued. Knows shapes and strides; no sum or product here can overflow.
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <pageunion/kv_cache.hpp>
#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/selection.hpp>

PAGEUNION_DETAIL_NAMESPACE_BEGIN

//! The largest number of bytes that an array may span: pointer differences are signed.
inline constexpr std::uint64_t max_array_bytes =
    static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

//! a + b and a * b, or the largest number if that would overflow.
constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept {
  constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  return a > largest - b ? largest : a + b;
}
constexpr std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b) noexcept {
  constexpr std::uint64_t largest = std::numeric_limits<std::uint64_t>::max();
  return b != 0 && a > largest / b ? largest : a * b;
}

//! One axis of an array: `count` places, `stride` elements apart.
struct array_axis {
  std::int64_t count  = 0;
  std::int64_t stride = 0;
};

//! Elements from an array's first to one past its last: the last element of every axis, and `inner`
//! contiguous elements there. 0 if an axis is empty. Strides of axes with more than one place are
//! not negative.
constexpr std::uint64_t extent_elements(std::initializer_list<array_axis> axes,
                                        std::uint64_t inner) noexcept {
  std::uint64_t extent = inner;
  for (array_axis const& axis : axes) {
    if (axis.count < 1 || inner == 0) {
      return 0;
    }
    if (axis.count > 1) {
      extent =
          saturating_add(extent, saturating_multiply(static_cast<std::uint64_t>(axis.count - 1),
                                                     static_cast<std::uint64_t>(axis.stride)));
    }
  }
  return extent;
}

//! True if the array's bytes can be counted in an int64.
constexpr bool is_addressable(std::initializer_list<array_axis> axes, std::uint64_t inner,
                              std::size_t element_bytes) noexcept {
  return saturating_multiply(extent_elements(axes, inner), element_bytes) <= max_array_bytes;
}

//! Bytes [begin, end) of the address space; empty if they are equal.
struct memory_range {
  std::uint64_t begin = 0;
  std::uint64_t end   = 0;
};

//! The bytes from an array's first element to its last.
inline memory_range range_of(void const* data, std::initializer_list<array_axis> axes,
                             std::uint64_t inner, std::size_t element_bytes) noexcept {
  std::uint64_t const begin = reinterpret_cast<std::uintptr_t>(data);
  if (data == nullptr) {
    return {};
  }
  return {begin,
          saturating_add(begin, saturating_multiply(extent_elements(axes, inner), element_bytes))};
}

//! True if two ranges have a byte in common.
constexpr bool overlaps(memory_range a, memory_range b) noexcept {
  return a.begin < b.end && b.begin < a.end && a.begin < a.end && b.begin < b.end;
}

constexpr std::size_t element_bytes(element_type type) noexcept {
  return type == element_type::f32 ? sizeof(float) : sizeof(__half);
}

//! Bytes of the output and of lse; [num_rows, num_heads, head_dim] and [num_rows, num_heads].
inline memory_range range_of(output_view const& out, std::int32_t num_rows, std::int32_t num_heads,
                             std::int32_t head_dim) noexcept {
  return range_of(out.data, {{num_rows, out.row_stride}, {num_heads, out.head_stride}},
                  static_cast<std::uint64_t>(head_dim), element_bytes(out.type));
}
inline memory_range range_of(lse_view const& lse, std::int32_t num_rows,
                             std::int32_t num_heads) noexcept {
  return range_of(lse.data, {{num_rows, lse.row_stride}, {num_heads, lse.head_stride}}, 1,
                  sizeof(float));
}

//! Bytes of partial results; out and lse, as above with an axis of partials before the rows.
inline memory_range out_range_of(partial_view const& partials, std::int32_t num_partials,
                                 std::int32_t num_rows, std::int32_t num_heads,
                                 std::int32_t head_dim) noexcept {
  return range_of(partials.out,
                  {{num_partials, partials.out_partial_stride},
                   {num_rows, partials.out_row_stride},
                   {num_heads, partials.out_head_stride}},
                  static_cast<std::uint64_t>(head_dim), sizeof(float));
}
inline memory_range lse_range_of(partial_view const& partials, std::int32_t num_partials,
                                 std::int32_t num_rows, std::int32_t num_heads) noexcept {
  return range_of(partials.lse,
                  {{num_partials, partials.lse_partial_stride},
                   {num_rows, partials.lse_row_stride},
                   {num_heads, partials.lse_head_stride}},
                  1, sizeof(float));
}

//! Bytes of a buffer.
inline memory_range range_of(void const* data, std::size_t bytes) noexcept {
  return range_of(data, {}, bytes, 1);
}

//! Bytes of a report; none of null.
inline memory_range range_of(plan_report const* report) noexcept {
  return range_of(report, sizeof(plan_report));
}

//! Bytes of a plan's arrays.
struct plan_ranges {
  memory_range addresses;
  memory_range masks;
  memory_range num_pages;
};
template <class Geometry>
plan_ranges ranges_of(plan<Geometry> const& planned) noexcept {
  auto const num_groups = static_cast<std::size_t>(planned.num_groups);
  auto const entries    = num_groups * static_cast<std::size_t>(planned.capacity);
  return {range_of(planned.addresses, entries * sizeof(page_address)),
          range_of(planned.masks, entries * sizeof(typename Geometry::mask_type)),
          range_of(planned.num_pages, num_groups * sizeof(std::int32_t))};
}

//! The arrays of a call that its outputs may not touch. Inputs may overlap one another: K and V of
//! one tensor, counts in a column of the table.
class memory_ranges {
 public:
  void add(memory_range range) noexcept { ranges_[count_++] = range; }

  //! Three arrays.
  void add(batch const& rows, std::int32_t num_requests) noexcept {
    auto const num_rows = static_cast<std::size_t>(rows.num_rows);
    add(range_of(rows.row_request, num_rows * sizeof(std::int32_t)));
    add(range_of(rows.row_position, num_rows * sizeof(std::int64_t)));
    add(range_of(rows.sequence_length,
                 static_cast<std::size_t>(num_requests) * sizeof(std::int32_t)));
  }

  //! Two arrays at most.
  void add(selection const& selected, std::int32_t num_rows) noexcept {
    constexpr std::size_t bytes = sizeof(std::int32_t);
    if (selected.kind == selection_kind::pages) {
      page_table const& table = selected.pages;
      add(range_of(table.pages, {{num_rows, table.row_stride}},
                   static_cast<std::uint64_t>(table.width), bytes));
      return;
    }
    token_table const& table = selected.tokens;
    add(range_of(table.tokens, {{num_rows, table.row_stride}},
                 static_cast<std::uint64_t>(table.width), bytes));
    add(range_of(table.counts, {{num_rows, table.count_stride}}, 1, bytes));
  }

  //! Three arrays.
  void add(kv_cache const& cache, std::int32_t head_dim) noexcept {
    auto const add_array = [&](__half const* data, kv_strides const& strides) {
      add(range_of(data,
                   {{cache.num_blocks, strides.block},
                    {cache.block_tokens, strides.token},
                    {cache.num_kv_heads, strides.head}},
                   static_cast<std::uint64_t>(head_dim), sizeof(__half)));
    };
    add_array(cache.k, cache.k_strides);
    add_array(cache.v, cache.v_strides);
    add(cache.blocks);
  }

  //! One array.
  void add(block_table const& blocks) noexcept {
    add(range_of(blocks.table, {{blocks.num_requests, blocks.row_stride}},
                 static_cast<std::uint64_t>(blocks.width), sizeof(std::int32_t)));
  }

  //! One array.
  void add(query_view const& q, std::int32_t num_rows) noexcept {
    add(range_of(q.data, {{num_rows, q.row_stride}, {q.num_heads, q.head_stride}},
                 static_cast<std::uint64_t>(q.head_dim), sizeof(__half)));
  }

  //! Three arrays.
  void add(plan_ranges const& planned) noexcept {
    add(planned.addresses);
    add(planned.masks);
    add(planned.num_pages);
  }

  //! True if a range has a byte in common with one of these.
  bool meets(memory_range range) const noexcept {
    for (int i = 0; i < count_; ++i) {
      if (overlaps(ranges_[i], range)) {
        return true;
      }
    }
    return false;
  }

 private:
  // Rows 3, selection 2, cache 3, queries 1, plan 3.
  memory_range ranges_[12] = {};
  int count_               = 0;
};

PAGEUNION_DETAIL_NAMESPACE_END
