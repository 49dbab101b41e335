// SPDX-License-Identifier: Apache-2.0
//! @file
//! The reference against a second computation that shares nothing with it: every token of the
//! sequence is asked whether the row lists it, and the softmax is the plain quotient.
#include <pageunion/reference.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "support/catch.hpp"
#include "support/make_problem.hpp"

namespace {

using namespace pageunion;
using namespace pageunion::test;

constexpr double infinity = std::numeric_limits<double>::infinity();

double value_of(std::vector<std::uint16_t> const& data, std::int64_t element) {
  return half_value(data.at(static_cast<std::size_t>(element)));
}

//! True if a row's list holds a token, or the page of a token.
bool is_listed(host_problem const& p, int row, std::int64_t token) {
  std::int32_t const* const stored = p.row(row);
  std::int32_t const* const end    = stored + p.entries_in_use(row);
  std::int64_t const wanted = p.kind == selection_kind::pages ? token / p.page_tokens : token;
  return std::find(stored, end, wanted) != end;
}

//! The attention of all rows, token by token over the whole sequence.
reference_result dense_attention(host_problem const& p) {
  reference_result result;
  int const dim = p.head_dim;
  for (int row = 0; row < p.num_rows; ++row) {
    std::int32_t const request = p.row_request[row];
    std::vector<std::int64_t> tokens;
    std::vector<std::int32_t> blocks;
    bool const exists           = request >= 0 && request < p.num_requests;
    std::int64_t const length   = exists ? p.sequence_length[request] : std::int64_t{0};
    std::int64_t const position = p.row_position[row];
    std::int64_t const num_visible =
        position >= length ? length : std::max<std::int64_t>(position + 1, 0);
    for (std::int64_t token = 0; token < num_visible; ++token) {
      bool const is_tail =
          p.kind == selection_kind::pages && token / p.page_tokens == num_visible / p.page_tokens;
      std::int64_t const column = token / p.block_tokens;
      if ((is_tail || is_listed(p, row, token)) && column < p.table_width) {
        std::int32_t const block = p.block_entries[request * p.table_stride + column];
        if (block >= 0 && block < p.num_blocks) {
          tokens.push_back(token);
          blocks.push_back(block);
        }
      }
    }
    for (int h = 0; h < p.num_heads(); ++h) {
      int const g                            = h / p.heads_per_kv;
      std::vector<std::uint16_t> const& keys = p.k_data;
      std::vector<std::uint16_t> const& vals = p.v_data.empty() ? p.k_data : p.v_data;
      long double sum                        = 0.0L;
      std::vector<long double> out(static_cast<std::size_t>(dim), 0.0L);
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        std::int64_t const slot = tokens[i] % p.block_tokens;
        std::int64_t const k =
            blocks[i] * p.k_strides.block + slot * p.k_strides.token + g * p.k_strides.head;
        std::int64_t const v = p.v_first + blocks[i] * p.v_strides.block +
                               slot * p.v_strides.token + g * p.v_strides.head;
        std::int64_t const q = row * p.q_row_stride + h * p.q_head_stride;
        long double score    = 0.0L;
        for (int d = 0; d < dim; ++d) {
          score += static_cast<long double>(value_of(p.q_data, q + d)) * value_of(keys, k + d);
        }
        long double const weight = std::exp(static_cast<long double>(p.scale) * score);
        sum += weight;
        for (int d = 0; d < dim; ++d) {
          out[d] += weight * value_of(vals, v + d);
        }
      }
      for (long double const element : out) {
        result.out.push_back(tokens.empty() ? 0.0 : static_cast<double>(element / sum));
      }
      result.lse.push_back(tokens.empty() ? -infinity : static_cast<double>(std::log(sum)));
    }
  }
  return result;
}

void require_equal(std::vector<double> const& actual, std::vector<double> const& expected) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    if (std::isinf(expected[i])) {
      REQUIRE(actual[i] == expected[i]);
    } else {
      REQUIRE(std::abs(actual[i] - expected[i]) <= 1e-12 * (1.0 + std::abs(expected[i])));
    }
  }
}

void require_dense(host_problem const& p) {
  reference_result const actual   = p.reference();
  reference_result const expected = dense_attention(p);
  require_equal(actual.out, expected.out);
  require_equal(actual.lse, expected.lse);
}

//! Few tokens, short heads; what no row attends to is NaN.
problem_spec tiny_spec() {
  problem_spec spec;
  spec.num_rows      = 13;
  spec.num_requests  = 2;
  spec.min_length    = 20;
  spec.max_length    = 60;
  spec.pages_per_row = 4;
  spec.heads_per_kv  = 3;
  spec.head_dim      = 64;
  return spec;
}

