// SPDX-License-Identifier: Apache-2.0
// The planner, rule by rule, against a brute-force plan of the host and against expectations that
// are written out.
#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <ostream>
#include <vector>

#include <pageunion/plan.hpp>
#include <pageunion/planner.cuh>
#include <pageunion/selection.hpp>

#include "support/captured_graph.cuh"
#include "support/catch.hpp"
#include "support/make_problem.hpp"
#include "support/planner_problem.hpp"
#include "support/planner_run.cuh"
#include "support/random.hpp"
#include "support/test_size.hpp"

namespace {

using namespace pageunion;
using namespace pageunion::test;

struct rows16_policy : qsa_policy {
  static constexpr int group_rows   = 16;
  static constexpr int heads_per_kv = 4;
};
using qsa = plan_shape_of<qsa_policy>;

constexpr std::int32_t int32_max = std::numeric_limits<std::int32_t>::max();
constexpr std::int32_t int32_min = std::numeric_limits<std::int32_t>::min();

//! A page as a test writes it down: logical page and mask.
struct expected_page {
  std::int32_t page;
  std::uint32_t mask;
};

//! Plans a problem of one request and one group, and names its pages in plan order by their numbers;
//! padding is left out. Compares everything with the host, too.
std::vector<expected_page> plan_of(host_problem const& p) {
  INFO("the plan differs from the host's");
  REQUIRE(plan_and_compare<qsa>(p) == "");
  planned_groups<qsa> const planned = plan_on_device<qsa>(p);
  REQUIRE(planned.num_pages.size() == 1);
  std::vector<expected_page> pages;
  for (std::int32_t i = 0; i < planned.num_pages[0]; ++i) {
    auto const at = static_cast<std::size_t>(i);
    if (planned.masks[at] != 0) {
      auto const found =
          std::find(p.block_entries.begin(), p.block_entries.end(), planned.addresses[at].block);
      auto const token =
          (found - p.block_entries.begin()) * p.block_tokens + planned.addresses[at].first_token;
      pages.push_back({static_cast<std::int32_t>(token / p.page_tokens), planned.masks[at]});
    }
  }
  return pages;
}

bool operator==(expected_page const& a, expected_page const& b) {
  return a.page == b.page && a.mask == b.mask;
}
std::ostream& operator<<(std::ostream& out, expected_page const& p) {
  return out << "page " << p.page << " mask " << std::hex << p.mask << std::dec;
}
using expected_pages = std::vector<expected_page>;

//! One row that lists these tokens, or pages, of a request of `length` tokens; it is the last token.
host_problem one_row(std::vector<std::int32_t> const& entries, int length = 64,
                     selection_kind kind = selection_kind::tokens) {
  host_problem p = plain_problem(4, 16, 1, length, kind, static_cast<int>(entries.size()), 7);
  p.entries      = entries;
  return p;
}
host_problem one_row_of_pages(std::vector<std::int32_t> const& pages, int length) {
  return one_row(pages, length, selection_kind::pages);
}

//! Rows that list all tokens of pages: row r lists pages[r].
host_problem rows_of_pages(std::vector<std::vector<std::int32_t>> const& pages, int length,
                           int block_tokens = 16) {
  std::size_t longest = 0;
  for (auto const& row : pages) {
    longest = std::max(longest, row.size());
  }
  host_problem p = plain_problem(4, block_tokens, static_cast<int>(pages.size()), length,
                                 selection_kind::tokens, static_cast<int>(longest * 4), 11);
  for (std::size_t r = 0; r < pages.size(); ++r) {
    std::int32_t* entry = p.row(static_cast<int>(r));
    for (std::int32_t const page : pages[r]) {
      for (int i = 0; i < 4; ++i) {
        *entry++ = page * 4 + i;
      }
    }
  }
  return p;
}

//! `count` different pages of [0, end), in a random order.
std::vector<std::int32_t> random_pages(random_source& source, int count, int end) {
  std::vector<std::int32_t> all(static_cast<std::size_t>(end));
  std::iota(all.begin(), all.end(), 0);
  source.shuffle(all);
  all.resize(static_cast<std::size_t>(count));
  return all;
}

}  // namespace

