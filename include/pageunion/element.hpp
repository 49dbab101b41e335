// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 1. What K and V are stored as: a tag and a codec each. Knows bits of elements alone.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cstdint>

#include <pageunion/version.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! What K and V are stored as. Every enumerator has a codec below, and nothing else lists them.
enum class cache_element : int {
  f16,  //!< half, IEEE binary16
};

//! How an element is read: its storage type, how a 16-byte load becomes halves, and which of its bits
//! are Inf or NaN. A kernel asks its codec and knows no element by itself.
template <cache_element Element>
struct cache_codec;

//! Of half.
template <>
struct cache_codec<cache_element::f16> {
  using storage                        = __half;
  static constexpr int vector_elements = 8;  //!< of a 16-byte load

  //! A 16-byte load as halves, in order: vector_elements / 8 vectors of 8.
  static __host__ __device__ void to_halves(uint4 const& vector, uint4* halves) {
    halves[0] = vector;
  }
  //! Four bytes of a load with each Inf and NaN replaced by 0.
  static __host__ __device__ constexpr std::uint32_t without_nonfinite(std::uint32_t bytes) {
    constexpr std::uint32_t exponent = 0x7c00u;  // all ones in Inf and NaN alone
    std::uint32_t const low          = (bytes & exponent) == exponent ? 0u : 0x0000ffffu;
    std::uint32_t const high         = (bytes >> 16 & exponent) == exponent ? 0u : 0xffff0000u;
    return bytes & (low | high);
  }
};

PAGEUNION_NAMESPACE_END
