// SPDX-License-Identifier: Apache-2.0
#include <pageunion/grouped_attention.cuh>

#include "support/catch.hpp"

using namespace pageunion;

namespace {

//! From 800 on another tuning than before.
struct two_tunings {
  template <class Policy>
  static constexpr tuning select(int architecture) noexcept {
    tuning chosen        = default_tuning::select<Policy>(architecture);
    chosen.grouped.warps = architecture < 800 ? 4 : 8;
    return chosen;
  }
};

//! Stands for the kernels of an architecture.
template <class, class, int Architecture>
struct code {
  static constexpr int architecture = Architecture;
  static void kernel() {}
};

//! Architecture of the code that runs where the device has loaded code of this one.
template <class Selector>
int chosen(int loaded) {
  constexpr detail::architecture_list<700, 750, 800, 900> all{};
  int architecture = 0;
  auto const body  = [&architecture](auto found) {
    architecture = found.architecture;
    return status::ok;
  };
  REQUIRE(detail::visit_code<code, qsa_policy, Selector>(loaded, body, all, all) == status::ok);
  return architecture;
}

}  // namespace

TEST_CASE("the tuning follows the code that was loaded, and equal tunings share their kernels",
          "[tuning]") {
  CHECK(chosen<two_tunings>(700) == 700);
  CHECK(chosen<two_tunings>(750) == 700);
  CHECK(chosen<two_tunings>(800) == 800);
  CHECK(chosen<two_tunings>(900) == 800);
  CHECK(chosen<default_tuning>(900) == 700);
}

TEST_CASE("code of another tuning is left out of a kernel", "[tuning]") {
  using old_code = detail::grouped_tuning<qsa_policy, two_tunings, 700>;
  CHECK(old_code::is_for<750>);
  CHECK_FALSE(old_code::is_for<900>);
  CHECK(detail::grouped_tuning<qsa_policy, default_tuning, 700>::is_for<900>);
}
