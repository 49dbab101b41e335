// SPDX-License-Identifier: Apache-2.0
#include <pageunion/workspace.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "support/catch.hpp"
#include "support/good_arguments.hpp"
#include "support/policies.hpp"

using pageunion::plan_shape_of;
using pageunion::qsa_policy;
using pageunion::test::short_head_policy;
using pageunion::test::wide_group_policy;

namespace {

//! One array of a workspace.
struct piece {
  std::size_t offset;
  std::size_t bytes;
};

//! Requires aligned pieces that follow one another in `total` bytes.
void require_disjoint(std::vector<piece> const& pieces, std::size_t total) {
  std::size_t end = 0;
  for (piece const& p : pieces) {
    REQUIRE(p.offset % 256 == 0);
    REQUIRE(p.offset >= end);
    end = p.offset + p.bytes;
  }
  REQUIRE(total >= end);
  REQUIRE(total > 0);
  // No more than the padding of each piece.
  std::size_t all = 256;
  for (piece const& p : pieces) {
    all += p.bytes + 255;
  }
  REQUIRE(total <= all);
}

}  // namespace

TEMPLATE_TEST_CASE("the arrays of a plan lie side by side in the workspace", "[workspace]",
                   qsa_policy, short_head_policy, wide_group_policy) {
  using G    = plan_shape_of<TestType>;
  using mask = typename G::mask_type;

  int const num_groups = GENERATE(0, 1, 7, 1024);
  int const capacity   = GENERATE(0, 4, 100, 4128);
  CAPTURE(num_groups, capacity);
  pageunion::plan_layout const layout = pageunion::layout_plan<G>(num_groups, capacity);
  std::size_t const entries =
      static_cast<std::size_t>(num_groups) * static_cast<std::size_t>(capacity);
  require_disjoint({{layout.addresses, entries * sizeof(pageunion::page_address)},
                    {layout.masks, entries * sizeof(mask)},
                    {layout.num_pages, static_cast<std::size_t>(num_groups) * 4}},
                   layout.total);

  void* const workspace            = pageunion::test::pretended_address<void>(0);
  pageunion::plan<G> const planned = pageunion::carve_plan<G>(workspace, num_groups, capacity);
  auto const offset_of             = [workspace](void const* pointer) {
    return static_cast<std::size_t>(reinterpret_cast<std::uintptr_t>(pointer) -
                                    reinterpret_cast<std::uintptr_t>(workspace));
  };
  CHECK(offset_of(planned.addresses) == layout.addresses);
  CHECK(offset_of(planned.masks) == layout.masks);
  CHECK(offset_of(planned.num_pages) == layout.num_pages);
  CHECK(planned.num_groups == num_groups);
  CHECK(planned.capacity == capacity);
}

TEST_CASE("a plan's layout is computed in 64 bits", "[workspace]") {
  using G = plan_shape_of<qsa_policy>;
  // 2^20 groups of 2^20 entries of 8 and of 4 bytes.
  pageunion::plan_layout const layout = pageunion::layout_plan<G>(1 << 20, 1 << 20);
  CHECK(layout.masks == std::size_t{1} << 43);
  CHECK(layout.num_pages == (std::size_t{1} << 43) + (std::size_t{1} << 42));
  CHECK(layout.total == layout.num_pages + (std::size_t{1} << 22));
}

TEST_CASE("partial results lie side by side, and a single partition keeps none", "[workspace]") {
  int const num_partitions = GENERATE(0, 1, 2, 5);
  int const num_rows       = GENERATE(0, 1, 33);
  CAPTURE(num_partitions, num_rows);
  pageunion::partials_layout const layout =
      pageunion::layout_partials(num_partitions, num_rows, 12, 256);
  std::size_t const heads =
      num_partitions < 2 ? 0 : static_cast<std::size_t>(num_partitions * num_rows) * 12;
  require_disjoint({{layout.out, heads * 256 * sizeof(float)}, {layout.lse, heads * sizeof(float)}},
                   layout.total);
}

TEST_CASE("the layout of partial results is computed in 64 bits", "[workspace]") {
  // 16 partitions of 2^20 rows of 16 heads of 256 floats.
  pageunion::partials_layout const layout = pageunion::layout_partials(16, 1 << 20, 16, 256);
  CHECK(layout.lse == std::size_t{1} << 38);
  CHECK(layout.total == (std::size_t{1} << 38) + (std::size_t{1} << 30));
}