TEST_CASE("a hole inside a page's entries drops nothing else", "[planner]") {
  CHECK(plan_of(one_row({-1, 5, 6, 7})) == expected_pages{{1, 0xe}});
  CHECK(plan_of(one_row({4, -1, 6, -1, -1, 9, -7, 11})) == expected_pages{{1, 0x5}, {2, 0xa}});
}

TEST_CASE("tokens of one page may be scattered over the row", "[planner]") {
  CHECK(plan_of(one_row({4, 20, 5, 21, 40, 6, 22, 7, 23})) ==
        expected_pages{{1, 0xf}, {5, 0xf}, {10, 0x1}});
}

TEST_CASE("a token listed twice counts once", "[planner]") {
  CHECK(plan_of(one_row({8, 8, 9, 8, 30, 30, 30, 9})) == expected_pages{{2, 0x3}, {7, 0x4}});
}

TEST_CASE("a tail is admitted token by token", "[planner]") {
  // The row sees tokens 0 to 61: its last page has two visible tokens.
  CHECK(plan_of(one_row({0, 1, 2, 3, 60, 61}, 62)) == expected_pages{{0, 0xf}, {15, 0x3}});
  CHECK(plan_of(one_row({0, 1, 2, 3, 61, -1}, 62)) == expected_pages{{0, 0xf}, {15, 0x2}});
  CHECK(plan_of(one_row({0, 1, 2, 3, 60, 61, 62, 63}, 62)) == expected_pages{{0, 0xf}, {15, 0x3}});
  CHECK(plan_of(one_row({0, 1, 2, 3, 62, 63, 64, 65}, 62)) == expected_pages{{0, 0xf}});
}

TEST_CASE("future tokens are dropped", "[planner]") {
  host_problem p = one_row({0, 11, 12, 13, 40, int32_max});
  p.row_position = {12};
  CHECK(plan_of(p) == expected_pages{{0, 0x1}, {2, 0x8}, {3, 0x1}});
}

TEST_CASE("tokens past the sequence are dropped", "[planner]") {
  host_problem p    = one_row({9, 10, 11, 63});
  p.sequence_length = {11};
  CHECK(plan_of(p) == expected_pages{{2, 0x6}});
}

TEST_CASE("positions of -1 and past the sequence are legal", "[planner]") {
  host_problem p = one_row({0, 1, 63});
  p.row_position = {-1};
  CHECK(plan_of(p).empty());
  p.row_position = {std::numeric_limits<std::int64_t>::min()};
  CHECK(plan_of(p).empty());
  p.row_position = {std::numeric_limits<std::int64_t>::max()};
  CHECK(plan_of(p) == expected_pages{{0, 0x3}, {15, 0x8}});
  p.row_position = {std::int64_t{1} << 32};
  CHECK(plan_of(p) == expected_pages{{0, 0x3}, {15, 0x8}});
}

TEST_CASE("counts are clamped to the width and to 0", "[planner]") {
  host_problem p = one_row({0, 4, 8, 12});
  p.counts_form  = count_form::array;
  p.counts       = {2};
  CHECK(plan_of(p) == expected_pages{{0, 0x1}, {1, 0x1}});
  for (std::int32_t const count : {4, 5, int32_max}) {
    p.counts = {count};
    CHECK(plan_of(p).size() == 4);
  }
  for (std::int32_t const count : {0, -1, int32_min}) {
    p.counts = {count};
    CHECK(plan_of(p).empty());
  }
}

