// SPDX-License-Identifier: Apache-2.0
// A user's program: two translation units that include everything, and one of the host alone. Needs no GPU.
#include <cstdio>
#include <cstring>

#include <pageunion/pageunion.cuh>
#include <pageunion/reference.hpp>
#include <pageunion/version.hpp>

std::size_t workspace_bytes_of_engine(pageunion::prefill_args const& args);

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

int main() {
  char const* const version = TEXT(PAGEUNION_VERSION_MAJOR) "." TEXT(
      PAGEUNION_VERSION_MINOR) "." TEXT(PAGEUNION_VERSION_PATCH);
#ifdef EXPECTED_VERSION
  if (std::strcmp(version, EXPECTED_VERSION) != 0) {
    std::printf("headers %s, package %s\n", version, EXPECTED_VERSION);
    return 1;
  }
#endif
  pageunion::prefill_args const nothing{};
  pageunion::status const answer = pageunion::can_prefill(nothing, nullptr, 0);
  std::printf("pageunion %s: %s\n", version, pageunion::to_string(answer));
  return answer == pageunion::status::ok || workspace_bytes_of_engine(nothing) != 0 ? 1 : 0;
}
