// SPDX-License-Identifier: Apache-2.0
//! @file
//! grouped_attention() on plans made by the host: every geometry against the reference, what NaN and
//! infinity may reach, and scores that test the online softmax.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <pageunion/grouped_attention.cuh>

#include "support/bad_arguments.hpp"
#include "support/captured_graph.cuh"
#include "support/catch.hpp"
#include "support/double_bits.hpp"
#include "support/grouped_run.cuh"
#include "support/make_problem.hpp"
#include "support/policies.hpp"

namespace {

using namespace pageunion;
using namespace pageunion::test;

//! One tile of scores per warp at once: twice the steps.
struct one_tile_policy : qsa_policy {
  static constexpr void tune(tuning& chosen) noexcept { chosen.grouped.warp_tiles = 1; }
};
//! 8 rows of 8 tokens: masks of 64 bits, one m-tile.
struct page8_policy : qsa_policy {
  static constexpr int page_tokens  = 8;
  static constexpr int heads_per_kv = 2;
  static constexpr int head_dim     = 64;
};

template <class Policy>
void require_right(host_problem const& p) {
  REQUIRE(grouped_run<Policy>(p).run_faults() == "");
}

//! Rows that attend to all tokens that they see, so that the plan's order is the tokens' own.
template <class Policy>
host_problem dense_problem(int num_rows, int length) {
  problem_spec spec  = spec_of<Policy>();
  spec.num_rows      = num_rows;
  spec.lengths       = {length};
  spec.pages_per_row = length;
  return make_problem(spec);
}

//! Gives Q and K one element each that is not 0, so that the score of a row's head and a token is
//! exactly query(row, head) * key(token) * scale. Tokens that nobody attends to stay NaN.
template <class Query, class Key>
void set_scores(host_problem& p, Query query, Key key) {
  int const dims = p.head_dim;
  for (int row = 0; row < p.num_rows; ++row) {
    for (int head = 0; head < p.num_heads(); ++head) {
      auto* const q = p.q_data.data() + row * p.q_row_stride + head * p.q_head_stride;
      std::fill_n(q, dims, half_bits(0.0f));
      q[0] = half_bits(query(row, head));
    }
  }
  for (int token = 0; token < p.sequence_length[0]; ++token) {
    std::uint16_t* const k = p.k_data.data() + element_of(p, p.k_strides, 0, token, 0);
    if (k[0] != half_nan) {
      std::fill_n(k, dims, half_bits(0.0f));
      k[0] = half_bits(key(token));
    }
  }
}

std::uint16_t& v_element(host_problem& p, int token, int dim) {
  return v_begin(p)[element_of(p, p.v_strides, 0, token, 0) + dim];
}
std::uint16_t& k_element(host_problem& p, int token, int dim) {
  return p.k_data[element_of(p, p.k_strides, 0, token, 0) + dim];
}

//! Requires that the bytes of exactly those rows changed that attend to one of these tokens.
//! @return number of these rows
int require_reached_rows(attention_run const& call, std::vector<unsigned char> const& found,
                         std::vector<unsigned char> const& expected,
                         std::vector<std::int32_t> const& tokens) {
  int num_reached = 0;
  for (int row = 0; row < call.host().num_rows; ++row) {
    std::vector<std::int32_t> const attended = call.host().tokens_of(row);
    bool const is_reached = std::find_first_of(attended.begin(), attended.end(), tokens.begin(),
                                               tokens.end()) != attended.end();
    num_reached += is_reached ? 1 : 0;
    CAPTURE(row, is_reached);
    device_outputs const& outputs = call.device().outputs();
    REQUIRE((outputs.bytes_of_row(found, row) == outputs.bytes_of_row(expected, row)) ==
            !is_reached);
  }
  return num_reached;
}

//! 24 rows that each attend to about half of 200 tokens.
host_problem half_dense_problem() {
  problem_spec spec  = spec_of<qsa_policy>();
  spec.num_rows      = 24;
  spec.lengths       = {200};
  spec.pages_per_row = 50;
  spec.token_density = 0.5;
  return make_problem(spec);
}

}  // namespace

