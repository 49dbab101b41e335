// SPDX-License-Identifier: Apache-2.0
//! @file
//! Stands in for CUDA's header of the same name: WMMA of 16 x 16 x 16, half operands, float sums.
//! Which element of a matrix a lane's x[i] is comes from the seed. As on Volta, two lanes hold every
//! element of an operand.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstddef>

#include <executor/simt.hpp>

namespace executor {

//! The kinds of fragments, each with a map of its own.
enum class fragment_kind : int { a_row_major, a_col_major, b_row_major, b_col_major, sum };

//! The arguments of a matrix's move between memory and fragments.
struct matrix_move {
  void* memory;
  unsigned pitch;     //!< elements between two rows, or columns
  bool is_row_major;  //!< of the matrix in memory
  void* elements;     //!< the lane's
  fragment_kind kind;
  void const* where;  //!< code address of the caller
};

void load_matrix(matrix_move& move, site where);
void store_matrix(matrix_move& move, site where);
void multiply(float* d, __half const* a, fragment_kind a_kind, __half const* b,
              fragment_kind b_kind, float const* c, site where);

}  // namespace executor

namespace nvcuda::wmma {

struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };

template <class Use, int M, int N, int K, class T, class Layout = void>
class fragment;

//! What all fragments share.
template <class T, int NumElements, executor::fragment_kind Kind>
struct fragment_elements {
  using element_type                            = T;
  static constexpr int num_elements             = NumElements;
  static constexpr executor::fragment_kind kind = Kind;
  T x[NumElements];
};

template <>
class fragment<matrix_a, 16, 16, 16, __half, row_major>
    : public fragment_elements<__half, 16, executor::fragment_kind::a_row_major> {};
template <>
class fragment<matrix_a, 16, 16, 16, __half, col_major>
    : public fragment_elements<__half, 16, executor::fragment_kind::a_col_major> {};
template <>
class fragment<matrix_b, 16, 16, 16, __half, row_major>
    : public fragment_elements<__half, 16, executor::fragment_kind::b_row_major> {};
template <>
class fragment<matrix_b, 16, 16, 16, __half, col_major>
    : public fragment_elements<__half, 16, executor::fragment_kind::b_col_major> {};
template <>
class fragment<accumulator, 16, 16, 16, float>
    : public fragment_elements<float, 8, executor::fragment_kind::sum> {};

template <class Use, class T, class Layout>
using matrix = fragment<Use, 16, 16, 16, T, Layout>;
using sums   = fragment<accumulator, 16, 16, 16, float>;

template <class Use, class Layout>
__forceinline__ void load_matrix_sync(matrix<Use, __half, Layout>& to, __half const* from,
                                      unsigned pitch,
                                      executor::site where = executor::site::here()) {
  bool constexpr is_row_major = std::is_same_v<Layout, row_major>;
  executor::matrix_move move{
      const_cast<__half*>(from), pitch, is_row_major, to.x, to.kind, nullptr};
  executor::load_matrix(move, where);
}
__forceinline__ void load_matrix_sync(sums& to, float const* from, unsigned pitch, layout_t layout,
                                      executor::site where = executor::site::here()) {
  executor::matrix_move move{
      const_cast<float*>(from), pitch, layout == mem_row_major, to.x, to.kind, nullptr};
  executor::load_matrix(move, where);
}
__forceinline__ void store_matrix_sync(float* to, sums const& from, unsigned pitch, layout_t layout,
                                       executor::site where = executor::site::here()) {
  executor::matrix_move move{to,        pitch,  layout == mem_row_major, const_cast<float*>(from.x),
                             from.kind, nullptr};
  executor::store_matrix(move, where);
}
template <class T, int NumElements, executor::fragment_kind Kind>
void fill_fragment(fragment_elements<T, NumElements, Kind>& fragment, T const& value) {
  for (T& element : fragment.x) {
    element = value;
  }
}
template <class ALayout, class BLayout>
__forceinline__ void mma_sync(sums& d, matrix<matrix_a, __half, ALayout> const& a,
                              matrix<matrix_b, __half, BLayout> const& b, sums const& c,
                              executor::site where = executor::site::here()) {
  executor::multiply(d.x, a.x, a.kind, b.x, b.kind, c.x, where);
}

}  // namespace nvcuda::wmma
