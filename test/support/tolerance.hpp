// SPDX-License-Identifier: Apache-2.0
//! @file
//! How far a result may lie from the double-precision reference, and the comparison itself.
//!
//! The bounds for the output of row r and head h, derived:
//!   out = sum w_t v_t, with w_t = p_t / sum p_t, p_t = exp(s_t - m) and a reference point m among the
//!   scores.
//!   (a) Each p_t is rounded to half for the product with v_t: relative 2^-11, or absolute 2^-25 below
//!       the normal range of half. The largest p_t is at least 1, so w_t is off by at most
//!       2^-11 max(w_t, 2^-14 max w).
//!   (b) Scores are sums of head_dim products in float, truncated rather than rounded in a tensor core,
//!       which aligns several products and the sum so far at once: s_t is off by at most
//!       e_t = 2^-22 scale (sum_i (|x_i| + |x_1 + ... + x_i|) + 8 |q k|), with x_i = q_i k_i, the eight
//!       for the scaling, the change to base 2 and the exponential. w_t is off relatively by as much
//!       in numerator and denominator.
//!   (c) A half output is rounded: relative 2^-11, or absolute 2^-25.
//!   (d) Float sums over n <= 8,192 tokens and the last division: 2^-16.
//!
//! One element: a change of p_t moves it by at most its share times max |v|, so
//!   |error| <= max|v| (2^-11 + n 2^-25 + 2 max e_t + 2^-16), + 2^-11 max|v| + 2^-25 if out is half.
//!
//! All elements of a head together, by the length (L2) of their error. Were all roundings to conspire,
//!   d_t = (2^-11 max(w_t, 2^-14 max w) + e_t w_t) |v_t|
//! would add up, and at 2,051 tokens the bound would exceed the share of a token, so that a lost one
//! went unseen. What tokens have in common does not add up like that: one relative error of all weights
//! is one of out. What is left has either roundings or values that know nothing of each other from
//! token to token (unless a test makes both of few kinds that cancel), so that squares add up. A
//! rounding to half is uniform within its limit, hence of variance 1/3 of the limit's square and not
//! heavier in its tails than a normal number: a multiple c = 3 of the root of the sum of squares is 5.2
//! deviations if all v_t lie on one line, which is the worst case (Hsu, Kakade and Zhang,
//! arXiv:1110.2842), and far more in 256 dimensions: with normal numbers the error comes to
//! a tenth of the bound, and five of six single tokens of 2,051 exceed it in any one head.
//!   |error| <= min(sum d_t, 2^-11 |out| + c sqrt(sum d_t^2)) + |out| sum e_t w_t
//!              + 2^-16 sum w_t |v_t|, + 2^-11 |out| + 2^-25 sqrt(head_dim) if out is half.
//! With few tokens the first of the two is the smaller one, and nothing is left to chance.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

#include <pageunion/operands.hpp>
#include <pageunion/reference.hpp>
#include <pageunion/selection.hpp>

#include "double_bits.hpp"
#include "problem.hpp"