TEMPLATE_TEST_CASE("grouped attention agrees with the reference in every geometry", "[grouped]",
                   qsa_policy, one_tile_policy, short_head_policy, twelve_head_policy,
                   wide_group_policy, page8_policy, wide_page_policy) {
  constexpr int group_rows = TestType::group_rows;
  problem_spec spec        = spec_of<TestType>();
  spec.num_rows            = GENERATE_COPY(0, 1, group_rows - 1, group_rows, group_rows + 1, 45);
  bool const is_sparse     = GENERATE(true, false);
  spec.block_tokens        = 48;
  spec.num_kv_heads        = is_sparse ? 1 : 2;
  spec.token_density       = is_sparse ? 0.4 : 1.0;
  spec.pages_per_row       = is_sparse ? 20 : 90;
  spec.num_requests        = is_sparse ? 1 : 2;
  spec.lengths             = is_sparse ? std::vector<int>{400} : std::vector<int>{500, 37};
  spec.out_type            = is_sparse ? element_type::f16 : element_type::f32;
  spec.lse_base            = is_sparse ? log_base::natural : log_base::two;
  spec.empty_rows          = 0.1;
  spec.padding_rows        = 0.1;
  CAPTURE(spec.num_rows, is_sparse);
  require_right<TestType>(make_problem(spec));
}

TEMPLATE_TEST_CASE("a plan may fill its steps to any extent", "[grouped]", qsa_policy,
                   one_tile_policy, wide_page_policy) {
  using code               = detail::grouped_attention_code<TestType, policy_tuning, 700>;
  constexpr int step_pages = code::shape::step_pages;
  constexpr int tile_pages = plan_shape_of<TestType>::tile_pages;
  problem_spec spec        = spec_of<TestType>();
  spec.pattern             = page_pattern::same;
  spec.pages_per_row =
      GENERATE_COPY(1, tile_pages, tile_pages + 1, step_pages - tile_pages, step_pages,
                    step_pages + 1, 2 * step_pages, 3 * step_pages - 1);
  spec.num_rows = plan_shape_of<TestType>::group_rows;
  spec.lengths  = {4 * step_pages * TestType::page_tokens};
  CAPTURE(spec.pages_per_row);
  require_right<TestType>(make_problem(spec));
}

TEST_CASE("lse may be left out", "[grouped]") {
  problem_spec spec = spec_of<qsa_policy>();
  grouped_run<qsa_policy> call(make_problem(spec));
  std::vector<unsigned char> const bytes = call.output_bytes();
  call.poison();
  attention_operands operands = call.device().operands();
  operands.lse                = {};
  REQUIRE(grouped_attention<qsa_policy>(spec.num_rows, operands, call.planned(), nullptr) ==
          status::ok);
  std::vector<unsigned char> without = bytes;
  std::fill(without.end() - 4 * spec.num_rows * call.host().lse_row_stride, without.end(), 0xff);
  REQUIRE(call.device().output_bytes() == without);
}

TEST_CASE("an empty row is +0 and -inf, alone, in its group and in a group of its own",
          "[grouped]") {
  problem_spec spec = spec_of<qsa_policy>();
  spec.num_rows     = 27;
  host_problem p    = make_problem(spec);
  for (int row = 0; row < spec.num_rows; ++row) {
    // Group 1 is empty, the last row of the last group too.
    if (row / 8 == 1 || row % 5 == 0 || row == 26) {
      p.row_request[row] = -1;
    }
  }
  poison_unselected(p);
  grouped_run<qsa_policy> call(p);
  REQUIRE(call.run_faults() == "");
  std::vector<double> const out = call.device().out();
  std::vector<double> const lse = call.device().lse();
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::size_t const head = i / spec.head_dim;
    if (p.row_request[head / 6] < 0) {
      REQUIRE(pageunion::test::is_same_number(out[i], 0.0));
      REQUIRE(pageunion::test::is_minus_infinity(lse[head]));
    }
  }
}

TEST_CASE("Inf and NaN of V reach the rows that attend to them, and no others",
          "[grouped][special]") {
  host_problem const clean   = half_dense_problem();
  bool const are_in_one_step = GENERATE(true, false);
  CAPTURE(are_in_one_step);
  int const far  = are_in_one_step ? 9 : 160;
  host_problem p = clean;
  // Infinities of one sign, of both, and NaN; in elements of several warps.
  v_element(p, 5, 3)     = half_infinity;
  v_element(p, far, 3)   = half_infinity;
  v_element(p, 6, 70)    = half_infinity;
  v_element(p, far, 70)  = half_infinity | 0x8000;
  v_element(p, 7, 200)   = half_nan;
  v_element(p, far, 255) = half_infinity | 0x8000;
  std::vector<std::int32_t> const all{5, 6, 7, far};
  for (int row = 0; row < p.num_rows; row += 3) {
    // Every third row attends to none of them.
    for (std::int32_t const token : all) {
      std::replace(p.row(row), p.row(row) + p.width, token, -1);
    }
  }
  host_problem same_selection = clean;
  same_selection.entries      = p.entries;
  grouped_run<qsa_policy> finite(same_selection);
  grouped_run<qsa_policy> call(p);
  std::vector<unsigned char> const expected = finite.output_bytes();
  std::vector<unsigned char> const found    = call.output_bytes();
  REQUIRE(call.faults() == "");
  int const num_reached = require_reached_rows(call, found, expected, all);
  REQUIRE(num_reached > 4);
}

