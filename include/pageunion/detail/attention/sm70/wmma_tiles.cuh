// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The WMMA fragments of the sm_70 loop, and which rows and columns of an accumulator a thread
//! holds, found at run time. Knows nothing of pages or masks.
#pragma once

#include <cuda_fp16.h>
#include <mma.h>

#include <pageunion/detail/attention/registers.cuh>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Q and P: [16 m-rows, 16].
using row_fragment = nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, mma_dim, mma_dim, mma_dim,
                                            __half, nvcuda::wmma::row_major>;
//! K transposed: [16 dims, 16 tokens], stored token by token.
using key_fragment = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, mma_dim, mma_dim, mma_dim,
                                            __half, nvcuda::wmma::col_major>;
//! V: [16 tokens, 16 dims], stored token by token.
using value_fragment = nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, mma_dim, mma_dim, mma_dim,
                                              __half, nvcuda::wmma::row_major>;

//! The accumulators of the sm_70 loop, 16 x 16 float tiles that hold scores, weights and outputs, as the
//! softmax meets them: which elements a thread holds, and sums and copies of them by row. The places
//! of the elements differ between GPUs that run the same PTX, so that they are read off a matrix that
//! holds its own indices instead of being assumed.
//!
//! Code over elements is written once for a layout and compiled for both layouts below: element i lies
//! in the row of element row_leader(i), and column_step(i) columns right of element pair_leader(i).
class wmma_tiles {
 public:
  using accumulator =
      nvcuda::wmma::fragment<nvcuda::wmma::accumulator, mma_dim, mma_dim, mma_dim, float>;
  static constexpr int num_elements = accumulator::num_elements;
  static constexpr int lane_sums    = 2;  //!< sums by row that a thread keeps of a tile
  static_assert(num_elements == 8, "a thread must hold 8 of the 256 elements of an accumulator");

  //! Two rows and two pairs of neighbouring columns a thread, as all GPUs seen so far have.
  struct regular_elements {
    static __host__ __device__ constexpr int row_leader(int i) { return i & 2; }
    static __host__ __device__ constexpr int pair_leader(int i) { return i & 4; }
    static __host__ __device__ constexpr int column_step(int i) { return i & 1; }
  };
  //! Every element by itself: right on any GPU.
  struct lone_elements {
    static __host__ __device__ constexpr int row_leader(int i) { return i; }
    static __host__ __device__ constexpr int pair_leader(int i) { return i; }
    static __host__ __device__ constexpr int column_step(int) { return 0; }
  };

  //! Finds the places of the elements. A barrier must come before the scratch is written again.
  //! @param scratch [256] shared memory of this warp alone, overwritten
  __device__ void find(float* scratch) {
    int const lane = static_cast<int>(threadIdx.x) % warp_threads;
    for (int i = lane; i < mma_dim * mma_dim; i += warp_threads) {
      scratch[i] = static_cast<float>(i);
    }
    __syncwarp();
    accumulator indices;
    nvcuda::wmma::load_matrix_sync(indices, scratch, mma_dim, nvcuda::wmma::mem_row_major);
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

  //! See hide_origin() in registers.cuh.
  __device__ void hide_origin() {
#pragma unroll
    for (std::uint32_t& word : packed_) {
      detail::hide_origin(word);
    }
  }

  //! Loads a tile with vector[r] in all columns of row r: a matrix whose columns all start at one place.
  static __device__ void load_row_values(accumulator& tile, float const* vector) {
    nvcuda::wmma::load_matrix_sync(tile, vector, 0, nvcuda::wmma::mem_col_major);
  }
  //! Stores a tile row by row. @param to [16, 16] shared memory
  static __device__ void store(float* to, accumulator const& tile) {
    nvcuda::wmma::store_matrix_sync(to, tile, mma_dim, nvcuda::wmma::mem_row_major);
  }
  //! Stores a tile as halves. @param to [16, pitch] shared memory, 4-byte aligned, pitch even
  __device__ void store_as_half(regular_elements, accumulator const& tile, __half* to,
                                int pitch) const {
#pragma unroll
    for (int i = 0; i < num_elements; i += 2) {
      *reinterpret_cast<__half2*>(to + row(regular_elements::row_leader(i)) * pitch +
                                  column(regular_elements::pair_leader(i))) =
          __floats2half2_rn(tile.x[i], tile.x[i + 1]);
    }
  }
  __device__ void store_as_half(lone_elements, accumulator const& tile, __half* to,
                                int pitch) const {
#pragma unroll
    for (int i = 0; i < num_elements; ++i) {
      to[row(i) * pitch + column(i)] = __float2half_rn(tile.x[i]);
    }
  }

  //! Adds a tile's elements to the sums of their rows. A lane adds its own elements if they are regular,
  //! else the half of row lane / 2 that it reads from the scratch.
  //! @param scratch [256] shared memory of this warp alone
  __device__ void add_to_sums(regular_elements, accumulator const& tile, float (&sums)[lane_sums],
                              float*) const {
#pragma unroll
    for (int i = 0; i < num_elements; ++i) {
      sums[regular_elements::row_leader(i) / 2] += tile.x[i];
    }
  }
  __device__ void add_to_sums(lone_elements, accumulator const& tile, float (&sums)[lane_sums],
                              float* scratch) const {
    store(scratch, tile);
    __syncwarp();
    float const* const half_row = scratch + threadIdx.x % warp_threads * (mma_dim / 2);
#pragma unroll
    for (int i = 0; i < mma_dim / 2; ++i) {
      sums[0] += half_row[i];
    }
    __syncwarp();
  }
  //! The row of a lane's sum k.
  __device__ int sum_row(int k) const {
    return regular_ ? row(2 * k) : static_cast<int>(threadIdx.x) % warp_threads / 2;
  }
  //! Stores each lane's sums at places where only this lane has elements, and 0 elsewhere: a row of the
  //! scratch then adds up to the row's sum.
  //! @param scratch [16, 16] shared memory of this warp alone
  __device__ void store_sums(float const (&sums)[lane_sums], float* scratch) const {
    if (regular_) {
      accumulator tile;
      nvcuda::wmma::fill_fragment(tile, 0.0f);
      tile.x[0] = sums[0];
      tile.x[2] = sums[1];
      store(scratch, tile);
      return;
    }
    float* const half_row = scratch + threadIdx.x % warp_threads * (mma_dim / 2);
    half_row[0]           = sums[0];
#pragma unroll
    for (int i = 1; i < mma_dim / 2; ++i) {
      half_row[i] = 0.0f;
    }
  }

 private:
  std::uint32_t packed_[num_elements / 4];  // four elements a word: row * 16 + column
  bool regular_;
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
