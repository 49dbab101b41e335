// SPDX-License-Identifier: Apache-2.0
//! @file
//! How far a result may lie from the double-precision reference, and the comparison itself.
//!
//! The bound for the output of row r and head h, derived:
//!   out = sum p_t v_t / sum p_t, with p_t = exp(s_t - m) and a reference point m among the scores.
//!   (a) Each p_t is rounded to half: relative 2^-11, or absolute 2^-25 below the normal range of
//!       half. The sum of the exact p_t is at least 1, since one of them is m's own.
//!   (b) Scores are sums of head_dim products in float, truncated rather than rounded in a tensor
//!       core: |error| <= 2^-23 (head_dim + 8) scale sum |q_i k_i|, the eight for the scaling, the
//!       change to base 2 and the exponential; sum |q_i k_i| <= |q| |k| (Cauchy and Schwarz). It
//!       changes p_t relatively by as much, in numerator and denominator.
//!   (c) A half output is rounded: relative 2^-11.
//! A change of p_t moves out by at most its share times max |v|, so
//!   |error| <= max|v| (2^-11 + n 2^-25 + 2 score_error + 2^-11 if out is half + 2^-16),
//! with n tokens, and 2^-16 for float sums over n <= 8,192 tokens and the last division.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include <pageunion/operands.hpp>
#include <pageunion/reference.hpp>
#include <pageunion/selection.hpp>

namespace pageunion::test {

//! The project's requirement at the production geometry, on standard-normal input.
inline constexpr double required_relative_l2 = 5e-4;
inline constexpr double required_max_abs     = 5e-4;

//! The lse may be off by the larger of the two.
inline constexpr double lse_relative = 1e-4;
inline constexpr double lse_absolute = 1e-5;

//! Length and largest magnitude of a head's elements. Numbers that are not finite do not enter: they
//! decide NaN and inf, which are compared exactly.
struct vector_size {
  double norm      = 0.0;
  double magnitude = 0.0;
};

inline vector_size measure(__half const* data, std::int32_t head_dim) {
  double squares = 0.0;
  vector_size size;
  for (std::int32_t d = 0; d < head_dim; ++d) {
    double const value = detail::reference_value(data[d]);
    if (std::isfinite(value)) {
      squares += value * value;
      size.magnitude = std::max(size.magnitude, std::abs(value));
    }
  }
  size.norm = std::sqrt(squares);
  return size;
}

//! The bound above for some rows, [sampled rows, num_heads]. Views of host memory.
inline std::vector<double> output_bounds(batch const& rows, selection const& selected,
                                         attention_operands const& operands, int page_tokens,
                                         std::vector<std::int32_t> const& sampled) {
  query_view const& q          = operands.q;
  kv_cache const& cache        = operands.cache;
  double const half_rounding   = 0x1p-11;
  double const output_rounding = operands.out.type == element_type::f16 ? half_rounding : 0.0;
  double const scale           = std::abs(static_cast<double>(operands.scale));

  std::vector<double> bounds;
  for (std::int32_t const row : sampled) {
    auto const tokens = reference_tokens(rows, selected, cache, page_tokens, row);
    std::vector<double> longest_k(static_cast<std::size_t>(cache.num_kv_heads));
    std::vector<double> largest_v(static_cast<std::size_t>(cache.num_kv_heads));
    for (std::int32_t const token : tokens) {
      std::int64_t const entry =
          rows.row_request[row] * cache.blocks.row_stride + token / cache.block_tokens;
      std::int32_t const block = cache.blocks.table[entry];
      std::int32_t const slot  = token % cache.block_tokens;
      for (std::int32_t g = 0; g < cache.num_kv_heads; ++g) {
        __half const* const k = cache.k + kv_offset(cache.k_strides, block, slot, g);
        __half const* const v = cache.v + kv_offset(cache.v_strides, block, slot, g);
        auto const i          = static_cast<std::size_t>(g);
        longest_k[i]          = std::max(longest_k[i], measure(k, q.head_dim).norm);
        largest_v[i]          = std::max(largest_v[i], measure(v, q.head_dim).magnitude);
      }
    }
    for (std::int32_t h = 0; h < q.num_heads; ++h) {
      __half const* const query = q.data + row * q.row_stride + h * q.head_stride;
      auto const g              = static_cast<std::size_t>(h / (q.num_heads / cache.num_kv_heads));
      double const score_error =
          0x1p-23 * (q.head_dim + 8) * scale * measure(query, q.head_dim).norm * longest_k[g];
      bounds.push_back(largest_v[g] *
                       (half_rounding + static_cast<double>(tokens.size()) * 0x1p-25 +
                        2.0 * score_error + output_rounding + 0x1p-16));
    }
  }
  return bounds;
}

//! The outcome of a comparison.
struct comparison {
  double max_abs     = 0.0;  //!< largest absolute error
  double relative_l2 = 0.0;  //!< |actual - expected| / |expected|, over finite elements
  double worst_share = 0.0;  //!< largest error as a share of its bound; 1 is the limit
  std::string failure;       //!< the first element out of bounds; empty if all are inside

  bool is_within_bounds() const { return failure.empty(); }
};

//! True if both are NaN, or the same infinity, or both finite.
inline bool is_same_kind(double actual, double expected) {
  if (std::isfinite(actual) || std::isfinite(expected)) {
    return std::isfinite(actual) && std::isfinite(expected);
  }
  return std::isnan(actual) == std::isnan(expected) && (std::isnan(actual) || actual == expected);
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
    } else if (std::isfinite(expected[i])) {
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
                                  std::vector<double> const& bounds, int head_dim) {
  return compare(actual, expected,
                 [&](std::size_t i) { return bounds[i / static_cast<std::size_t>(head_dim)]; });
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
    double const magnitude = std::isfinite(expected[i]) ? std::abs(expected[i]) : 0.0;
    return std::max(lse_absolute, lse_relative * magnitude);
  });
}

}  // namespace pageunion::test
