// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Inf and NaN by their bits: under fast-math flags a compiler takes it that there are none.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

#include <pageunion/version.hpp>

PAGEUNION_DETAIL_NAMESPACE_BEGIN

inline constexpr std::uint32_t infinity_bits       = 0x7f800000u;
inline constexpr std::uint32_t minus_infinity_bits = 0xff800000u;

//! The bits of a float. Host compilers may know that a float is finite, and so what its bits are not;
//! of what a volatile holds they know nothing.
__host__ __device__ inline std::uint32_t bits_of(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(x);
#else
  std::uint32_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  std::uint32_t const volatile hidden = bits;
  return hidden;
#endif
}

//! True if a float is Inf or NaN.
__host__ __device__ inline bool is_nonfinite(float x) {
  return (bits_of(x) & infinity_bits) == infinity_bits;
}

__host__ __device__ inline float minus_infinity() {
#ifdef __CUDA_ARCH__
  return __uint_as_float(minus_infinity_bits);
#else
  std::uint32_t const volatile hidden = minus_infinity_bits;
  std::uint32_t const bits            = hidden;
  float x                             = 0.0f;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
#endif
}

//! The larger of two floats; NaN only if both are.
__host__ __device__ inline float larger(float a, float b) {
#ifdef __CUDA_ARCH__
  return fmaxf(a, b);
#else
  auto const is_nan = [](float x) { return (bits_of(x) & ~0x80000000u) > infinity_bits; };
  return is_nan(a) || (!is_nan(b) && a < b) ? b : a;
#endif
}

PAGEUNION_DETAIL_NAMESPACE_END
