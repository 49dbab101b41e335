// SPDX-License-Identifier: Apache-2.0
//! @file
//! Random numbers that are the same on every machine: the standard's distributions are not.
#pragma once

#include <cuda_fp16.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

namespace pageunion::test {

inline constexpr std::uint16_t half_nan      = 0xffff;  //!< bits of a NaN
inline constexpr std::uint16_t half_infinity = 0x7c00;  //!< bits of +inf

//! Bits of the half nearest to a value.
inline std::uint16_t half_bits(float value) {
  __half const half  = __float2half(value);
  std::uint16_t bits = 0;
  std::memcpy(&bits, &half, sizeof(bits));
  return bits;
}

//! Value of a half with these bits.
inline double half_value(std::uint16_t bits) {
  __half_raw raw;
  raw.x = bits;
  return static_cast<double>(__half2float(__half(raw)));
}

//! SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014.
class random_source {
 public:
  explicit random_source(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}

  std::uint64_t next() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t mixed = state_;
    mixed               = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed               = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
  }

  //! In [0, 1).
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  //! In [0, end); 0 if end is not positive.
  std::int64_t below(std::int64_t end) {
    return end > 0 ? static_cast<std::int64_t>(next() % static_cast<std::uint64_t>(end)) : 0;
  }

  //! In [first, last].
  std::int64_t between(std::int64_t first, std::int64_t last) {
    return first + below(last - first + 1);
  }

  bool is_chosen(double probability) { return uniform() < probability; }

  template <class Value>
  void shuffle(std::vector<Value>& values) {
    for (std::size_t i = values.size(); i > 1; --i) {
      std::swap(values[i - 1], values[below(i)]);
    }
  }

 private:
  std::uint64_t state_;
};

//! Standard-normal numbers, picked from a table of 65,536 that Box and Muller's method made: large
//! problems need hundreds of millions of them.
class normal_source {
 public:
  explicit normal_source(std::uint64_t seed) : source_(seed), values_(size), halves_(size) {
    random_source source(0x6e6f726d);
    for (std::size_t i = 0; i < size; ++i) {
      double const radius = std::sqrt(-2.0 * std::log(1.0 - source.uniform()));
      values_[i] = static_cast<float>(radius * std::cos(6.283185307179586 * source.uniform()));
      halves_[i] = half_bits(values_[i]);
    }
  }

  float next() { return values_[pick()]; }
  std::uint16_t next_half() { return halves_[pick()]; }

 private:
  static constexpr std::size_t size = 65536;

  //! One draw of the source serves four picks.
  std::size_t pick() {
    if (left_ == 0) {
      bits_ = source_.next();
      left_ = 4;
    }
    std::size_t const index = bits_ & 0xffff;
    bits_ >>= 16;
    --left_;
    return index;
  }

  random_source source_;
  std::vector<float> values_;
  std::vector<std::uint16_t> halves_;
  std::uint64_t bits_ = 0;
  int left_           = 0;
};

}  // namespace pageunion::test
