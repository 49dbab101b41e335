// SPDX-License-Identifier: Apache-2.0
//! @file
//! The bounds of device results: wide enough for the roundings that they are derived from, and too
//! narrow for a wrong result.
#include "support/tolerance.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "support/catch.hpp"
#include "support/make_problem.hpp"

namespace {

using namespace pageunion;
using namespace pageunion::test;

constexpr double infinity     = std::numeric_limits<double>::infinity();
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

double to_half(double value) { return half_value(half_bits(static_cast<float>(value))); }

//! The attention of a problem with probabilities and output rounded to half.
//! @param is_largest subtract the largest score before the exponential; otherwise the first one
std::vector<double> attention_in_halves(host_problem const& p, bool is_largest) {
  std::vector<double> result;
  int const dim = p.head_dim;
  for (int row = 0; row < p.num_rows; ++row) {
    auto const tokens = p.tokens_of(row);
    int const request = p.row_request[row];
    for (int h = 0; h < p.num_heads(); ++h) {
      std::vector<double> scores;
      for (std::int32_t const token : tokens) {
        auto const k = element_of(p, p.k_strides, request, token, 0);
        float score  = 0.0f;
        for (int d = 0; d < dim; ++d) {
          auto const q = static_cast<std::size_t>(row * p.q_row_stride + h * p.q_head_stride + d);
          score += static_cast<float>(half_value(p.q_data[q]) * half_value(p.k_data[k + d]));
        }
        scores.push_back(static_cast<double>(score * p.scale));
      }
      double anchor = scores.at(0);
      for (double const score : scores) {
        anchor = is_largest ? std::max(anchor, score) : anchor;
      }
      double sum = 0.0;
      std::vector<double> out(static_cast<std::size_t>(dim));
      for (std::size_t i = 0; i < tokens.size(); ++i) {
        double const weight = std::exp(scores[i] - anchor);
        sum += weight;
        auto const v = element_of(p, p.v_strides, request, tokens[i], 0);
        for (int d = 0; d < dim; ++d) {
          out[d] += to_half(weight) * half_value(p.v_data[v + d]);
        }
      }
      for (double const element : out) {
        result.push_back(p.out_type == element_type::f16 ? to_half(element / sum) : element / sum);
      }
    }
  }
  return result;
}

//! Rows of 2,051 tokens at most, as in production.
host_problem production_problem(element_type out_type, int num_rows) {
  problem_spec spec;
  spec.num_rows      = num_rows;
  spec.lengths       = {3000};
  spec.pages_per_row = 512;
  spec.out_type      = out_type;
  spec.unselected    = cache_fill::values;
  return make_problem(spec);
}

}  // namespace

TEST_CASE("the bound admits the roundings it is derived from, and little more", "[tolerance]") {
  problem_spec spec;
  spec.num_rows         = 12;
  spec.pages_per_row    = GENERATE(1, 40);
  spec.lengths          = {600};
  spec.out_type         = GENERATE(element_type::f16, element_type::f32);
  bool const is_largest = GENERATE(false, true);
  CAPTURE(spec.pages_per_row, spec.out_type, is_largest);
  host_problem const p = make_problem(spec);

  auto const expected      = p.reference();
  auto const bounds        = bounds_of(p, expected);
  auto const actual        = attention_in_halves(p, is_largest);
  comparison const outcome = compare_outputs(actual, expected.out, bounds, spec.head_dim);
  CHECK(outcome.failure == "");
  CHECK(outcome.worst_share > 0.01);
  CHECK(outcome.worst_head > 0.05);
  CHECK(outcome.worst_head < 0.6);
  CHECK(outcome.relative_l2 < required_relative_l2);

  SECTION("a lost token is seen") {
    host_problem spoilt = p;
    spoilt.entries[0]   = -1;
    CHECK_FALSE(compare_outputs(spoilt.reference().out, expected.out, bounds, spec.head_dim)
                    .is_within_bounds());
  }
  SECTION("another row's result is seen") {
    std::vector<double> rotated = actual;
    std::rotate(rotated.begin(), rotated.begin() + 6 * spec.head_dim, rotated.end());
    CHECK_FALSE(compare_outputs(rotated, expected.out, bounds, spec.head_dim).is_within_bounds());
  }
}

TEST_CASE("at the production geometry the roundings meet the project's requirement",
          "[tolerance]") {
  bool const is_largest    = GENERATE(false, true);
  host_problem const p     = production_problem(element_type::f16, 3);
  auto const expected      = p.reference();
  comparison const outcome = compare_outputs(attention_in_halves(p, is_largest), expected.out,
                                             bounds_of(p, expected), p.head_dim);
  CHECK(outcome.failure == "");
  CHECK(outcome.worst_head > 0.05);
  CHECK(outcome.worst_head < 0.2);
  CHECK(outcome.relative_l2 < required_relative_l2);
  CHECK(outcome.max_abs < required_max_abs);
}

