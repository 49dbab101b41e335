// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. A slice of K or V on its way from the cache to one warp's slot of shared memory. Knows
//! shapes and bits of halves; not which tokens they are.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include <pageunion/detail/fragments.cuh>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! A part of K or V that a warp moves at once: num_tokens tokens x num_dims elements.
//! @tparam NumDims  elements of a token in the slice: 16, 32 or 64
//! @tparam Geometry of which lane_vectors counts
template <int NumDims, class Geometry>
struct slice {
  static constexpr int num_dims      = NumDims;
  static constexpr int vector_halves = 8;  // of a 16-byte load
  static constexpr int lane_vectors  = Geometry::lane_vectors;
  static constexpr int num_tokens    = lane_vectors * warp_threads * vector_halves / num_dims;
  static constexpr int token_vectors = num_dims / vector_halves;
  //! Eight halves of padding: with 16, 32 and 64 elements a token, eight consecutive tokens start at
  //! banks 12, 20 and 4 words apart, so that the 16-byte accesses of eight lanes, one a token, meet no
  //! bank twice.
  static constexpr int pitch       = num_dims + 8;
  static constexpr int slot_halves = num_tokens * pitch;

  //! Tokens that one load of the whole warp covers.
  static constexpr unsigned load_tokens = warp_threads / token_vectors;

  //! The slice's token that load 0 of this lane belongs to; load j's is j * load_tokens further. Eight
  //! lanes store 128 bytes at once: one token of 64 elements, tokens n and n + 4 of 32, or tokens n,
  //! n + 2, n + 4, n + 6 of 16, which with the pitch below fill all 32 banks once.
  static __device__ unsigned lane_token() {
    unsigned const lane  = threadIdx.x % warp_threads;
    unsigned const eight = lane / 8;
    unsigned const part  = lane % 8 / token_vectors;
    if (num_dims == 64) {
      return eight;
    }
    return num_dims == 32 ? eight + 4 * part : eight % 2 + 2 * part + 8 * (eight / 2);
  }
  //! First element of the lane's loads within the slice's elements of their token.
  static __device__ unsigned lane_dim() {
    return threadIdx.x % warp_threads % token_vectors * vector_halves;
  }
};

//! A lane's share of a slice.
template <int LaneVectors>
struct lane_share {
  uint4 vector[LaneVectors];
};

//! Writes a lane's share to the warp's slot.
template <class Slice>
__device__ void store_slice(lane_share<Slice::lane_vectors> const& from, __half* slot) {
  __half* const to = slot + Slice::lane_token() * Slice::pitch + Slice::lane_dim();
#pragma unroll
  for (int j = 0; j < Slice::lane_vectors; ++j) {
    *reinterpret_cast<uint4*>(to + j * Slice::load_tokens * Slice::pitch) = from.vector[j];
  }
}

//! True if a half is Inf or NaN.
__device__ inline bool is_special(__half value) {
  return (__half_as_ushort(value) & 0x7c00u) == 0x7c00u;
}

//! Two halves with Inf and NaN replaced by 0.
__device__ inline std::uint32_t without_specials(std::uint32_t pair) {
  if ((pair & 0x7c00u) == 0x7c00u) {
    pair &= 0xffff0000u;
  }
  if ((pair & 0x7c000000u) == 0x7c000000u) {
    pair &= 0x0000ffffu;
  }
  return pair;
}

//! True if any half of a lane's share is Inf or NaN.
template <int LaneVectors>
__device__ bool has_specials(lane_share<LaneVectors> const& share) {
  bool special = false;
#pragma unroll
  for (uint4 const& v : share.vector) {
    special = special || without_specials(v.x) != v.x || without_specials(v.y) != v.y ||
              without_specials(v.z) != v.z || without_specials(v.w) != v.w;
  }
  return special;
}

//! Replaces Inf and NaN in a lane's share by 0.
template <int LaneVectors>
__device__ void remove_specials(lane_share<LaneVectors>& share) {
#pragma unroll
  for (uint4& v : share.vector) {
    v.x = without_specials(v.x);
    v.y = without_specials(v.y);
    v.z = without_specials(v.z);
    v.w = without_specials(v.w);
  }
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