namespace pageunion::test {

//! The project's requirement at the production geometry, on standard-normal input: of all elements
//! together, and of each.
inline constexpr double required_relative_l2 = 5e-4;
inline constexpr double required_max_abs     = 5e-4;

//! The lse may be off by the larger of the two.
inline constexpr double lse_relative = 1e-4;
inline constexpr double lse_absolute = 1e-5;

//! How far a head's output may lie from the reference.
struct output_bound {
  double element = 0.0;  //!< each element
  double length  = 0.0;  //!< all elements together: the length of their error
};

//! A token as a head sees it.
struct weighted_token {
  double weight      = 0.0;  //!< in exact arithmetic
  double score_error = 0.0;  //!< e_t above
  double v_length    = 0.0;
  double v_magnitude = 0.0;  //!< of V's largest element
};

//! A head's elements as double.
inline std::vector<double> widened(__half const* data, std::int32_t head_dim) {
  std::vector<double> wide(static_cast<std::size_t>(head_dim));
  detail::reference_widen(data, head_dim, wide.data());
  return wide;
}

//! A token's weight and score error by a query, a key, and the lse that the reference gives. A weight that
//! is NaN does not enter.
inline void weigh(std::vector<double> const& q, std::vector<double> const& k, double scale,
                  double lse, weighted_token& token) {
  double sum = 0.0, steps = 0.0;
  for (std::size_t d = 0; d < q.size(); ++d) {
    double const product = q[d] * k[d];
    sum += product;
    steps += std::abs(product) + std::abs(sum);
  }
  double const weight = std::exp(scale * sum - lse);
  token.weight        = is_finite(weight) ? weight : 0.0;
  token.score_error   = 0x1p-22 * std::abs(scale) * (steps + 8.0 * std::abs(sum));
}

//! Measures V. Numbers that are not finite do not enter: they decide NaN and inf, which are compared
//! exactly.
inline void measure_v(std::vector<double> const& v, weighted_token& token) {
  double squares = 0.0;
  for (double const value : v) {
    if (is_finite(value)) {
      squares += value * value;
      token.v_magnitude = std::max(token.v_magnitude, std::abs(value));
    }
  }
  token.v_length = std::sqrt(squares);
}

//! The bounds above for one head.
//! @param out_length length of the reference's output
inline output_bound bound_of(std::vector<weighted_token> const& tokens, double out_length,
                             element_type out_type, std::int32_t head_dim) {
  constexpr double c             = 3.0;
  constexpr double half_rounding = 0x1p-11;
  constexpr double float_sums    = 0x1p-16;
  double const output_rounding   = out_type == element_type::f16 ? half_rounding : 0.0;
  double const smallest_output   = out_type == element_type::f16 ? 0x1p-25 : 0.0;
  double largest_weight = 0.0, largest_error = 0.0, largest_v = 0.0;
  for (weighted_token const& token : tokens) {
    largest_weight = std::max(largest_weight, token.weight);
    // A score of -inf gives its token no weight, whatever its error is.
    largest_error = token.weight > 0.0 ? std::max(largest_error, token.score_error) : largest_error;
    largest_v     = std::max(largest_v, token.v_magnitude);
  }
  double sum = 0.0, squares = 0.0, drift = 0.0, mass = 0.0;
  for (weighted_token const& token : tokens) {
    double const moved   = token.weight > 0.0 ? token.score_error * token.weight : 0.0;
    double const rounded = half_rounding * std::max(token.weight, 0x1p-14 * largest_weight);
    double const share   = (rounded + moved) * token.v_length;
    sum += share;
    squares += share * share;
    drift += moved;
    mass += token.weight * token.v_length;
  }
  output_bound bound;
  bound.element = largest_v * (half_rounding + static_cast<double>(tokens.size()) * 0x1p-25 +
                               2.0 * largest_error + output_rounding + float_sums) +
                  smallest_output;
  bound.length = std::min(sum, half_rounding * out_length + c * std::sqrt(squares)) +
                 (drift + output_rounding) * out_length +
                 smallest_output * std::sqrt(static_cast<double>(head_dim)) + float_sums * mass;
  return bound;
}

//! Length of a head's finite elements.
inline double length_of(double const* elements, std::int32_t head_dim) {
  double squares = 0.0;
  for (std::int32_t d = 0; d < head_dim; ++d) {
    squares += is_finite(elements[d]) ? elements[d] * elements[d] : 0.0;
  }
  return std::sqrt(squares);
}

//! The bounds above for some rows, [sampled rows, num_heads]. Views of host memory. An empty row allows
//! no error.
//! @param expected the reference's results of these rows
inline std::vector<output_bound> output_bounds(batch const& rows, selection const& selected,
                                               attention_operands const& operands, int page_tokens,
                                               std::vector<std::int32_t> const& sampled,
                                               reference_result const& expected) {
  query_view const& q       = operands.q;
  kv_cache const& cache     = operands.cache;
  std::int32_t const per_kv = q.num_heads / cache.num_kv_heads;
  auto const num_heads      = static_cast<std::size_t>(q.num_heads);
  double const scale        = static_cast<double>(operands.scale);
  std::vector<output_bound> bounds(sampled.size() * num_heads);
  for (std::size_t i = 0; i < sampled.size(); ++i) {
    std::int32_t const row = sampled[i];
    auto const tokens      = reference_tokens(rows, selected, cache, page_tokens, row);
    if (tokens.empty()) {
      continue;
    }
    std::vector<std::vector<double>> queries;
    for (std::int32_t h = 0; h < q.num_heads; ++h) {
      queries.push_back(widened(q.data + row * q.row_stride + h * q.head_stride, q.head_dim));
    }
    std::vector<std::vector<weighted_token>> seen(num_heads);
    for (std::int32_t const token : tokens) {
      std::int64_t const entry =
          rows.row_request[row] * cache.blocks.row_stride + token / cache.block_tokens;
      std::int32_t const block = cache.blocks.table[entry];
      std::int32_t const slot  = token % cache.block_tokens;
      for (std::int32_t g = 0; g < cache.num_kv_heads; ++g) {
        auto const k = widened(
            static_cast<__half const*>(cache.k) + kv_offset(cache.k_strides, block, slot, g),
            q.head_dim);
        auto const v = widened(
            static_cast<__half const*>(cache.v) + kv_offset(cache.v_strides, block, slot, g),
            q.head_dim);
        weighted_token of_head;
        measure_v(v, of_head);
        for (auto h = static_cast<std::size_t>(g * per_kv);
             h < static_cast<std::size_t>((g + 1) * per_kv); ++h) {
          weigh(queries[h], k, scale, expected.lse[i * num_heads + h], of_head);
          seen[h].push_back(of_head);
        }
      }
    }
    for (std::size_t h = 0; h < num_heads; ++h) {
      std::size_t const head   = i * num_heads + h;
      double const* const from = expected.out.data() + head * static_cast<std::size_t>(q.head_dim);
      bounds[head] = bound_of(seen[h], length_of(from, q.head_dim), operands.out.type, q.head_dim);
    }
  }
  return bounds;
}

inline std::vector<std::int32_t> all_rows(host_problem const& p) {
  std::vector<std::int32_t> rows(p.num_rows);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

//! The bounds of a problem's output, all rows.
inline std::vector<output_bound> bounds_of(host_problem const& p,
                                           reference_result const& expected) {
  return output_bounds(p.rows(), p.selected(), p.operands(), p.page_tokens, all_rows(p), expected);
}

//! The outcome of a comparison.
struct comparison {
  double max_abs     = 0.0;  //!< largest absolute error
  double relative_l2 = 0.0;  //!< |actual - expected| / |expected|, over finite elements
  double worst_share = 0.0;  //!< largest error as a share of its bound; 1 is the limit
  double worst_head  = 0.0;  //!< the same of the length of a head's error
  std::string failure;       //!< the first element or head out of bounds; empty if all are inside

  bool is_within_bounds() const { return failure.empty(); }
};

//! True if both are NaN, or the same infinity, or both finite.
inline bool is_same_kind(double actual, double expected) {
  if (is_finite(actual) || is_finite(expected)) {
    return is_finite(actual) && is_finite(expected);
  }
  return is_nan(actual) == is_nan(expected) && (is_nan(actual) || is_same_number(actual, expected));
}

//! Compares element by element. Positions of NaN and infinity must agree exactly.
//! @param bound_of bound_of(i) is the largest error allowed of element i
template <class BoundOf>
comparison compare(std::vector<double> const& actual, std::vector<double> const& expected,
                   BoundOf bound_of) {
  comparison result;
  if (actual.size() != expected.size()) {
    result.failure = "the sizes differ";
    return result;
  }
  double error_squares = 0.0, squares = 0.0;
  for (std::size_t i = 0; i < actual.size(); ++i) {
    double const bound = bound_of(i);
    double error       = 0.0;
    if (!is_same_kind(actual[i], expected[i])) {
      error = std::numeric_limits<double>::infinity();
    } else if (is_finite(expected[i])) {
      error = std::abs(actual[i] - expected[i]);
      error_squares += error * error;
      squares += expected[i] * expected[i];
    }
    result.max_abs = std::max(result.max_abs, error);
    if (error > 0.0) {
      result.worst_share = std::max(result.worst_share, error / bound);
    }
    if (error > bound && result.failure.empty()) {
      std::ostringstream text;
      text << "element " << i << ": " << actual[i] << ", expected " << expected[i] << " within "
           << bound;
      result.failure = text.str();
    }
  }
  result.relative_l2 = squares > 0.0 ? std::sqrt(error_squares / squares) : 0.0;
  return result;
}

//! Compares outputs, [rows, num_heads, head_dim], with output_bounds() of the same rows.
inline comparison compare_outputs(std::vector<double> const& actual,
                                  std::vector<double> const& expected,
                                  std::vector<output_bound> const& bounds, int head_dim) {
  auto const dims = static_cast<std::size_t>(head_dim);
  comparison result =
      compare(actual, expected, [&](std::size_t i) { return bounds[i / dims].element; });
  for (std::size_t head = 0; head < bounds.size() && (head + 1) * dims <= actual.size(); ++head) {
    double squares = 0.0;
    for (std::size_t i = head * dims; i < (head + 1) * dims; ++i) {
      double const error = actual[i] - expected[i];
      squares += is_finite(error) ? error * error : 0.0;  // compare() saw those that are not
    }
    double const error = std::sqrt(squares);
    if (error > 0.0) {
      result.worst_head = std::max(result.worst_head, error / bounds[head].length);
    }
    if (error > bounds[head].length && result.failure.empty()) {
      std::ostringstream text;
      text << "head " << head << ": an error of length " << error << ", not within "
           << bounds[head].length;
      result.failure = text.str();
    }
  }
  return result;
}

//! Compares lse, [rows, num_heads].
//! @param actual   in this base
//! @param expected natural, as the reference gives it
inline comparison compare_lse(std::vector<double> const& actual, std::vector<double> expected,
                              log_base base) {
  for (double& value : expected) {
    value *= base == log_base::two ? 1.4426950408889634 : 1.0;
  }
  return compare(actual, expected, [&](std::size_t i) {
    double const magnitude = is_finite(expected[i]) ? std::abs(expected[i]) : 0.0;
    return std::max(lse_absolute, lse_relative * magnitude);
  });
}

}  // namespace pageunion::test
