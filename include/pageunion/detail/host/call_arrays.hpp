// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Which arrays a call has, and which bytes they cover, so that bad pointers and overlaps are found
//! before anything is enqueued. Knows shapes and strides; no sum or product here can overflow.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>

#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/selection.hpp>
#include <pageunion/status.hpp>

PAGEUNION_DETAIL_NAMESPACE_BEGIN

//! The largest number of bytes that an array may span: pointer differences are signed.
inline constexpr std::uint64_t max_array_bytes =
    static_cast<std::uint64_t>((std::numeric_limits<std::int64_t>::max)());

//! a + b and a * b, or the largest number if that would overflow.
constexpr std::uint64_t saturating_add(std::uint64_t a, std::uint64_t b) noexcept {
  constexpr std::uint64_t largest = (std::numeric_limits<std::uint64_t>::max)();
  return a > largest - b ? largest : a + b;
}
constexpr std::uint64_t saturating_multiply(std::uint64_t a, std::uint64_t b) noexcept {
  constexpr std::uint64_t largest = (std::numeric_limits<std::uint64_t>::max)();
  return b != 0 && a > largest / b ? largest : a * b;
}

//! One axis of an array: `count` places, `stride` elements apart.
struct array_axis {
  std::int64_t count  = 1;
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

//! An array: `inner` contiguous elements of so many bytes at every place of its axes.
struct strided_array {
  void const* data;
  std::int64_t inner;
  std::size_t element_bytes;
  array_axis axes[3];

  constexpr strided_array(void const* array, std::int64_t contiguous, std::size_t bytes_of_one,
                          array_axis first = {}, array_axis second = {}, array_axis third = {})
      : data(array), inner(contiguous), element_bytes(bytes_of_one), axes{first, second, third} {}