TEST_CASE("NaN and Inf of K reach the rows that attend to them, and no others",
          "[grouped][special]") {
  std::uint16_t const special = GENERATE(std::uint16_t{half_nan}, std::uint16_t{half_infinity});
  int const token             = GENERATE(5, 130);
  CAPTURE(special, token);
  host_problem const clean                  = half_dense_problem();
  std::vector<unsigned char> const expected = grouped_run<qsa_policy>(clean).output_bytes();
  host_problem p                            = clean;
  k_element(p, token, 77)                   = special;
  grouped_run<qsa_policy> call(p);
  std::vector<unsigned char> const found = call.output_bytes();
  // An infinite score of a head makes it NaN; one of -inf gives its token no weight.
  REQUIRE(call.faults() == "");
  int const num_reached = require_reached_rows(call, found, expected, {token});
  REQUIRE(num_reached > 4);
  REQUIRE(num_reached < p.num_rows - 4);
}

TEST_CASE("scores may grow along a row at any pace", "[grouped][softmax]") {
  // In base 2 and per token; a step has 128 tokens, and a reference is moved when it is outgrown by 8.
  float const slope = GENERATE(1.0f / 128, 1.0f / 16, 0.25f, 8.0f, -1.0f / 16, -8.0f);
  CAPTURE(slope);
  host_problem p = dense_problem<qsa_policy>(19, 700);
  p.scale        = std::log(2.0f);
  // Neighbouring heads and rows grow at another pace, fall, or stay.
  constexpr float paces[] = {1.0f, -1.0f, 0.5f, 0.0f, 2.0f, -0.25f, 0.75f};
  set_scores(
      p, [&](int row, int head) { return paces[(row * 6 + head) % 7]; },
      [&](int token) { return slope * static_cast<float>(token); });
  require_right<qsa_policy>(p);
  require_right<one_tile_policy>(p);
}

TEST_CASE("one token may exceed all others, wherever it is", "[grouped][softmax]") {
  int const token = GENERATE(0, 15, 16, 33, 127, 128, 300, 690);
  CAPTURE(token);
  host_problem p = dense_problem<qsa_policy>(10, 700);
  set_scores(
      p, [](int row, int head) { return 1.0f + static_cast<float>(row + head) / 8; },
      [&](int t) { return t == token ? 40.0f : static_cast<float>(t % 5); });
  require_right<qsa_policy>(p);
}

TEST_CASE("an infinite sum stays infinite however its weight shrinks",
          "[grouped][softmax][special]") {
  host_problem p = dense_problem<qsa_policy>(9, 700);
  p.scale        = std::log(2.0f);
  set_scores(
      p, [](int row, int) { return row % 2 == 0 ? 1.0f : -1.0f; },
      [](int token) { return 0.25f * static_cast<float>(token); });
  v_element(p, 2, 5)     = half_infinity;
  v_element(p, 650, 140) = half_infinity | 0x8000;
  require_right<qsa_policy>(p);
}

TEST_CASE("scores may be far from 0", "[grouped][softmax]") {
  float const key     = GENERATE(-50016.0f, 50016.0f, -65504.0f, 65504.0f);
  float const scale   = GENERATE(1.0f, -1.0f, 1e30f);
  log_base const base = GENERATE(log_base::natural, log_base::two);
  CAPTURE(key, scale, base);
  problem_spec spec = spec_of<qsa_policy>();
  spec.num_rows     = 10;
  spec.empty_rows   = 0.2;
  spec.lse_base     = base;
  host_problem p    = make_problem(spec);
  p.scale           = scale;
  set_scores(
      p, [](int, int) { return 2.0f; }, [&](int) { return key; });
  grouped_run<qsa_policy> call(p);
  REQUIRE(call.run_faults() == "");
  // All scores of a row are the same, so that its lse is known to a rounding of float.
  std::vector<double> const lse = call.device().lse();
  for (std::size_t i = 0; i < lse.size(); ++i) {
    auto const tokens = static_cast<double>(p.tokens_of(static_cast<int>(i / 6)).size());
    double const expected =
        (2.0 * static_cast<double>(key) * static_cast<double>(scale) + std::log(tokens)) *
        (base == log_base::two ? 1.4426950408889634 : 1.0);
    CAPTURE(i, lse[i], expected);
    if (tokens == 0) {
      REQUIRE(pageunion::test::is_minus_infinity(lse[i]));
    } else {
      REQUIRE(std::abs(lse[i] - expected) <= std::abs(expected) * 0x1p-21);
    }
  }
}