TEST_CASE("one lost token and one foreign token are seen at the production geometry",
          "[tolerance]") {
  element_type const out_type = GENERATE(element_type::f16, element_type::f32);
  CAPTURE(out_type);
  host_problem const p = production_problem(out_type, 1);
  auto const expected  = p.reference();
  auto const bounds    = bounds_of(p, expected);
  auto const tokens    = p.tokens_of(0);
  REQUIRE(tokens.size() >= 2048);
  auto const is_seen = [&](host_problem const& spoilt) {
    return !compare_outputs(spoilt.reference().out, expected.out, bounds, p.head_dim)
                .is_within_bounds();
  };
  for (std::size_t i = 0; i < 40; ++i) {
    CAPTURE(i);
    host_problem lost       = p;
    lost.entries[i * 50]    = -1;
    host_problem foreign    = p;
    std::int32_t not_chosen = static_cast<std::int32_t>(i) * 70;
    while (std::binary_search(tokens.begin(), tokens.end(), not_chosen)) {
      ++not_chosen;
    }
    foreign.entries.push_back(not_chosen);
    ++foreign.width;
    ++foreign.entry_stride;
    REQUIRE(foreign.tokens_of(0).size() == tokens.size() + 1);
    CHECK(is_seen(lost));
    CHECK(is_seen(foreign));
  }
}

TEST_CASE("the bound of a head's length admits what tokens have in common", "[tolerance]") {
  // Values of all tokens the same, or two opposite ones in turn, and weights of few kinds.
  bool const are_opposite = GENERATE(false, true);
  int const num_kinds     = GENERATE(1, 2, 7);
  bool const is_largest   = GENERATE(false, true);
  CAPTURE(are_opposite, num_kinds, is_largest);
  problem_spec spec;
  spec.num_rows      = 4;
  spec.lengths       = {600};
  spec.pages_per_row = GENERATE(1, 40);
  spec.unselected    = cache_fill::values;
  host_problem p     = make_problem(spec);
  for (int token = 0; token < 600; ++token) {
    auto const k = element_of(p, p.k_strides, 0, token, 0);
    auto const v = element_of(p, p.v_strides, 0, token, 0);
    // Opposite values in pairs of the same weight.
    float const sign = are_opposite && token % 2 == 1 ? -1.0f : 1.0f;
    float const kind = 0.3f * static_cast<float>(token / 2 % num_kinds);
    for (int d = 0; d < spec.head_dim; ++d) {
      p.k_data[k + d]   = half_bits(d == 0 ? kind : 0.0f);
      v_begin(p)[v + d] = half_bits(sign * (1.0f + static_cast<float>(d) / 300));
    }
  }
  auto const expected = p.reference();
  CHECK(compare_outputs(attention_in_halves(p, is_largest), expected.out, bounds_of(p, expected),
                        spec.head_dim)
            .failure == "");
}

TEST_CASE("without score errors the bound still admits a half output", "[tolerance]") {
  problem_spec spec;
  spec.num_rows            = 12;
  spec.pages_per_row       = 1;
  host_problem p           = make_problem(spec);
  p.scale                  = 0.0f;
  auto const expected      = p.reference();
  comparison const outcome = compare_outputs(attention_in_halves(p, true), expected.out,
                                             bounds_of(p, expected), spec.head_dim);
  CHECK(outcome.failure == "");
  CHECK(outcome.worst_share > 0.1);
}

TEST_CASE("an empty row allows no error", "[tolerance]") {
  problem_spec spec;
  spec.empty_rows      = 1.0;
  host_problem const p = make_problem(spec);
  for (output_bound const& bound : bounds_of(p, p.reference())) {
    REQUIRE(bound.element == 0.0);
    REQUIRE(bound.length == 0.0);
  }
}

TEST_CASE("NaN and infinity must be at the same places", "[tolerance]") {
  auto const is_equal = [](double actual, double expected) {
    return compare({actual}, {expected}, [](std::size_t) { return 1e30; }).is_within_bounds();
  };
  CHECK(is_equal(not_a_number, not_a_number));
  CHECK(is_equal(infinity, infinity));
  CHECK(is_equal(1.0, 2.0));
  CHECK_FALSE(is_equal(infinity, -infinity));
  CHECK_FALSE(is_equal(not_a_number, infinity));
  CHECK_FALSE(is_equal(infinity, not_a_number));
  CHECK_FALSE(is_equal(not_a_number, 0.0));
  CHECK_FALSE(is_equal(0.0, not_a_number));
  CHECK_FALSE(is_equal(1e300, infinity));
}

TEST_CASE("sizes must agree", "[tolerance]") {
  CHECK_FALSE(compare({1.0}, {1.0, 1.0}, [](std::size_t) { return 1.0; }).is_within_bounds());
}

TEST_CASE("lse is compared in the base that was asked for", "[tolerance]") {
  std::vector<double> const natural{10.0, -infinity, 0.0};
  std::vector<double> const two{10.0 / std::log(2.0), -infinity, 0.0};
  CHECK(compare_lse(natural, natural, log_base::natural).is_within_bounds());
  CHECK(compare_lse(two, natural, log_base::two).is_within_bounds());
  CHECK_FALSE(compare_lse(natural, natural, log_base::two).is_within_bounds());

  auto const is_admitted = [](double actual, double expected) {
    return compare_lse({actual}, {expected}, log_base::natural).is_within_bounds();
  };
  CHECK(is_admitted(10.0009, 10.0));
  CHECK_FALSE(is_admitted(10.0011, 10.0));
  CHECK(is_admitted(9e-6, 0.0));
  CHECK_FALSE(is_admitted(1.1e-5, 0.0));
}
