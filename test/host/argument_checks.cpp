// SPDX-License-Identifier: Apache-2.0
#include <pageunion/detail/host/argument_checks.hpp>

#include <cstdint>
#include <limits>
#include <set>

#include "support/bad_arguments.hpp"
#include "support/catch.hpp"
#include "support/policies.hpp"

using pageunion::status;
using pageunion::test::bad_argument;

namespace detail = pageunion::detail;

TEST_CASE("every status that a check can give is given for some argument", "[arguments]") {
  std::set<status> const given_elsewhere{
      // row_attention(), merge_partials()
      status::null_partials, status::misaligned_partials, status::invalid_num_partials,
      status::invalid_partial_stride, status::overlapping_partials,
      // make_plan(), grouped_attention()
      status::null_plan, status::misaligned_plan, status::invalid_plan_groups,
      status::invalid_plan_capacity, status::overlapping_plan,
      // prefill(), launches
      status::invalid_route, status::unsupported_device, status::cuda_error};
  std::set<status> given;
  for (bad_argument const& bad : pageunion::test::bad_arguments()) {
    given.insert(bad.expected);
  }
  for (int value = 1; value <= static_cast<int>(status::cuda_error); ++value) {
    status const s = static_cast<status>(value);
    CAPTURE(pageunion::to_string(s));
    CHECK(given.count(s) + given_elsewhere.count(s) == 1);
  }
}

TEST_CASE("a plan that no address space holds is refused", "[arguments]") {
  using wide_page        = pageunion::plan_shape_of<pageunion::test::wide_page_policy>;
  constexpr auto largest = std::numeric_limits<std::int32_t>::max();
  pageunion::page_table table;
  table.width = 500000000;
  pageunion::kv_cache cache;
  cache.block_tokens = 1 << 20;
  cache.blocks.width = 2000;
  // A row has at most the 131,072,000 pages of the block table: 524,288,000 entries of a group.
  CHECK(detail::check_plan_size<wide_page>(8, table, cache) == status::ok);
  CHECK(detail::check_plan_size<wide_page>(largest, table, cache) == status::ok);
  cache.block_tokens = 1 << 23;
  // 1,048,576,000 pages, more than the table lists: 2,000,000,016 entries of 16 bytes.
  CHECK(detail::check_plan_size<wide_page>(8, table, cache) == status::ok);
  CHECK(detail::check_plan_size<wide_page>(largest, table, cache) == status::invalid_num_rows);
  table.width = 600000000;
  CHECK(detail::check_plan_size<wide_page>(8, table, cache) == status::invalid_selection_width);
}

TEST_CASE("sums and products of extents saturate", "[arguments]") {
  constexpr auto largest = std::numeric_limits<std::uint64_t>::max();
  CHECK(detail::saturating_add(largest - 1, 1) == largest);
  CHECK(detail::saturating_add(largest, 1) == largest);
  CHECK(detail::saturating_multiply(std::uint64_t{1} << 32, std::uint64_t{1} << 32) == largest);
  CHECK(detail::saturating_multiply(std::uint64_t{1} << 32, (std::uint64_t{1} << 32) - 1) ==
        largest - (std::uint64_t{1} << 32) + 1);
  CHECK(detail::saturating_multiply(0, largest) == 0);
  CHECK(detail::saturating_multiply(largest, 0) == 0);
}

TEST_CASE("an extent ends after the last element of every axis", "[arguments]") {
  CHECK(detail::extent_elements({{3, 100}, {4, 10}}, 5) == 235);
  CHECK(detail::extent_elements({{1, -7}, {4, 10}}, 5) == 35);
  CHECK(detail::extent_elements({{0, 100}, {4, 10}}, 5) == 0);
  CHECK(detail::extent_elements({{3, 100}}, 0) == 0);
  CHECK(detail::extent_elements({}, 5) == 5);
}

TEST_CASE("ranges overlap if they have a byte in common", "[arguments]") {
  using range = detail::memory_range;
  CHECK(detail::overlaps(range{0, 10}, range{9, 20}));
  CHECK(detail::overlaps(range{0, 10}, range{3, 4}));
  CHECK_FALSE(detail::overlaps(range{0, 10}, range{10, 20}));
  CHECK_FALSE(detail::overlaps(range{10, 20}, range{0, 10}));
  CHECK_FALSE(detail::overlaps(range{0, 10}, range{5, 5}));
}
