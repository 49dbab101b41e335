// SPDX-License-Identifier: Apache-2.0
//! @file
//! The one place that includes Catch2: version 3 where it is installed, else version 2.13.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators_all.hpp>
#include <catch2/matchers/catch_matchers_all.hpp>
#else
#include <catch2/catch.hpp>
#endif

#include <string>

namespace pageunion::test {

#if __has_include(<catch2/catch_test_macros.hpp>)
using Catch::Approx;
#else
using Catch::Detail::Approx;
#endif

//! Matches texts that contain another: version 3 has given the old name to ranges.
inline auto contains_text(std::string const& text) {
#if __has_include(<catch2/catch_test_macros.hpp>)
  return Catch::Matchers::ContainsSubstring(text);
#else
  return Catch::Matchers::Contains(text);
#endif
}

}  // namespace pageunion::test