//! One row of one request with these entries in its table, at the end of `length` tokens.
host_problem one_row(selection_kind kind, std::vector<std::int32_t> entries, int length) {
  problem_spec spec = tiny_spec();
  spec.num_rows     = 1;
  spec.num_requests = 1;
  spec.lengths      = {length};
  spec.kind         = kind;
  spec.unselected   = cache_fill::values;
  host_problem p    = make_problem(spec);
  p.width           = static_cast<int>(entries.size());
  p.entry_stride    = p.width;
  p.entries         = std::move(entries);
  return p;
}

using tokens = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("the reference is the dense softmax over what each row lists", "[reference]") {
  problem_spec spec  = tiny_spec();
  spec.seed          = GENERATE(1u, 2u, 3u);
  spec.kind          = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.counts_form   = GENERATE(count_form::none, count_form::array, count_form::column);
  bool const clutter = GENERATE(false, true);
  if (clutter) {
    spec.holes = spec.duplicates = spec.foreign_entries = 0.3;
    spec.empty_rows = spec.padding_rows = spec.odd_positions = 0.15;
    spec.unmapped_blocks                                     = 0.2;
    spec.token_density                                       = 0.6;
  }
  CAPTURE(spec.seed, spec.kind, spec.counts_form, clutter);
  require_dense(make_problem(spec));
}

TEST_CASE("the reference follows any layout of the cache", "[reference]") {
  problem_spec spec      = tiny_spec();
  spec.layout            = GENERATE(kv_layout::separate, kv_layout::heads_first, kv_layout::mixed,
                                    kv_layout::interleaved_blocks, kv_layout::interleaved_tokens);
  spec.gap               = GENERATE(0, 8);
  spec.num_kv_heads      = 2;
  spec.block_tokens      = GENERATE(16, 36);
  spec.has_shared_prefix = true;
  spec.order             = row_order::shuffled;
  spec.spare_columns     = -1;
  // 20 leaves a remainder in every way to take a dot product apart.
  spec.head_dim = GENERATE(64, 20);
  CAPTURE(spec.layout, spec.gap, spec.block_tokens, spec.head_dim);
  require_dense(make_problem(spec));
}

TEST_CASE("the reference takes pages of 8 and 16 tokens and cache blocks of odd sizes",
          "[reference]") {
  problem_spec spec = tiny_spec();
  spec.page_tokens  = GENERATE(8, 16);
  spec.block_tokens = GENERATE(16, 48, 400, 784);
  spec.kind         = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.min_length   = 300;
  spec.max_length   = 900;
  spec.pattern      = GENERATE(page_pattern::same, page_pattern::disjoint);
  spec.columns      = column_order::ascending;
  CAPTURE(spec.page_tokens, spec.block_tokens, spec.kind, spec.pattern);
  require_dense(make_problem(spec));
}

TEST_CASE("a hole drops nothing but itself", "[reference]") {
  host_problem const p = one_row(selection_kind::tokens, {3, -1, 9, -1, -7, 10}, 20);
  CHECK(p.tokens_of(0) == tokens{3, 9, 10});
}

TEST_CASE("a token listed twice counts once and columns have no order", "[reference]") {
  host_problem const p = one_row(selection_kind::tokens, {9, 3, 9, 10, 3, 3}, 20);
  CHECK(p.tokens_of(0) == tokens{3, 9, 10});
}

TEST_CASE("a foreign tail admits nothing", "[reference]") {
  std::int32_t const far = std::numeric_limits<std::int32_t>::max();
  host_problem p         = one_row(selection_kind::tokens, {18, 19, 20, 21, far}, 20);
  CHECK(p.tokens_of(0) == tokens{18, 19});
  p.row_position[0] = 18;
  CHECK(p.tokens_of(0) == tokens{18});
  p.row_position[0] = std::numeric_limits<std::int64_t>::max();
  CHECK(p.tokens_of(0) == tokens{18, 19});
  p.sequence_length[0] = 19;
  CHECK(p.tokens_of(0) == tokens{18});
}

TEST_CASE("a token past the block table or in an unmapped block is dropped by itself",
          "[reference]") {
  host_problem p = one_row(selection_kind::tokens, {0, 15, 16, 31, 32, 47}, 48);
  p.table_width  = 2;
  CHECK(p.tokens_of(0) == tokens{0, 15, 16, 31});
  p.block_entries[0] = GENERATE(-1, 1000, std::numeric_limits<std::int32_t>::min());
  CHECK(p.tokens_of(0) == tokens{16, 31});
}

TEST_CASE("a row of pages gets its partly visible last page once", "[reference]") {
  host_problem p = one_row(selection_kind::pages, {1, -1, 1, 6}, 22);
  // Tokens 20 and 21 are the tail; page 6 is not visible.
  CHECK(p.tokens_of(0) == tokens{4, 5, 6, 7, 20, 21});
  p.row_position[0] = 20;
  CHECK(p.tokens_of(0) == tokens{4, 5, 6, 7, 20});
  // A whole last page is not added.
  p.row_position[0] = 19;
  CHECK(p.tokens_of(0) == tokens{4, 5, 6, 7});
  p.entries         = {5, 5, 1, -1};
  p.row_position[0] = 21;
  CHECK(p.tokens_of(0) == tokens{4, 5, 6, 7, 20, 21});
}