TEST_CASE("entries past the count are ignored, whatever they are", "[planner]") {
  // Width 2051 and the count in column 2051, as engines store it; the rest is plausible garbage.
  host_problem p = plain_problem(4, 784, 8, 9000, selection_kind::tokens, 2051, 3);
  p.entry_stride = 2052;
  p.counts_form  = count_form::column;
  p.max_pages    = 513;
  p.entries.assign(8 * 2052, 0);
  random_source source(5);
  for (std::int32_t& entry : p.entries) {
    entry = source.below(8000);
  }
  for (int r = 0; r < 8; ++r) {
    p.row(r)[2051] = r * 16;
  }
  CHECK(plan_and_compare<qsa>(p) == "");
}

TEST_CASE("a row whose request is out of range is an empty row", "[planner]") {
  host_problem p = rows_of_pages({{1}, {2}, {3}, {4}, {5}}, 64);
  p.row_request  = {-1, 0, 1, int32_max, int32_min};
  CHECK(plan_of(p) == expected_pages{{2, 0xf0}});
}

TEST_CASE("an entry of an unmapped or impossible block is dropped by itself", "[planner]") {
  for (std::int32_t const bad : {-1, 9, 10, int32_max, int32_min}) {
    CAPTURE(bad);
    host_problem p = one_row({0, 1, 16, 17, 32, 33});
    REQUIRE(p.num_blocks == 9);
    p.block_entries[1] = bad;
    CHECK(plan_of(p) == expected_pages{{0, 0x3}, {8, 0x3}});
  }
}

TEST_CASE("a block table may be wider than needed, with garbage behind", "[planner]") {
  host_problem p = rows_of_pages({{0, 5, 15}}, 64);
  p.block_entries.insert(p.block_entries.end(), {-1, 1 << 30, -5, 77});
  p.table_width  = 6;
  p.table_stride = 8;
  CHECK(plan_of(p).size() == 3);
}

TEST_CASE("a token past the block table is dropped", "[planner]") {
  host_problem p = rows_of_pages({{0, 7, 8, 15}}, 64);
  p.table_width  = 2;  // 32 tokens
  CHECK(plan_of(p) == expected_pages{{0, 0xf}, {7, 0xf}});
  p.table_width = 0;
  CHECK(plan_of(p).empty());
}

TEST_CASE("two logical pages of a row on one physical block stay two pages", "[planner]") {
  host_problem p  = rows_of_pages({{0, 4, 5}}, 64);
  p.block_entries = {3, 3, 1, 2};
  REQUIRE(plan_and_compare<qsa>(p) == "");
  planned_groups<qsa> const planned = plan_on_device<qsa>(p);
  REQUIRE(planned.num_pages[0] == 4);
  CHECK(planned.masks[0] == 0xf);
  CHECK(planned.masks[1] == 0xf);
  CHECK(planned.addresses[0].block == 3);
  CHECK(planned.addresses[0].first_token == 0);
  CHECK(planned.addresses[1].block == 3);
  CHECK(planned.addresses[1].first_token == 0);
}

TEST_CASE("two requests of a group on one physical block stay two pages", "[planner]") {
  host_problem p    = rows_of_pages({{0}, {0}}, 16);
  p.row_request     = {1, 0};
  p.num_requests    = 2;
  p.sequence_length = {16, 16};
  p.row_position    = {15, 15};
  p.block_entries   = {2, 2};
  REQUIRE(plan_and_compare<qsa>(p) == "");
  planned_groups<qsa> const planned = plan_on_device<qsa>(p);
  REQUIRE(planned.num_pages[0] == 4);
  // Row 0's request was met first.
  CHECK(planned.masks[0] == 0xf);
  CHECK(planned.masks[1] == 0xf0);
}

TEST_CASE("groups of empty rows only have an empty plan", "[planner]") {
  host_problem p = rows_of_pages(std::vector<std::vector<std::int32_t>>(24, {1, 2}), 64);
  std::fill_n(p.row_request.begin() + 8, 8, -1);
  std::fill_n(p.row_position.begin() + 16, 8, -1);
  REQUIRE(plan_and_compare<qsa>(p) == "");
  planned_groups<qsa> const planned = plan_on_device<qsa>(p);
  CHECK(planned.num_pages[0] == 4);
  CHECK(planned.num_pages[1] == 0);
  CHECK(planned.num_pages[2] == 0);
  CHECK(planned.report.empty_rows == 16);
}

