// SPDX-License-Identifier: Apache-2.0
//! @file
//! Stands in for CUDA's header of the same name: WMMA of 16 x 16 x 16, half operands, float sums.
//! Which element of a matrix a lane's x[i] is comes from the seed. As on Volta, two lanes hold every
//! element of an operand.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

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

//! Loads or stores the elements of a lane, with its warp. Checks what CUDA asks of such an access.
//! @param elements [8 or 16] of the lane's fragment
//! @param pitch    elements between two rows, or columns
//! @param map      as in fragment
template <class T>
void load_matrix(T* elements, T const* memory, unsigned pitch, bool is_row_major, int map,
                 site where);
void store_matrix(float const* elements, float* memory, unsigned pitch, bool is_row_major,
                  site where);

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

}  // namespace executor

namespace nvcuda::wmma {

template <class Use, class Layout>
__forceinline__ void load_matrix_sync(matrix<Use, __half, Layout>& to, __half const* from,
                                      unsigned pitch, executor::site where = {}) {
  executor::load_matrix(to.x, from, pitch, to.is_row, to.map, where);
}
__forceinline__ void load_matrix_sync(sums& to, float const* from, unsigned pitch, layout_t layout,
                                      executor::site where = {}) {
  executor::load_matrix(to.x, from, pitch, layout == mem_row_major, to.map, where);
}
__forceinline__ void store_matrix_sync(float* to, sums const& from, unsigned pitch, layout_t layout,
                                       executor::site where = {}) {
  executor::store_matrix(from.x, to, pitch, layout == mem_row_major, where);
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
              executor::site where = {}) {
  executor::product mine{d.x, a.x, b.x, c.x, a.map, b.map};
  executor::join("mma_sync", executor::every_lane, where, mine);
}

}  // namespace nvcuda::wmma
