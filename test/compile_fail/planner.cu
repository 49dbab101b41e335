// SPDX-License-Identifier: Apache-2.0
// Case 0 is the control: it compiles. Every other case breaks one rule of the planner's sizes.
// expect-error 1: a window's positions must have 16 bits
// expect-error 2: a window must have a multiple of 256 pages
// expect-error 3: storage_bytes must hold a ranking and a list of 32 pages
// expect-error 4: a thread remembers in a word which quads to read again
// expect-error 5: places are summed over eight lanes, one per category
#include <pageunion/planner.cuh>
#include <pageunion/policy.hpp>

struct shape : pageunion::plan_shape_of<pageunion::qsa_policy> {
#if PAGEUNION_CASE == 5
  static constexpr int num_categories = 8;
#endif
};

struct sizes : pageunion::detail::planner_sizes<shape> {
#if PAGEUNION_CASE == 1
  static constexpr int window_pages = 131072;
#elif PAGEUNION_CASE == 2
  static constexpr int window_pages = 1000;
#elif PAGEUNION_CASE == 3
  static constexpr int storage_bytes = 1024;
#elif PAGEUNION_CASE == 4
  static constexpr int kept_quads = 1000;
#endif
};

static_assert(sizeof(pageunion::detail::group_planner<shape, sizes>) != 0);
static_assert(sizeof(pageunion::detail::page_union<shape, sizes>) != 0);