TEMPLATE_TEST_CASE("rows without a page in common fill the plan and do not overflow it",
                   "[planner]", plan_shape_of<qsa_policy>, plan_shape_of<rows16_policy>) {
  selection_kind const kind = GENERATE(selection_kind::tokens, selection_kind::pages);
  int const length          = GENERATE(40000, 140000);
  CAPTURE(kind, length);
  random_source source(3);
  int const rows       = TestType::group_rows;
  int const width      = kind == selection_kind::tokens ? 2048 : 512;
  host_problem p       = plain_problem(4, 784, rows, length, kind, width, 4);
  p.max_pages          = 512;
  auto const all_pages = random_pages(source, rows * 512, (length - rows) / 4);
  for (int r = 0; r < rows; ++r) {
    for (int i = 0; i < 512; ++i) {
      std::int32_t const page = all_pages[r * 512 + i];
      for (int t = 0; t < width / 512; ++t) {
        p.row(r)[i * (width / 512) + t] = width == 512 ? page : page * 4 + t;
      }
    }
  }
  REQUIRE(plan_and_compare<TestType>(p) == "");
  CHECK(plan_on_device<TestType>(p).report.largest_union >= static_cast<unsigned>(rows) * 512);
}

TEST_CASE("every token on a page of its own fits without max_pages", "[planner]") {
  int const length = GENERATE(70000, 300000);
  host_problem p   = plain_problem(4, 1600, 8, length, selection_kind::tokens, 2051, 4);
  random_source source(9);
  auto const all_pages = random_pages(source, 8 * 2051, (length - 8) / 4);
  for (std::size_t i = 0; i < all_pages.size(); ++i) {
    p.entries[i] = all_pages[i] * 4 + source.below(4);
  }
  REQUIRE(plan_and_compare<qsa>(p) == "");
  CHECK(plan_on_device<qsa>(p).report.union_pages == 8 * 2051);
}

TEST_CASE("rows that choose the same pages share them all", "[planner]") {
  int const num_pages = GENERATE(1, 3, 100, 512);
  CAPTURE(num_pages);
  random_source source(13);
  auto const pages     = random_pages(source, num_pages, 2000);
  host_problem const p = rows_of_pages(std::vector<std::vector<std::int32_t>>(8, pages), 8192, 400);
  std::vector<expected_page> const planned = plan_of(p);
  REQUIRE(planned.size() == pages.size());
  for (expected_page const& page : planned) {
    CHECK(page.mask == 0xffffffffu);
  }
}

TEST_CASE("rows of one page each", "[planner]") {
  CHECK(
      plan_of(rows_of_pages({{9}, {9}, {2}, {9}, {2}, {11}, {0}, {15}}, 64)) ==
      // Six heads a row, 16 m-rows a band: rows 0 to 2 reach band 0, rows 2 to 5 band 1, and rows
      // 5 to 7 band 2.
      expected_pages{{11, 0xf00000}, {0, 0xf000000}, {15, 0xf0000000}, {2, 0xf0f00}, {9, 0xf0ff}});
}

TEST_CASE("requests may change inside a group", "[planner]") {
  host_problem p    = rows_of_pages({{0, 3}, {0, 3}, {1}, {0, 3}, {1}, {3}, {3}, {0}}, 64);
  p.num_requests    = 3;
  p.sequence_length = {64, 40, 64};
  p.row_request     = {2, 0, 0, 2, 1, 1, 0, 2};
  p.row_position.assign(8, 63);
  std::vector<std::int32_t> const mapped = p.block_entries;
  p.num_blocks                           = 40;
  p.block_entries.clear();
  for (int request = 0; request < 3; ++request) {
    for (std::int32_t const block : mapped) {
      p.block_entries.push_back(request * 10 + block);
    }
  }
  CHECK(plan_and_compare<qsa>(p) == "");
  // A request that an empty row meets first is met all the same.
  p.row_position[0] = -1;
  CHECK(plan_and_compare<qsa>(p) == "");
}

