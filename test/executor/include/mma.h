// SPDX-License-Identifier: Apache-2.0
//! @file
//! Stands in for CUDA's header of the same name: WMMA of 16 x 16 x 16, half
//! operands, float sums. Which element of a matrix a lane's x[i] is comes from
//! the seed. As on Volta, two lanes hold every element of an operand.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include <executor/simt.hpp>

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int M, int N, int K, class T, class Layout = void>
struct fragment {
  static constexpr bool is_sum      = std::is_same_v<Use, accumulator>;
  static constexpr bool is_row      = std::is_same_v<Layout, row_major>;
  static constexpr int num_elements = is_sum ? 8 : 16;
  //! Which of the seed's maps: each kind of fragment has its own.
  static constexpr int map = is_sum ? 0 : (std::is_same_v<Use, matrix_a> ? 1 : 3) + is_row;
  static_assert(M == 16 && N == 16 && K == 16 &&
                    (is_sum ? std::is_same_v<T, float> && std::is_void_v<Layout>
                            : std::is_same_v<T, __half> && !std::is_void_v<Layout>),
                "the executor multiplies 16 x 16 x 16 halves, with float sums");
  T x[num_elements];
};
template <class Use, class T, class Layout>
using matrix = fragment<Use, 16, 16, 16, T, Layout>;
using sums   = fragment<accumulator, 16, 16, 16, float>;

}  // namespace nvcuda::wmma

namespace executor {

//! A matrix in memory that a warp loads or stores together.
struct matrix_access {
  void const* memory;
  unsigned pitch;  //!< elements between two rows, or columns
  unsigned element_bytes;
  access kind;
  void const* where;  //!< code address of the caller
  static void perform(arguments const& all);
};
//! Waits for the warp and checks what CUDA asks of such an access.
void meet_at_matrix(char const* name, matrix_access mine, site where);

//! row * 16 + column of each of the current lane's elements.
std::uint8_t const* lane_elements(int map);

//! d = a b + c. Maps as in fragment.
struct product {
  float* d;
  __half const* a;
  __half const* b;
  float const* c;
  int a_map;
  int b_map;
  static void perform(arguments const& all);
};

//! Moves the lane's elements. The race detector knows of the whole matrix
//! already.
template <bool IsLoad, class Fragment, class T>
__attribute__((noinline, no_sanitize("thread"))) void move_elements(Fragment& fragment, T* memory,
                                                                    unsigned row_stride,
                                                                    unsigned column_stride) {
  std::uint8_t const* const elements = lane_elements(Fragment::map);
  for (int i = 0; i < Fragment::num_elements; ++i) {
    T& place = memory[elements[i] / 16u * row_stride + elements[i] % 16u * column_stride];
    if constexpr (IsLoad) {
      fragment.x[i] = place;
    } else {
      place = fragment.x[i];
    }
  }
}

template <bool IsLoad, class Fragment, class T>
__forceinline__ void move_matrix(char const* name, Fragment& fragment, T* memory, unsigned pitch,
                                 bool is_row_major, site where) {
  meet_at_matrix(name, {memory, pitch, sizeof(T), IsLoad ? access::read : access::write, nullptr},
                 where);
  move_elements<IsLoad>(fragment, memory, is_row_major ? pitch : 1, is_row_major ? 1 : pitch);
}

}  // namespace executor

namespace nvcuda::wmma {

template <class Use, class Layout>
__forceinline__ void load_matrix_sync(matrix<Use, __half, Layout>& to, __half const* from,
                                      unsigned pitch,
                                      executor::site where = executor::site::here()) {
  executor::move_matrix<true>("load_matrix_sync", to, from, pitch, to.is_row, where);
}
__forceinline__ void load_matrix_sync(sums& to, float const* from, unsigned pitch, layout_t layout,
                                      executor::site where = executor::site::here()) {
  executor::move_matrix<true>("load_matrix_sync", to, from, pitch, layout == mem_row_major, where);
}
__forceinline__ void store_matrix_sync(float* to, sums const& from, unsigned pitch, layout_t layout,
                                       executor::site where = executor::site::here()) {
  executor::move_matrix<false>("store_matrix_sync", from, to, pitch, layout == mem_row_major,
                               where);
}
template <class Use, class T, class Layout>
void fill_fragment(matrix<Use, T, Layout>& fragment, T const& value) {
  for (T& element : fragment.x) {
    element = value;
  }
}
template <class ALayout, class BLayout>
void mma_sync(sums& d, matrix<matrix_a, __half, ALayout> const& a,
              matrix<matrix_b, __half, BLayout> const& b, sums const& c,
              executor::site where = executor::site::here()) {
  executor::product mine{d.x, a.x, b.x, c.x, a.map, b.map};
  executor::join("mma_sync", executor::every_lane, where, mine);
}

}  // namespace nvcuda::wmma