TEST_CASE("scale may be 0 or negative", "[grouped][softmax]") {
  host_problem p = half_dense_problem();
  p.scale        = GENERATE(0.0f, -0.0625f, -1.0f);
  CAPTURE(p.scale);
  require_right<qsa_policy>(p);
}

TEMPLATE_TEST_CASE("the same call gives the same bits", "[grouped][bits]", qsa_policy,
                   twelve_head_policy) {
  problem_spec spec  = spec_of<TestType>();
  spec.num_rows      = 21;
  spec.pages_per_row = 30;
  spec.token_density = 0.7;
  grouped_run<TestType> call(make_problem(spec));
  std::vector<unsigned char> const first = call.output_bytes();
  REQUIRE(call.output_bytes() == first);
}

TEST_CASE("a captured attention call replays with what the arrays hold then", "[grouped][graph]") {
  problem_spec spec   = spec_of<qsa_policy>();
  spec.num_rows       = 21;
  spec.width          = 40;
  auto const problems = problems_of_one_shape(spec);
  CHECK(grouped_run<qsa_policy>(problems[0]).replay_faults(problems) == "");
}

TEST_CASE("a bad argument is named, nothing is enqueued and outputs stay as they were",
          "[grouped][arguments]") {
  problem_spec spec = spec_of<qsa_policy>();
  spec.num_rows     = 20;
  spec.num_kv_heads = 2;
  grouped_run<qsa_policy> call(make_problem(spec));
  call.device().poison_outputs();
  // Only what is written is real: nothing may read or write anything.
  planned_arguments good = good_planned_arguments();
  good.out().data        = call.device().operands().out.data;
  good.lse().data        = call.device().operands().lse.data;
  auto const answer      = [](planned_arguments const& given) {
    return captured_answer([&](cudaStream_t stream) {
      return grouped_attention<qsa_policy>(given.rows.num_rows, given.operands, given.planned,
                                           stream);
    });
  };
  using args = planned_arguments&;
  std::vector<spoilt_call<planned_arguments>> const bad_plans{
      {"a group too few", status::invalid_plan_groups, [](args a) { --a.planned.num_groups; }},
      {"a group too many", status::invalid_plan_groups, [](args a) { ++a.planned.num_groups; }},
      {"no room", status::invalid_plan_capacity, [](args a) { a.planned.capacity = -4; }},
      {"half a tile", status::invalid_plan_capacity, [](args a) { a.planned.capacity += 2; }},
      {"no addresses", status::null_plan, [](args a) { a.planned.addresses = nullptr; }},
      {"no masks", status::null_plan, [](args a) { a.planned.masks = nullptr; }},
      {"no counts", status::null_plan, [](args a) { a.planned.num_pages = nullptr; }},
      {"addresses are at 8 bytes", status::misaligned_plan,
       [](args a) { move_bytes(a.planned.addresses, 8); }},
      {"masks are at 4 bytes", status::misaligned_plan,
       [](args a) { move_bytes(a.planned.masks, 4); }},
      {"counts are at 2 bytes", status::misaligned_plan,
       [](args a) { move_bytes(a.planned.num_pages, 2); }},
      {"out is the masks", status::overlapping_out, [](args a) { a.out().data = a.planned.masks; }},
      {"lse is the addresses", status::overlapping_lse,
       [](args a) { a.lse().data = alias<float>(a.planned.addresses); }},
      {"lse is in out", status::overlapping_out,
       [](args a) { a.lse().data = alias<float>(a.out().data) + 4; }},
      {"no rows, no plan", status::ok,
       [](args a) {
         a.rows.num_rows = 0;
         a.planned       = {};
       }},
  };
  check_answers(bad_blocks(), good, answer);
  check_answers(bad_operands(), good, answer);
  check_answers(bad_plans, good, answer);
  REQUIRE(call.device().is_output_untouched());
}
