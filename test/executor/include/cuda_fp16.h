// SPDX-License-Identifier: Apache-2.0
//! @file
//! Stands in for CUDA's header of the same name. Conversions round to nearest
//! even.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>

namespace executor {

template <class To, class From>
To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits must keep their number");
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}

//! Branchless in the common case, since every WMMA operand passes through it.
inline float half_to_float(std::uint16_t bits) {
  auto const magnitude = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
  // 2^112 moves half's exponent bias to float's and makes subnormals normal.
  float value = bit_cast<float>(magnitude) * 0x1p112f;
  if (magnitude >= 0x0f800000u) {  // Inf or NaN
    value = bit_cast<float>(magnitude | 0x7f800000u);
  }
  return bit_cast<float>(bit_cast<std::uint32_t>(value) | static_cast<std::uint32_t>(bits & 0x8000u)
                                                              << 16);
}

inline std::uint16_t float_to_half(float value) {
  auto const bits      = bit_cast<std::uint32_t>(value);
  auto const sign      = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  auto const magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    return 0x7fff;  // CUDA's NaN
  }
  if (magnitude >= 0x477ff000u) {  // 65520 and more round to Inf
    return static_cast<std::uint16_t>(sign | 0x7c00u);
  }
  if (magnitude < 0x38800000u) {  // below 2^-14: float's own rounding at the
                                  // subnormals' spacing
    float const shifted = bit_cast<float>(magnitude) + 0.5f;
    return static_cast<std::uint16_t>(sign | (bit_cast<std::uint32_t>(shifted) - 0x3f000000u));
  }
  std::uint32_t const even = magnitude >> 13 & 1u;
  return static_cast<std::uint16_t>(sign | ((magnitude - 0x38000000u + 0xfffu + even) >> 13));
}

}  // namespace executor

struct __half_raw {
  unsigned short x;
};
struct __half {
  std::uint16_t bits;

  __half() = default;
  __half(__half_raw raw) : bits(raw.x) {}
  __half(float value) : bits(executor::float_to_half(value)) {}
  operator float() const { return executor::half_to_float(bits); }
};
using half = __half;
struct alignas(4) __half2 {
  __half x, y;
};

inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline float __half2float(__half value) { return value; }
inline __half __float2half(float value) { return value; }
inline __half __float2half_rn(float value) { return value; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
