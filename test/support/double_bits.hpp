// SPDX-License-Identifier: Apache-2.0
//! @file
//! NaN and infinity by their bits: tests are compiled with fast math too, where std::isnan() is false.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>

namespace pageunion::test {

inline std::uint64_t bits_of(double x) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}
inline bool is_same_number(double a, double b) { return bits_of(a) == bits_of(b); }

inline bool is_finite(double x) { return (bits_of(x) & 0x7ffull << 52) != 0x7ffull << 52; }
inline bool is_nan(double x) { return (bits_of(x) & ~(1ull << 63)) > 0x7ffull << 52; }
inline bool is_minus_infinity(double x) {
  return is_same_number(x, -std::numeric_limits<double>::infinity());
}

}  // namespace pageunion::test
