// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Division by a number that the host knows and the compiler does not, such as the pages of a
//! cache block, without the dozens of instructions of a division.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include <pageunion/version.hpp>

PAGEUNION_DETAIL_NAMESPACE_BEGIN

//! Divides numbers below 2^31 by a fixed divisor, exactly.
//!
//! With 2^(s-1) < d <= 2^s and m = ceil(2^(31+s) / d) < 2^32, the error m d - 2^(31+s) is below
//! d <= 2^s, so that n m / 2^(31+s) has the integral part of n / d for every n < 2^31.
//! Source: Granlund and Montgomery, "Division by Invariant Integers using Multiplication", PLDI 1994,
//! theorem 4.2.
struct page_divider {
  std::uint32_t divisor    = 1;
  std::uint32_t multiplier = 1u << 31;
  int shift                = 31;

  page_divider() = default;
  //! @param d 1 to 2^31
  explicit page_divider(std::uint32_t d) noexcept : divisor(d) {
    int s = 0;
    while ((static_cast<std::uint64_t>(1) << s) < d) {
      ++s;
    }
    shift      = 31 + s;
    multiplier = static_cast<std::uint32_t>(((static_cast<std::uint64_t>(1) << shift) + d - 1) / d);
  }

  //! n / divisor, for n < 2^31.
  __host__ __device__ std::uint32_t divide(std::uint32_t n) const noexcept {
    return static_cast<std::uint32_t>(static_cast<std::uint64_t>(n) * multiplier >> shift);
  }
};

PAGEUNION_DETAIL_NAMESPACE_END