TEST_CASE("a row of a request that does not exist is empty", "[reference]") {
  host_problem p = one_row(selection_kind::pages, {0}, 6);
  CHECK(p.tokens_of(0) == tokens{0, 1, 2, 3, 4, 5});
  p.row_request[0] = GENERATE(-1, 1, std::numeric_limits<std::int32_t>::max());
  CHECK(p.tokens_of(0).empty());
  reference_result const result = p.reference();
  for (double const element : result.out) {
    REQUIRE((element == 0.0 && !std::signbit(element)));
  }
  for (double const element : result.lse) {
    REQUIRE(element == -infinity);
  }
}

TEST_CASE("a token table's max_pages does not change what a row attends to", "[reference]") {
  host_problem p = one_row(selection_kind::tokens, {0, 4, 8, 12}, 20);
  p.max_pages    = 1;
  CHECK(p.tokens_of(0) == tokens{0, 4, 8, 12});
}

TEST_CASE("NaN and infinity in the tokens of a row reach its result", "[reference]") {
  host_problem p       = one_row(selection_kind::tokens, {3, 9}, 20);
  int const dim        = p.head_dim;
  auto const k_element = element_of(p, p.k_strides, 0, 9, 0);
  auto const v_element = element_of(p, p.v_strides, 0, 9, 0);

  SECTION("infinity in V makes its own element infinite") {
    v_begin(p)[v_element + 5]     = half_infinity;
    reference_result const result = p.reference();
    for (std::size_t i = 0; i < result.out.size(); ++i) {
      REQUIRE((result.out[i] == infinity) == (static_cast<int>(i) % dim == 5));
    }
    for (double const lse : result.lse) {
      REQUIRE(std::isfinite(lse));
    }
  }
  SECTION("NaN in K makes the whole row NaN") {
    p.k_data[k_element]           = half_nan;
    reference_result const result = p.reference();
    for (double const element : result.out) {
      REQUIRE(std::isnan(element));
    }
    for (double const lse : result.lse) {
      REQUIRE(std::isnan(lse));
    }
  }
}

TEST_CASE("halves are widened exactly", "[reference]") {
  for (unsigned bits = 0; bits < 0x10000; ++bits) {
    __half_raw raw;
    raw.x                 = static_cast<std::uint16_t>(bits);
    double const expected = half_value(raw.x);
    double const actual   = detail::reference_value(__half(raw));
    CAPTURE(bits);
    REQUIRE(((std::isnan(expected) && std::isnan(actual)) ||
             (expected == actual && std::signbit(expected) == std::signbit(actual))));
  }
}

TEST_CASE("sampled rows are those of the whole batch, on any number of threads", "[reference]") {
  problem_spec spec    = tiny_spec();
  spec.padding_rows    = 0.2;
  host_problem const p = make_problem(spec);

  reference_result const all = p.reference();
  std::vector<std::int32_t> const sampled{12, 0, 5, 5};
  reference_result some;
  int const threads = GENERATE(0, 1, 3);
  CAPTURE(threads);
  reference_rows(p.rows(), p.selected(), p.operands(), spec.page_tokens, sampled, some, threads);
  std::size_t const row_outputs = static_cast<std::size_t>(p.num_heads() * spec.head_dim);
  REQUIRE(some.out.size() == sampled.size() * row_outputs);
  REQUIRE(some.lse.size() == sampled.size() * static_cast<std::size_t>(p.num_heads()));
  for (std::size_t i = 0; i < some.out.size(); ++i) {
    auto const row = static_cast<std::size_t>(sampled[i / row_outputs]);
    REQUIRE(some.out[i] == all.out[row * row_outputs + i % row_outputs]);
  }
}

TEST_CASE("a batch without rows has an empty result", "[reference]") {
  batch const rows;
  selection const selected;
  attention_operands operands;
  operands.cache.num_kv_heads = 1;
  reference_result result;
  reference_attention(rows, selected, operands, 4, result);
  CHECK(result.out.empty());
  CHECK(result.lse.empty());
}

TEST_CASE("relocated blocks and permuted columns give the same bits", "[reference]") {
  problem_spec spec        = tiny_spec();
  spec.counts_form         = GENERATE(count_form::none, count_form::column);
  spec.layout              = GENERATE(kv_layout::mixed, kv_layout::interleaved_blocks);
  spec.holes               = 0.2;
  spec.unmapped_blocks     = 0.2;
  host_problem const p     = make_problem(spec);
  host_problem const moved = relocated(permuted_columns(p, 7), 11);
  CHECK(moved.block_entries != p.block_entries);
  CHECK(moved.entries != p.entries);
  reference_result const a = p.reference();
  reference_result const b = moved.reference();
  CHECK(a.out == b.out);
  CHECK(a.lse == b.lse);
}
