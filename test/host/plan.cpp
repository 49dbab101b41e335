// SPDX-License-Identifier: Apache-2.0
#include <pageunion/plan.hpp>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <set>
#include <vector>

#include "support/catch.hpp"
#include "support/policies.hpp"
#include "support/random.hpp"

using pageunion::plan_shape_of;
using pageunion::qsa_policy;
using pageunion::test::short_head_policy;
using pageunion::test::twelve_head_policy;
using pageunion::test::wide_group_policy;
using pageunion::test::wide_page_policy;

namespace {

//! The most entries that `num_pages` pages can need, over all ways to spread them over categories
//! that are padded one by one.
template <class Shape>
std::int64_t worst_padded(int num_pages) {
  auto const padded = [](int pages) {
    return (pages + Shape::tile_pages - 1) / Shape::tile_pages * Shape::tile_pages;
  };
  // most[n]: with the categories so far and n pages.
  std::vector<std::int64_t> most(static_cast<std::size_t>(num_pages) + 1, -1);
  most[0] = 0;
  for (int category = 0; category < Shape::num_categories; ++category) {
    std::vector<std::int64_t> next(most.size(), -1);
    for (int before = 0; before <= num_pages; ++before) {
      for (int here = 0; before + here <= num_pages; ++here) {
        std::int64_t const spread = most[static_cast<std::size_t>(before)];
        std::int64_t& best        = next[static_cast<std::size_t>(before + here)];
        if (spread >= 0) {
          best = std::max(best, spread + padded(here));
        }
      }
    }
    most = next;
  }
  return most.back();
}

//! Bands that a mask reaches, bit by bit: from the mask's rows to their m-rows, tiles and bands.
template <class Shape>
int category_bit_by_bit(typename Shape::mask_type mask) {
  int category = 0;
  for (int bit = 0; bit < Shape::mask_bits; ++bit) {
    if ((mask >> bit & 1u) == 0) {
      continue;
    }
    for (int head = 0; head < Shape::heads_per_kv; ++head) {
      int const m_row = bit / Shape::page_tokens * Shape::heads_per_kv + head;
      int const tile  = m_row / 16;
      int band        = tile;
      if (Shape::m_tiles > 3) {
        // Three bands as equal as can be: band b starts at the first tile t with 3 t >= b tiles.
        band = 0;
        while (band < 2 && tile * 3 >= (band + 1) * Shape::m_tiles) {
          ++band;
        }
      }
      category |= 1 << band;
    }
  }
  return category;
}

}  // namespace

TEMPLATE_TEST_CASE("a group's capacity holds its pages however they fall into categories", "[plan]",
                   qsa_policy, short_head_policy, twelve_head_policy, wide_group_policy,
                   wide_page_policy) {
  using G = plan_shape_of<TestType>;
  for (int pages_per_row = 0; pages_per_row <= 6; ++pages_per_row) {
    CAPTURE(pages_per_row);
    int const most              = G::group_rows * pages_per_row;
    std::int64_t const capacity = pageunion::group_capacity<G>(pages_per_row);
    REQUIRE(capacity % G::tile_pages == 0);
    for (int num_pages = 0; num_pages <= most; ++num_pages) {
      REQUIRE(worst_padded<G>(num_pages) <= capacity);
    }
    // And no more than a tile for each category beside the pages themselves.
    REQUIRE(capacity <= most + G::num_categories * G::tile_pages);
  }
}

TEST_CASE("a capacity is computed in 64 bits", "[plan]") {
  using G = plan_shape_of<qsa_policy>;
  CHECK(pageunion::group_capacity<G>(std::int64_t{1} << 31) == (std::int64_t{1} << 34) + 24);
}

TEMPLATE_TEST_CASE("a category names the bands that a mask reaches", "[plan]", qsa_policy,
                   short_head_policy, twelve_head_policy, wide_group_policy, wide_page_policy) {
  using G    = plan_shape_of<TestType>;
  using mask = typename G::mask_type;
  std::set<int> seen;
  auto const check = [&](mask m) {
    int const category = pageunion::category_of<G>(m);
    REQUIRE(category == category_bit_by_bit<G>(m));
    REQUIRE(category >= 0);
    REQUIRE(category <= G::num_categories);
    REQUIRE((category == 0) == (m == 0));
    seen.insert(category);
  };
  check(0);
  for (int bit = 0; bit < G::mask_bits; ++bit) {
    check(static_cast<mask>(mask{1} << bit));
  }
  unsigned const seed = GENERATE(1u, 2u);
  CAPTURE(seed);
  pageunion::test::random_source source(seed);
  for (int i = 0; i < 2000; ++i) {
    // Sparse masks, or nearly all would reach every band.
    std::uint64_t bits = source.next();
    for (std::int64_t thin = source.below(5); thin > 0; --thin) {
      bits &= source.next();
    }
    check(static_cast<mask>(G::mask_bits == 64 ? bits : bits & 0xffffffffu));
  }
  // All categories occur but those that no row's heads can reach alone.
  CHECK(seen.count(G::num_categories) == 1);
}

TEST_CASE("groups cover all rows, the last one in part", "[plan]") {
  using G = plan_shape_of<qsa_policy>;
  CHECK(pageunion::num_groups<G>(0) == 0);
  CHECK(pageunion::num_groups<G>(1) == 1);
  CHECK(pageunion::num_groups<G>(7) == 1);
  CHECK(pageunion::num_groups<G>(8) == 1);
  CHECK(pageunion::num_groups<G>(9) == 2);
  CHECK(pageunion::num_groups<G>(70000) == 8750);
  CHECK(pageunion::num_groups<G>(std::numeric_limits<std::int32_t>::max()) == 1 << 28);
}