TEST_CASE("the last group may be partial", "[planner]") {
  int const num_rows = GENERATE(1, 7, 8, 9, 23);
  CAPTURE(num_rows);
  random_source source(17);
  std::vector<std::vector<std::int32_t>> pages;
  for (int r = 0; r < num_rows; ++r) {
    pages.push_back(random_pages(source, 5, 20));
  }
  CHECK(plan_and_compare<qsa>(rows_of_pages(pages, 200)) == "");
}

TEST_CASE("rows behind the last of the call are left alone", "[planner]") {
  host_problem p = rows_of_pages({{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}, {9}, {10}}, 64);
  p.num_rows -= GENERATE(1, 2, 8, 9);
  CAPTURE(p.num_rows);
  CHECK(plan_and_compare<qsa>(p) == "");
}

TEST_CASE("no rows plan to nothing", "[planner]") {
  CHECK(plan_and_compare<qsa>(plain_problem(4, 16, 0, 64, selection_kind::tokens, 8, 1)) == "");
}

TEST_CASE("a page table's rows get their last, partly visible page", "[planner]") {
  CHECK(plan_of(one_row_of_pages({2, 0}, 62)) == expected_pages{{0, 0xf}, {2, 0xf}, {15, 0x3}});
  CHECK(plan_of(one_row_of_pages({2, 0}, 64)) == expected_pages{{0, 0xf}, {2, 0xf}});
  CHECK(plan_of(one_row_of_pages({}, 3)) == expected_pages{{0, 0x7}});
  // Listing it as well adds nothing, and pages past it are not visible.
  CHECK(plan_of(one_row_of_pages({15, 16, 15}, 62)) == expected_pages{{15, 0x3}});
  host_problem p = one_row_of_pages({2, 0}, 62);
  p.table_width  = 3;
  CHECK(plan_of(p) == expected_pages{{0, 0xf}, {2, 0xf}});
}

TEST_CASE("page numbers whose tokens overflow are not visible", "[planner]") {
  CHECK(plan_of(one_row_of_pages({1 << 30, 1, 1 << 29, int32_max, int32_min, -1}, 64)) ==
        expected_pages{{1, 0xf}});
}

TEST_CASE("categories are whole tiles, the pages of all bands first, padding is of the group",
          "[planner]") {
  host_problem const p =
      rows_of_pages({{1, 2, 3}, {2, 30}, {2, 3}, {2}, {2, 30, 40}, {2, 5, 6}, {2, 5}, {2, 6}}, 200);
  REQUIRE(plan_and_compare<qsa>(p) == "");
  planned_groups<qsa> const planned = plan_on_device<qsa>(p);
  int last_category                 = qsa::num_categories + 1;
  REQUIRE(planned.num_pages[0] % qsa::tile_pages == 0);
  for (int tile = 0; tile < planned.num_pages[0] / qsa::tile_pages; ++tile) {
    int const category = category_of<qsa>(planned.masks[static_cast<std::size_t>(tile) * 4]);
    CHECK(category <= last_category);
    CHECK(category > 0);
    last_category = category;
    for (std::size_t i = 0; i < 4; ++i) {
      std::uint32_t const mask = planned.masks[static_cast<std::size_t>(tile) * 4 + i];
      CHECK((mask == 0 || category_of<qsa>(mask) == category));
    }
  }
  CHECK(planned.masks[0] == 0xffffffffu);
}

