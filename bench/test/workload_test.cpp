// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "../workload.hpp"
#include "support/catch.hpp"

namespace bench = pageunion::bench;

namespace {

bench::problem_spec shape_of(std::string const& name) {
  auto const shape = bench::named_workload(name);
  REQUIRE(shape.has_value());
  return *shape;
}

//! Ranges recorded on real prompts of the model, over its layers.
struct recorded {
  char const* name;
  double jaccard[2];
  double growth[4][2];
};

constexpr recorded ranges[] = {
    {"fresh-8k", {0.87, 0.94}, {{1.07, 1.07}, {1.13, 1.13}, {1.2, 1.28}, {1.3, 1.43}}},
    {"chunk-32k", {0.73, 0.73}, {{1.15, 1.15}, {1.37, 1.37}, {1.69, 1.69}, {2.2, 2.2}}},
    {"long-tail", {0.4, 0.6}, {{1.3, 1.3}, {1.8, 1.8}, {2.4, 2.6}, {3.4, 4.0}}},
    {"disjoint", {0.0, 0.0}, {{2.0, 2.0}, {4.0, 4.0}, {8.0, 8.0}, {16.0, 16.0}}},
};

}  // namespace

TEST_CASE("a workload overlaps as the prompts that it stands for", "[workload]") {
  for (recorded const& range : ranges) {
    CAPTURE(range.name);
    bench::overlap const o = bench::measure_overlap(bench::make_tables(shape_of(range.name)));
    CAPTURE(bench::to_string(o));
    // The recorded ranges are those of a few prompts: a generator need not hit them closer than 7 %.
    CHECK(o.jaccard >= range.jaccard[0] - 0.01);
    CHECK(o.jaccard <= range.jaccard[1] + 0.01);
    for (int i = 0; i < 4; ++i) {
      CAPTURE(bench::growth_rows[i]);
      CHECK(o.growth[i] >= range.growth[i][0] * 0.93);
      CHECK(o.growth[i] <= range.growth[i][1] * 1.07);
    }
  }
}

TEST_CASE("fresh-8k asks for the recorded 90.3 GFLOP", "[workload]") {
  bench::overlap const o = bench::measure_overlap(bench::make_tables(shape_of("fresh-8k")));
  CHECK(1e-9 * o.asked_flop == pageunion::test::Approx(90.3).epsilon(0.001));
}

TEST_CASE("the overlap sweep climbs from 1.05 to 3.96 at 8 rows", "[workload]") {
  for (auto const& [step, growth] : {std::pair{0, 1.05}, std::pair{3, 1.70}, std::pair{6, 3.96}}) {
    CAPTURE(step);
    bench::overlap const o = bench::measure_overlap(bench::make_tables(bench::overlap_step(step)));
    CHECK(o.growth[2] == pageunion::test::Approx(growth).margin(0.005));
  }
}

TEST_CASE("a row selects its best fully visible pages and its tail, or sees all", "[workload]") {
  auto const kind = GENERATE(pageunion::selection_kind::tokens, pageunion::selection_kind::pages);
  int const requests = GENERATE(1, 8);
  auto const chosen  = GENERATE(bench::page_pattern::drifting, bench::page_pattern::disjoint);
  bench::problem_spec shape = shape_of("verify");
  shape.kind                = kind;
  shape.num_requests        = requests;
  shape.pattern             = chosen;
  shape.num_rows            = 64;
  bench::set_context(shape, 4099);
  CAPTURE(static_cast<int>(kind), requests, static_cast<int>(chosen));
  bench::host_problem const p = bench::make_tables(shape);
  REQUIRE(p.num_rows == 64);
  REQUIRE(p.width == (kind == pageunion::selection_kind::tokens ? 2051 : 512));
  for (int row = 0; row < p.num_rows; ++row) {
    CAPTURE(row);
    int const end    = static_cast<int>(p.row_position[row]) + 1;
    auto const begin = p.entries.begin() + row * p.width;
    std::vector<int> entries(begin, begin + p.width);
    auto const used = std::find(entries.begin(), entries.end(), -1);
    CHECK(std::all_of(used, entries.end(), [](int entry) { return entry == -1; }));
    entries.erase(used, entries.end());
    CHECK(std::is_sorted(entries.begin(), entries.end()));
    CHECK(std::adjacent_find(entries.begin(), entries.end()) == entries.end());
    if (kind == pageunion::selection_kind::tokens) {
      REQUIRE(entries.size() == 2048u + end % 4);
      CHECK(entries.back() < end);
      for (int i = 0; i < 2048; ++i) {
        CHECK(entries[i] % 4 == i % 4);
      }
    } else {
      REQUIRE(entries.size() == 512u);
      CHECK(entries.back() < end / 4);
    }
  }
}

TEST_CASE("a row of fewer tokens than it may select sees all of them", "[workload]") {
  bench::problem_spec shape = shape_of("fresh-8k");
  shape.num_rows            = 2050;
  bench::set_context(shape, 2050);
  bench::host_problem const p = bench::make_tables(shape);
  for (int const row : {0, 3, 4, 2046, 2047, 2049}) {
    CAPTURE(row);
    auto const begin = p.entries.begin() + static_cast<std::ptrdiff_t>(row) * p.width;
    for (int token = 0; token <= row; ++token) {
      REQUIRE(begin[token] == token);
    }
    CHECK((row + 1 == p.width || begin[row + 1] == -1));
  }
}

TEST_CASE("every physical cache block is used once and not in order", "[workload]") {
  int const block_tokens    = GENERATE(16, 400, 784, 1600);
  int const requests        = GENERATE(1, 4);
  bench::problem_spec shape = shape_of("verify");
  shape.block_tokens        = block_tokens;
  shape.num_requests        = requests;
  CAPTURE(block_tokens, requests);
  bench::host_problem const p = bench::make_tables(shape);
  CHECK(std::int64_t{p.table_width} * block_tokens >= shape.max_length);
  CHECK_FALSE(std::is_sorted(p.block_entries.begin(), p.block_entries.end()));
  std::vector<int> blocks(p.block_entries.begin(), p.block_entries.end());
  std::sort(blocks.begin(), blocks.end());
  for (int i = 0; i < p.num_blocks; ++i) {
    REQUIRE(blocks[i] == i);
  }
}