  //! Bytes from the first element to the last.
  constexpr std::uint64_t bytes() const noexcept {
    auto const elements = static_cast<std::uint64_t>(inner);
    return saturating_multiply(extent_elements({axes[0], axes[1], axes[2]}, elements),
                               element_bytes);
  }
};

//! The shape of outputs and partial results, [num_rows, num_heads, head_dim].
struct result_shape {
  std::int32_t num_rows;
  std::int32_t num_heads;
  std::int32_t head_dim;
};

//! The arrays of a call; their shapes are at the members of the views.
constexpr strided_array array_of(query_view const& q, std::int32_t num_rows) noexcept {
  return strided_array(q.data, q.head_dim, sizeof(__half), {num_rows, q.row_stride},
                       {q.num_heads, q.head_stride});
}
constexpr strided_array array_of(output_view const& out, result_shape const& shape) noexcept {
  return strided_array(out.data, shape.head_dim,
                       out.type == element_type::f32 ? sizeof(float) : sizeof(__half),
                       {shape.num_rows, out.row_stride}, {shape.num_heads, out.head_stride});
}
constexpr strided_array array_of(lse_view const& lse, result_shape const& shape) noexcept {
  return strided_array(lse.data, 1, sizeof(float), {shape.num_rows, lse.row_stride},
                       {shape.num_heads, lse.head_stride});
}
constexpr strided_array out_array_of(partial_view const& partials, std::int32_t num_partials,
                                     result_shape const& shape) noexcept {
  return strided_array(
      partials.out, shape.head_dim, sizeof(float), {num_partials, partials.out_partial_stride},
      {shape.num_rows, partials.out_row_stride}, {shape.num_heads, partials.out_head_stride});
}
constexpr strided_array lse_array_of(partial_view const& partials, std::int32_t num_partials,
                                     result_shape const& shape) noexcept {
  return strided_array(partials.lse, 1, sizeof(float), {num_partials, partials.lse_partial_stride},
                       {shape.num_rows, partials.lse_row_stride},
                       {shape.num_heads, partials.lse_head_stride});
}
//! K or V.
template <class Policy>
constexpr strided_array array_of(kv_cache const& cache, void const* data,
                                 kv_strides const& strides) noexcept {
  return strided_array(data, Policy::head_dim,
                       sizeof(typename cache_codec<Policy::cache_element>::storage),
                       {cache.num_blocks, strides.block}, {cache.block_tokens, strides.token},
                       {cache.num_kv_heads, strides.head});
}
//! A table of int32, [num_rows, width].
constexpr strided_array table_array(std::int32_t const* data, std::int32_t num_rows,
                                    std::int32_t width, std::int64_t row_stride) noexcept {
  return strided_array(data, width, sizeof(std::int32_t), {num_rows, row_stride});
}
constexpr strided_array array_of(block_table const& blocks) noexcept {
  return table_array(blocks.table, blocks.num_requests, blocks.width, blocks.row_stride);
}
//! Whichever table a selection has.
constexpr strided_array array_of(selection const& selected, std::int32_t num_rows) noexcept {
  page_table const& pages   = selected.pages;
  token_table const& tokens = selected.tokens;
  return selected.kind == selection_kind::pages
             ? table_array(pages.pages, num_rows, pages.width, pages.row_stride)
             : table_array(tokens.tokens, num_rows, tokens.width, tokens.row_stride);
}
//! The counts of a selection; null if it has none.
constexpr strided_array counts_of(selection const& selected, std::int32_t num_rows) noexcept {
  token_table const& tokens = selected.tokens;
  return table_array(selected.kind == selection_kind::tokens ? tokens.counts : nullptr, num_rows, 1,
                     tokens.count_stride);
}

//! Bytes [begin, end) of the address space; empty if they are equal.
struct memory_range {
  std::uint64_t begin = 0;
  std::uint64_t end   = 0;
};

//! True if two ranges have a byte in common.
constexpr bool overlaps(memory_range a, memory_range b) noexcept {
  return a.begin < b.end && b.begin < a.end && a.begin < a.end && b.begin < b.end;
}

//! Kernels load 16 bytes at a time: addresses are multiples of it.
inline constexpr std::size_t vector_bytes = 16;

inline bool is_aligned(void const* pointer, std::size_t bytes) noexcept {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

//! The arrays of a call, each with what a bad pointer to it is answered by. What is written may overlap
//! nothing; inputs may overlap one another: K and V of one tensor, counts in a column of the table.
class call_arrays {
 public:
  //! @param null        ok: the array may be null, as one without elements always may
  //! @param overlapping ok: the array is only read
  void add(strided_array const& array, std::size_t alignment, status null, status misaligned,
           status overlapping = status::ok) noexcept {
    auto const begin = reinterpret_cast<std::uintptr_t>(array.data);
    if (bad_pointer_ == status::ok && begin == 0 && array.bytes() > 0) {
      bad_pointer_ = null;
    } else if (bad_pointer_ == status::ok && !is_aligned(array.data, alignment)) {
      bad_pointer_ = misaligned;
    }
    std::uint64_t const bytes = begin == 0 ? 0 : array.bytes();
    arrays_[count_++]         = {{begin, saturating_add(begin, bytes)}, overlapping};
  }

  void add(batch const& rows, std::int32_t num_requests) noexcept {
    constexpr status misaligned = status::misaligned_batch;
    add_elements(rows.row_request, rows.num_rows, status::null_row_request, misaligned);
    add_elements(rows.row_position, rows.num_rows, status::null_row_position, misaligned);
    add_elements(rows.sequence_length, num_requests,
                 rows.num_rows > 0 ? status::null_sequence_length : status::ok, misaligned);
  }
  void add(selection const& selected, std::int32_t num_rows) noexcept {
    constexpr status misaligned = status::misaligned_selection;
    add(array_of(selected, num_rows), sizeof(std::int32_t), status::null_selection, misaligned);
    add(counts_of(selected, num_rows), sizeof(std::int32_t), status::ok, misaligned);
  }
  void add(block_table const& blocks, std::int32_t num_rows) noexcept {
    add(array_of(blocks), sizeof(std::int32_t),
        num_rows > 0 ? status::null_block_table : status::ok, status::misaligned_batch);
  }
  template <class Policy>
  void add_operands(attention_operands const& operands, std::int32_t num_rows) noexcept {
    kv_cache const& cache = operands.cache;
    query_view const& q   = operands.q;
    add(cache.blocks, num_rows);
    add(array_of<Policy>(cache, cache.k, cache.k_strides), vector_bytes,
        num_rows > 0 ? status::null_k : status::ok, status::misaligned_k);
    add(array_of<Policy>(cache, cache.v, cache.v_strides), vector_bytes,
        num_rows > 0 ? status::null_v : status::ok, status::misaligned_v);
    add(array_of(q, num_rows), vector_bytes, status::null_q, status::misaligned_q);
    add(operands.out, operands.lse, {num_rows, q.num_heads, q.head_dim});
  }
  void add(output_view const& out, lse_view const& lse, result_shape const& shape) noexcept {
    add(array_of(out, shape), vector_bytes, status::null_out, status::misaligned_out,
        status::overlapping_out);
    add(array_of(lse, shape), sizeof(float), status::ok, status::misaligned_lse,
        status::overlapping_lse);
  }
  void add(plan_report const* report) noexcept {
    add(strided_array(report, 1, sizeof(plan_report)), alignof(plan_report), status::ok,
        status::misaligned_report, status::overlapping_report);
  }
  template <class Shape>
  void add(plan<Shape> const& planned, status overlapping) noexcept {
    constexpr status misaligned = status::misaligned_plan;
    std::int64_t const entries  = static_cast<std::int64_t>(planned.num_groups) * planned.capacity;
    add(strided_array(planned.addresses, entries, sizeof(page_address)), vector_bytes,
        status::null_plan, misaligned, overlapping);
    add(strided_array(planned.masks, entries, sizeof(typename Shape::mask_type)), vector_bytes,
        status::null_plan, misaligned, overlapping);
    add_elements(planned.num_pages, planned.num_groups, status::null_plan, misaligned, overlapping);
  }
  void add(partial_view const& partials, std::int32_t num_partials, result_shape const& shape,
           status overlapping) noexcept {
    add(out_array_of(partials, num_partials, shape), vector_bytes, status::null_partials,
        status::misaligned_partials, overlapping);
    add(lse_array_of(partials, num_partials, shape), sizeof(float), status::null_partials,
        status::misaligned_partials, overlapping);
  }

  //! @return what the first bad pointer is answered by, or else of the first array that is written and
  //!         shares memory with another its own status
  [[nodiscard]] status check() const noexcept {
    for (int i = 0; i < count_ && bad_pointer_ == status::ok; ++i) {
      for (int other = 0; other < count_; ++other) {
        if (arrays_[i].overlapping != status::ok && other != i &&
            overlaps(arrays_[i].range, arrays_[other].range)) {
          return arrays_[i].overlapping;
        }
      }
    }
    return bad_pointer_;
  }

 private:
  template <class T>
  void add_elements(T const* data, std::int64_t count, status null, status misaligned,
                    status overlapping = status::ok) noexcept {
    add(strided_array(data, count, sizeof(T)), sizeof(T), null, misaligned, overlapping);
  }

  struct checked_array {
    memory_range range;
    status overlapping = status::ok;
  };
  // Rows 3, selection 2, operands 6, report 1, partial results 2.
  checked_array arrays_[14] = {};
  int count_                = 0;
  status bad_pointer_       = status::ok;
};

PAGEUNION_DETAIL_NAMESPACE_END
