// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The WMMA fragments of the attention kernels, and the map from a thread's accumulator
//! elements to rows and columns, found at run time. Knows nothing of pages or masks.
#pragma once

#include <cuda_fp16.h>
#include <mma.h>

#include <cstdint>

#include <pageunion/geometry.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

inline constexpr int edge              = sm70_limits::wmma_edge;
inline constexpr int warp_threads      = sm70_limits::warp_threads;
inline constexpr unsigned every_lane   = 0xffffffffu;
inline constexpr int fragment_elements = edge * edge;

//! Q and P: [16 m-rows, 16].
using row_fragment = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, edge, edge, edge, __half,
                                            nvcuda::wmma::row_major>;
//! K transposed: [16 dims, 16 tokens], stored token by token.
using key_fragment = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, edge, edge, edge, __half,
                                            nvcuda::wmma::col_major>;
//! V: [16 tokens, 16 dims], stored token by token.
using value_fragment = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, edge, edge, edge, __half,
                                              nvcuda::wmma::row_major>;
//! Scores, sums and outputs: [16 m-rows, 16].
using sum_fragment = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, edge, edge, edge, float>;

//! Loads a fragment whose row r holds vector[r] in every column: a column-major matrix whose columns
//! all start at the same place.
__device__ inline void load_row_values(sum_fragment& fragment, float const* vector) {
  nvcuda::wmma::load_matrix_sync(fragment, vector, 0, nvcuda::wmma::mem_col_major);
}

//! Hides from the compiler where a value came from. What is derived from it is then derived again
//! where it is used, instead of being held, or spilled, in registers across the main loop.
__device__ inline void hide_origin(std::uint32_t& value) { asm volatile("" : "+r"(value)); }
__device__ inline void hide_origin(std::int32_t& value) { asm volatile("" : "+r"(value)); }
__device__ inline void hide_origin(std::uint64_t& value) { asm volatile("" : "+l"(value)); }

//! 2^x by the hardware's unit, results below 2^-126 flushed to 0: weights become halves, whose least is
//! 2^-24. exp2f() spends three more instructions on such results. Relative error 2^-22 at most (PTX
//! ISA, ex2.approx.ftz).
__device__ inline float exp2_flushed(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

//! Element layouts of an accumulator. Code is written once for a layout and compiled for both. Element i
//! lies in the row of element row_leader(i), and column_step(i) columns right of element
//! pair_leader(i).
//!
//! Two rows and two pairs of neighbouring columns a thread, as all GPUs seen so far have.
struct regular_elements {
  static __host__ __device__ constexpr int row_leader(int i) { return i & 2; }
  static __host__ __device__ constexpr int pair_leader(int i) { return i & 4; }
  static __host__ __device__ constexpr int column_step(int i) { return i & 1; }
};
//! Every element on its own: right on any GPU.
struct lone_elements {
  static __host__ __device__ constexpr int row_leader(int i) { return i; }
  static __host__ __device__ constexpr int pair_leader(int i) { return i; }
  static __host__ __device__ constexpr int column_step(int) { return 0; }
};

//! Which row and column of a 16 x 16 accumulator each element of this thread's fragment is.
//! The layout differs between GPUs that run the same PTX, so it is read off a matrix that holds its
//! own indices instead of being assumed.
class accumulator_map {
 public:
  static constexpr int num_elements = sum_fragment::num_elements;
  static_assert(num_elements == 8, "a thread must hold 8 of the 256 elements of an accumulator");

  //! Finds the map. A barrier must come before the scratch is written again.
  //! @param scratch [256] shared memory of this warp alone, overwritten
  __device__ void find(float* scratch) {
    int const lane = static_cast<int>(threadIdx.x) % warp_threads;
    for (int i = lane; i < fragment_elements; i += warp_threads) {
      scratch[i] = static_cast<float>(i);
    }
    __syncwarp();
    sum_fragment indices;
    nvcuda::wmma::load_matrix_sync(indices, scratch, edge, nvcuda::wmma::mem_row_major);
#pragma unroll
    for (int i = 0; i < num_elements; ++i) {
      auto const index = static_cast<std::uint32_t>(indices.x[i]);
      packed_[i / 4]   = (i % 4 == 0 ? 0u : packed_[i / 4]) | index << (8 * (i % 4));
    }
    bool regular = true;
#pragma unroll
    for (int i = 0; i < num_elements; ++i) {
      using layout = regular_elements;
      regular      = regular && row(i) == row(layout::row_leader(i)) &&
                column(i) == column(layout::pair_leader(i)) + layout::column_step(i) &&
                column(layout::pair_leader(i)) % 2 == 0;
    }
    regular_ = __all_sync(every_lane, regular) != 0;
  }

  //! Row of element i.
  __device__ int row(int i) const {
    return static_cast<int>(packed_[i / 4] >> (8 * (i % 4) + 4) & 15u);
  }
  //! Column of element i.
  __device__ int column(int i) const {
    return static_cast<int>(packed_[i / 4] >> (8 * (i % 4)) & 15u);
  }
  //! True if all threads' elements lie as regular_elements says. The same in all threads of a warp.
  __device__ bool is_regular() const { return regular_; }

  //! See hide_origin() above.
  __device__ void hide_origin() {
#pragma unroll
    for (std::uint32_t& word : packed_) {
      detail::hide_origin(word);
    }
  }

 private:
  std::uint32_t packed_[num_elements / 4];  // four elements a word: row * 16 + column
  bool regular_;
};

//! Stores a fragment as halves. @param out [16, pitch] shared memory, 4-byte aligned, pitch even
__device__ inline void store_as_half(regular_elements, accumulator_map const& map,
                                     sum_fragment const& fragment, __half* out, int pitch) {
#pragma unroll
  for (int i = 0; i < accumulator_map::num_elements; i += 2) {
    int const row    = map.row(regular_elements::row_leader(i));
    int const column = map.column(regular_elements::pair_leader(i));
    *reinterpret_cast<__half2*>(out + row * pitch + column) =
        __floats2half2_rn(fragment.x[i], fragment.x[i + 1]);
  }
}
__device__ inline void store_as_half(lone_elements, accumulator_map const& map,
                                     sum_fragment const& fragment, __half* out, int pitch) {
#pragma unroll
  for (int i = 0; i < accumulator_map::num_elements; ++i) {
    out[map.row(i) * pitch + map.column(i)] = __float2half_rn(fragment.x[i]);
  }
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
