// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. A slice of K or V on its way from the cache to a warp's stage, its part of shared memory.
//! Knows shapes, and of the elements what their codec says; not which tokens they are.
#pragma once

#include <cuda_fp16.h>

#include <pageunion/detail/attention/registers.cuh>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! A part of K or V that a warp moves at once: num_tokens tokens x num_dims elements.
//! @tparam NumDims elements of a token in the slice: 2, 4 or 8 loads of 16 bytes
//! @tparam Shape   gives codec and lane_vectors
template <int NumDims, class Shape>
struct slice {
  using codec                        = typename Shape::codec;
  static constexpr int num_dims      = NumDims;
  static constexpr int lane_vectors  = Shape::lane_vectors;
  static constexpr int num_tokens    = Shape::warp_elements / num_dims;
  static constexpr int token_vectors = num_dims / codec::vector_elements;
  //! Eight halves of padding: with 16, 32 and 64 elements a token, eight consecutive tokens start at
  //! banks 12, 20 and 4 words apart, so that the 16-byte accesses of eight lanes, one a token, meet no
  //! bank twice.
  static constexpr int pitch        = num_dims + 8;
  static constexpr int stage_halves = num_tokens * pitch;

  //! Tokens that one load of the whole warp covers.
  static constexpr unsigned load_tokens = warp_threads / token_vectors;

  //! The slice's token that load 0 of this lane belongs to; load j's is j * load_tokens further. Eight
  //! lanes store 128 bytes at once: one token of 64 halves, tokens n and n + 4 of 32, or tokens n,
  //! n + 2, n + 4, n + 6 of 16, which with the pitch above fill all 32 banks once.
  static __device__ unsigned lane_token() {
    unsigned const lane  = threadIdx.x % warp_threads;
    unsigned const eight = lane / 8;
    unsigned const part  = lane % 8 / token_vectors;
    if (token_vectors == 8) {
      return eight;
    }
    return token_vectors == 4 ? eight + 4 * part : eight % 2 + 2 * part + 8 * (eight / 2);
  }
  //! First element of the lane's loads within the slice's elements of their token.
  static __device__ unsigned lane_dim() {
    return threadIdx.x % warp_threads % token_vectors * codec::vector_elements;
  }
};

//! A lane's share of a slice, as it is stored in the cache.
template <unsigned LaneVectors>
struct lane_share {
  uint4 vector[LaneVectors];
};

//! Writes a lane's share to the warp's stage, as halves.
template <class Slice>
__device__ void store_slice(lane_share<Slice::lane_vectors> const& from, __half* stage) {
  using codec                     = typename Slice::codec;
  constexpr int vectors_of_halves = codec::vector_elements / 8;
  __half* const to                = stage + Slice::lane_token() * Slice::pitch + Slice::lane_dim();
#pragma unroll
  for (int j = 0; j < Slice::lane_vectors; ++j) {
    uint4 halves[vectors_of_halves];
    codec::to_halves(from.vector[j], halves);
#pragma unroll
    for (int i = 0; i < vectors_of_halves; ++i) {
      reinterpret_cast<uint4*>(to + j * Slice::load_tokens * Slice::pitch)[i] = halves[i];
    }
  }
}

//! True if a half is Inf or NaN.
__device__ inline bool is_nonfinite(__half value) {
  return (__half_as_ushort(value) & 0x7c00u) == 0x7c00u;
}

//! A 16-byte load with each Inf and NaN replaced by 0.
template <class Codec>
__device__ uint4 without_nonfinite(uint4 const& v) {
  return make_uint4(Codec::without_nonfinite(v.x), Codec::without_nonfinite(v.y),
                    Codec::without_nonfinite(v.z), Codec::without_nonfinite(v.w));
}

//! True if any element of a lane's share is Inf or NaN.
template <class Codec, unsigned LaneVectors>
__device__ bool has_nonfinite(lane_share<LaneVectors> const& share) {
  bool found = false;
#pragma unroll
  for (uint4 const& v : share.vector) {
    uint4 const finite = without_nonfinite<Codec>(v);
    found = found || finite.x != v.x || finite.y != v.y || finite.z != v.z || finite.w != v.w;
  }
  return found;
}

//! Replaces Inf and NaN in a lane's share by 0.
template <class Codec, unsigned LaneVectors>
__device__ void remove_nonfinite(lane_share<LaneVectors>& share) {
#pragma unroll
  for (uint4& v : share.vector) {
    v = without_nonfinite<Codec>(v);
  }
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