TEST_CASE("the plan changes with neither the order of columns nor the place of physical blocks",
          "[planner]") {
  std::uint64_t const seed = GENERATE(range(1, 9));
  CAPTURE(seed);
  host_problem const p             = adversarial_problem(4, seed).get();
  planned_groups<qsa> const before = plan_on_device<qsa>(p);
  host_problem other               = permuted_columns(p, seed);
  auto const moved                 = [&](std::int32_t block) {
    return block >= 0 && block < p.num_blocks ? p.num_blocks - 1 - block : block;
  };
  for (std::int32_t& block : other.block_entries) {
    block = moved(block);
  }
  planned_groups<qsa> const after = plan_on_device<qsa>(other);
  REQUIRE(before.num_pages == after.num_pages);
  REQUIRE(before.masks == after.masks);
  for (std::size_t i = 0; i < before.addresses.size(); ++i) {
    REQUIRE(after.addresses[i].block == moved(before.addresses[i].block));
    REQUIRE(after.addresses[i].first_token == before.addresses[i].first_token);
  }
}

TEST_CASE("pages past the capacity are dropped from the end of the plan, and counted",
          "[planner]") {
  host_problem p = rows_of_pages({{1, 2, 3, 4}, {1, 2, 9, 10}, {1, 11, 12, 13}}, 64);
  p.max_pages    = 1;  // eight pages for the group
  REQUIRE(plan_and_compare<qsa>(p) == "");
  planned_groups<qsa> const planned = plan_on_device<qsa>(p);
  CHECK(planned.report.over_capacity == 1);
  CHECK(planned.report.union_pages == 8);
  p.max_pages = 4;
  CHECK(plan_on_device<qsa>(p).report.over_capacity == 0);
}

TEST_CASE("contexts of many windows of pages are planned in order", "[planner]") {
  std::int32_t const length = GENERATE(131072, 262144, 1048576, 20000000);
  selection_kind const kind = GENERATE(selection_kind::tokens, selection_kind::pages);
  CAPTURE(length, kind);
  host_problem p = plain_problem(4, 3296, 16, length, kind, 64, 21);
  random_source source(22);
  int const unit = kind == selection_kind::pages ? 4 : 1;
  for (std::int32_t& entry : p.entries) {
    entry = source.below(length / unit);
  }
  // Both ends of the context, in one row.
  p.row(3)[0] = 0;
  p.row(3)[1] = (length - 16) / unit;
  CHECK(plan_and_compare<qsa>(p) == "");
}

TEST_CASE("a token at the end of int32 is planned", "[planner]") {
  constexpr std::int32_t last       = int32_max;
  host_problem p                    = one_row({0, last - 3, last - 2, last - 1, last});
  p.page_tokens                     = 4;
  p.block_tokens                    = 1 << 28;
  p.sequence_length                 = {last};
  p.row_position                    = {last};
  p.table_width                     = 7;  // 7 * 2^28 tokens
  p.table_stride                    = 7;
  p.num_blocks                      = 8;
  p.block_entries                   = {6, 5, 4, 3, 2, 1, 0};
  p.row(0)[1]                       = 7 * (1 << 28) - 1;
  p.row(0)[2]                       = 7 * (1 << 28);
  planned_groups<qsa> const planned = plan_on_device<qsa>(p);
  CHECK(difference(planned, host_plan<qsa>(p)) == "");
  CHECK(planned.masks[1] == 0x8);
  CHECK(planned.addresses[1].block == 0);
  CHECK(planned.addresses[1].first_token == (1 << 28) - 4);
}

TEST_CASE("more groups than a grid's second axis could hold", "[planner]") {
  host_problem p =
      plain_problem(4, 16, test_size(70000, 700) * 8 + 3, 4096, selection_kind::tokens, 4, 31);
  random_source source(32);
  for (std::int64_t& position : p.row_position) {
    position = source.below(4096);
  }
  for (std::int32_t& entry : p.entries) {
    entry = source.below(600);
  }
  host_plan<qsa> const host(p);
  planned_groups<qsa> const planned = plan_on_device<qsa>(p);
  CHECK(difference(planned, host) == "");
  CHECK(difference(planned.report, host.report()) == "");
}

