// SPDX-License-Identifier: Apache-2.0
// Each case breaks one rule of the planner's sizes.
// expect-error SIZES(window_pages = 131072): a window's positions must have 16 bits
// expect-error SIZES(window_pages = 1000): a window must have a multiple of 256 pages
// expect-error SIZES(storage_bytes = 1024): storage_bytes must hold a ranking and a list of 32 pages
// expect-error SIZES(kept_quads = 1000): a thread remembers in a word which quads to read again
// expect-error SHAPE(num_categories = 8): places are summed over eight lanes, one per category
#include <pageunion/planner.cuh>
#include <pageunion/policy.hpp>

struct shape : pageunion::plan_shape_of<pageunion::qsa_policy> {
#ifdef SHAPE
  static constexpr int SHAPE;
#endif
};

struct sizes : pageunion::detail::planner_sizes<shape> {
#ifdef SIZES
  static constexpr int SIZES;
#endif
};

static_assert(sizeof(pageunion::detail::group_planner<shape, sizes>) != 0);
static_assert(sizeof(pageunion::detail::page_union<shape, sizes>) != 0);
