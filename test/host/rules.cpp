// SPDX-License-Identifier: Apache-2.0
#include <pageunion/rules.hpp>

#include <cstdint>
#include <limits>

#include "support/catch.hpp"

using pageunion::drop_reason;

namespace {

constexpr std::int32_t largest  = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t furthest = std::numeric_limits<std::int64_t>::max();

}  // namespace

TEST_CASE("a token is visible if 0 <= t < min(position + 1, sequence_length)", "[rules]") {
  for (std::int64_t position = -3; position < 9; ++position) {
    for (std::int32_t length = -2; length < 7; ++length) {
      pageunion::token_range const visible = pageunion::visible_tokens(position, length);
      CAPTURE(position, length, visible.begin, visible.end);
      REQUIRE(visible.begin == 0);
      REQUIRE(visible.end >= 0);
      for (std::int64_t token = -2; token < 12; ++token) {
        bool const is_visible = token >= 0 && token <= position && token < length;
        REQUIRE((token >= visible.begin && token < visible.end) == is_visible);
      }
    }
  }
}

TEST_CASE("any 64-bit position is legal", "[rules]") {
  CHECK(pageunion::visible_tokens(furthest, largest).end == largest);
  CHECK(pageunion::visible_tokens(furthest, 5).end == 5);
  CHECK(pageunion::visible_tokens(std::int64_t{1} << 32, 5).end == 5);
  CHECK(pageunion::visible_tokens(-furthest - 1, 5).end == 0);
  CHECK(pageunion::visible_tokens(largest - 1, largest).end == largest);
}

TEST_CASE("only requests in [0, num_requests) exist", "[rules]") {
  CHECK_FALSE(pageunion::is_request(-1, 3));
  CHECK(pageunion::is_request(0, 3));
  CHECK(pageunion::is_request(2, 3));
  CHECK_FALSE(pageunion::is_request(3, 3));
  CHECK_FALSE(pageunion::is_request(0, 0));
}

TEST_CASE("only blocks in [0, num_blocks) are mapped", "[rules]") {
  CHECK_FALSE(pageunion::is_mapped(-1, 3));
  CHECK(pageunion::is_mapped(0, 3));
  CHECK(pageunion::is_mapped(2, 3));
  CHECK_FALSE(pageunion::is_mapped(3, 3));
  CHECK_FALSE(pageunion::is_mapped(largest, 3));
}

TEST_CASE("a count is clamped to [0, width]", "[rules]") {
  CHECK(pageunion::entries_in_use(-5, 8) == 0);
  CHECK(pageunion::entries_in_use(0, 8) == 0);
  CHECK(pageunion::entries_in_use(7, 8) == 7);
  CHECK(pageunion::entries_in_use(8, 8) == 8);
  CHECK(pageunion::entries_in_use(largest, 8) == 8);
  CHECK(pageunion::entries_in_use(3, 0) == 0);
}

TEST_CASE("an entry is dropped for the first reason that holds", "[rules]") {
  int const block_tokens = 12;
  int const table_width  = 3;
  // A visible end beyond the table: tokens 36 to 39 are visible but past it.
  CHECK(pageunion::check_token(-1, {0, 40}, block_tokens, table_width) == drop_reason::negative);
  CHECK(pageunion::check_token(0, {0, 40}, block_tokens, table_width) == drop_reason::none);
  CHECK(pageunion::check_token(35, {0, 40}, block_tokens, table_width) == drop_reason::none);
  CHECK(pageunion::check_token(36, {0, 40}, block_tokens, table_width) == drop_reason::past_table);
  CHECK(pageunion::check_token(40, {0, 40}, block_tokens, table_width) == drop_reason::not_visible);
  CHECK(pageunion::check_token(0, {0, 0}, block_tokens, table_width) == drop_reason::not_visible);
  CHECK(pageunion::check_token(9, {10, 40}, block_tokens, table_width) == drop_reason::not_visible);
  CHECK(pageunion::check_token(10, {10, 40}, block_tokens, table_width) == drop_reason::none);
  // A page number times the tokens of a page exceeds 32 bits.
  CHECK(pageunion::check_token(std::int64_t{largest} * 16, {0, largest}, block_tokens,
                               table_width) == drop_reason::not_visible);
}

TEST_CASE("the tail page is the last page if it is partly visible", "[rules]") {
  int const page_tokens = GENERATE(4, 8, 16);
  CAPTURE(page_tokens);
  for (std::int32_t end = 0; end < 70; ++end) {
    CAPTURE(end);
    std::int32_t expected = -1;
    for (std::int32_t page = 0; page < 70; ++page) {
      std::int32_t const first = page * page_tokens;
      if (first < end && end < first + page_tokens) {
        expected = page;
      }
    }
    REQUIRE(pageunion::tail_page(end, page_tokens) == expected);
  }
}

TEST_CASE("the most pages of a row follow from shapes", "[rules]") {
  pageunion::token_table tokens;
  tokens.width = 2051;
  // Every token may lie in a page of its own, unless the caller gives his word.
  CHECK(pageunion::max_pages_per_row(tokens, 4, 16, 10000) == 2051);
  tokens.max_pages = 513;
  CHECK(pageunion::max_pages_per_row(tokens, 4, 16, 10000) == 513);
  tokens.max_pages = 5000;
  CHECK(pageunion::max_pages_per_row(tokens, 4, 16, 10000) == 2051);
  // The block table holds fewer.
  CHECK(pageunion::max_pages_per_row(tokens, 4, 16, 100) == 400);
  CHECK(pageunion::max_pages_per_row(tokens, 4, 16, 0) == 0);

  pageunion::page_table pages;
  pages.width = 512;
  CHECK(pageunion::max_pages_per_row(pages, 4, 16, 10000) == 513);
  pages.width = largest;
  CHECK(pageunion::max_pages_per_row(pages, 4, 4, largest) == largest);
}
