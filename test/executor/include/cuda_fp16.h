// SPDX-License-Identifier: Apache-2.0
//! @file
//! Stands in for CUDA's header of the same name. Results are those of float arithmetic, rounded once
//! to nearest even.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace executor {

//! Branchless in the common case, since every WMMA operand passes through it.
inline float half_to_float(std::uint16_t bits) {
  auto const magnitude = static_cast<std::uint32_t>(bits & 0x7fffu) << 13;
  // 2^112 moves half's exponent bias to float's and makes subnormals normal.
  float value = bit_cast<float>(magnitude) * bit_cast<float>(0x77800000u);
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
  if (magnitude < 0x38800000u) {  // below 2^-14: float's own rounding at the subnormals' spacing
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
struct alignas(2) __half {
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
using half2 = __half2;

inline __half __ushort_as_half(unsigned short bits) {
  __half value;
  value.bits = bits;
  return value;
}
inline unsigned short __half_as_ushort(__half value) { return value.bits; }
inline float __half2float(__half value) { return value; }
inline __half __float2half(float value) { return value; }
inline __half __float2half_rn(float value) { return value; }
inline bool __hisnan(__half value) { return (value.bits & 0x7fffu) > 0x7c00u; }

inline __half2 __halves2half2(__half x, __half y) { return {x, y}; }
inline __half2 __half2half2(__half value) { return {value, value}; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline __half2 __float22half2_rn(float2 value) { return {value.x, value.y}; }
inline float2 __half22float2(__half2 value) { return {value.x, value.y}; }
inline __half __low2half(__half2 value) { return value.x; }
inline __half __high2half(__half2 value) { return value.y; }
inline float __low2float(__half2 value) { return value.x; }
inline float __high2float(__half2 value) { return value.y; }

inline __half __hfma(__half a, __half b, __half c) {
  return std::fma(float(a), float(b), float(c));
}
inline __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
  return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
inline __half2 __hmul2(__half2 a, __half2 b) {
  return {float(a.x) * float(b.x), float(a.y) * float(b.y)};
}
inline __half2 __hadd2(__half2 a, __half2 b) {
  return {float(a.x) + float(b.x), float(a.y) + float(b.y)};
}