TEST_CASE("more requests than 16 bits can number", "[planner][requests]") {
  constexpr int num_requests = 70000;
  host_problem p             = plain_problem(4, 16, 16, 64, selection_kind::tokens, 24, 51);
  random_source source(52);
  p.num_requests = num_requests;
  p.sequence_length.assign(num_requests, 64);
  p.num_blocks = 4 * num_requests;
  p.block_entries.resize(4 * num_requests);
  std::iota(p.block_entries.begin(), p.block_entries.end(), 0);
  source.shuffle(p.block_entries);
  // Rows of requests at both ends, which 16 bits would confuse, in one group and in different ones.
  p.row_request = {0,     65536, 1,     65537, 4463,  69999, 32767, 32768,
                   69999, 65535, 65536, 4463,  70000, 65535, 0,     69998};
  for (std::int32_t& entry : p.entries) {
    entry = source.below(64);
  }
  CHECK(plan_and_compare<qsa>(p) == "");
}

TEST_CASE("a report adds up over calls and names every reason", "[planner]") {
  host_problem p = rows_of_pages({{0, 1}, {1, 2}, {2, 3}, {40}, {41}, {0, 5}, {6}, {7}, {8}}, 64);
  p.row(0)[1]    = -1;
  p.row(0)[2]    = -9;
  p.row(1)[0]    = 63;  // the row sees 56 tokens
  p.row_position[1]      = 55;
  p.row_request[2]       = 7;
  p.row_position[6]      = -1;
  p.row_position[3]      = 1000;
  p.sequence_length      = {256};
  p.row_position[4]      = 1000;
  p.block_entries[1]     = -1;
  plan_report const host = host_plan<qsa>(p).report();
  CHECK(host.negative > 0);
  CHECK(host.not_visible > 0);
  CHECK(host.past_table > 0);
  CHECK(host.unmapped_block > 0);
  CHECK(host.bad_request_rows == 1);
  CHECK(difference(plan_on_device<qsa>(p).report, host) == "");
  CHECK(difference(plan_on_device<qsa>(p, 2).report, host, 2) == "");
}

TEST_CASE("a captured planning call follows the contents of its arrays", "[planner]") {
  host_problem const shapes = plain_problem(4, 36, 40, 3000, selection_kind::tokens, 61, 41);
  auto const filled         = [&](std::uint64_t seed) {
    host_problem p = shapes;
    random_source source(seed);
    source.shuffle(p.block_entries);
    p.block_entries[source.below(p.table_width)] = -1;
    p.sequence_length = {static_cast<std::int32_t>(source.between(1500, 3000))};
    for (std::int64_t& position : p.row_position) {
      position = source.below(3000);
    }
    for (std::int32_t& entry : p.entries) {
      entry = source.below(3000);
    }
    return p;
  };
  device_problem problem(filled(1));
  device_plan<qsa> const planned(shapes);
  captured_graph graph([&](cudaStream_t stream) {
    return make_plan<qsa>(problem.rows(), problem.selected(), problem.operands().cache,
                          planned.view(), nullptr, stream);
  });
  REQUIRE(graph.captured() == status::ok);
  for (std::uint64_t seed = 2; seed < 5; ++seed) {
    host_problem const next = filled(seed);
    problem.upload(next);
    graph.replay();
    CHECK(difference(fetch(planned, status::ok), host_plan<qsa>(next)) == "");
  }
}

TEST_CASE("planning twice gives the same bits", "[planner]") {
  host_problem const p            = adversarial_problem(4, 77).get();
  planned_groups<qsa> const first = plan_on_device<qsa>(p);
  for (int i = 0; i < 20; ++i) {
    planned_groups<qsa> const again = plan_on_device<qsa>(p);
    REQUIRE(first.num_pages == again.num_pages);
    REQUIRE(first.masks == again.masks);
  }
}
