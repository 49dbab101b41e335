// SPDX-License-Identifier: Apache-2.0
#include <pageunion/detail/planner/page_divider.hpp>

#include <cstdint>

#include "support/catch.hpp"

using pageunion::detail::page_divider;

TEST_CASE("a page divider divides every number below 2^31 exactly", "[divider]") {
  constexpr std::uint32_t largest = (std::uint32_t{1} << 31) - 1;
  std::uint64_t num_wrong         = 0;
  auto const check_divisor        = [&](std::uint32_t divisor) {
    page_divider const divider(divisor);
    // The quotient changes at multiples, and the error of the multiplier is largest at the end.
    std::uint32_t const last_multiple = largest / divisor * divisor;
    for (std::uint32_t const near :
         {divisor, last_multiple / 2 / divisor * divisor, last_multiple}) {
      for (std::int64_t n = std::int64_t{near} - 2; n <= std::int64_t{near} + 2; ++n) {
        if (n >= 0 && n <= largest) {
          auto const number = static_cast<std::uint32_t>(n);
          num_wrong += divider.divide(number) == number / divisor ? 0 : 1;
        }
      }
    }
    for (std::uint32_t const number : {0u, 1u, 1u << 29, largest - 1, largest}) {
      num_wrong += divider.divide(number) == number / divisor ? 0 : 1;
    }
  };
  for (std::uint32_t divisor = 1; divisor <= 100000; ++divisor) {
    check_divisor(divisor);
  }
  for (int bit = 17; bit < 31; ++bit) {
    for (std::uint32_t const divisor : {(1u << bit) - 1, 1u << bit, (1u << bit) + 1}) {
      check_divisor(divisor);
    }
  }
  check_divisor(largest);
  CHECK(num_wrong == 0);
}
