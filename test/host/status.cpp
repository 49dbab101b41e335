// SPDX-License-Identifier: Apache-2.0
#include <pageunion/status.hpp>
#include <pageunion/version.hpp>

#include <set>
#include <string>

#include "support/catch.hpp"

using pageunion::status;

// One comparable number, also for the preprocessor, in the order of the versions that it stands for.
#if PAGEUNION_VERSION < 100
#error "PAGEUNION_VERSION is less than 0.1.0"
#endif
static_assert(PAGEUNION_VERSION / 10000 == PAGEUNION_VERSION_MAJOR &&
                  PAGEUNION_VERSION / 100 % 100 == PAGEUNION_VERSION_MINOR &&
                  PAGEUNION_VERSION % 100 == PAGEUNION_VERSION_PATCH,
              "the number has two digits for each of minor and patch");

TEST_CASE("every status has a text of its own", "[status]") {
  std::string const unknown = pageunion::to_string(static_cast<status>(-1));
  std::set<std::string> texts{unknown};
  for (int value = 0; value <= static_cast<int>(status::cuda_error); ++value) {
    CAPTURE(value);
    std::string const text = pageunion::to_string(static_cast<status>(value));
    CHECK(!text.empty());
    CHECK(texts.insert(text).second);
  }
  // The loop above knows the last enumerator by name: a later one would have a text too.
  CHECK(pageunion::to_string(static_cast<status>(static_cast<int>(status::cuda_error) + 1)) ==
        unknown);
}

TEST_CASE("a status text names the argument and what was expected", "[status]") {
  for (int value = 1; value < static_cast<int>(status::unsupported_device); ++value) {
    std::string const text = pageunion::to_string(static_cast<status>(value));
    CAPTURE(text);
    // Either "argument is wrong: expectation" or a sentence that says what it differs from.
    CHECK((text.find(": ") != std::string::npos || text.find("differs from") != std::string::npos ||
           text.find("is not an enumerator of") != std::string::npos));
  }
}
