// SPDX-License-Identifier: Apache-2.0
//! @file
//! Which pages the rows of one request choose. bench/README.md, Workloads, says why like this.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "problem.hpp"
#include "random.hpp"

namespace pageunion::test {

//! Integer hash "lowbias32" by Chris Wellons (public domain): every output bit depends on every
//! input bit.
constexpr std::uint32_t hash(std::uint32_t x) {
  x ^= x >> 16;
  x *= 0x7feb352du;
  x ^= x >> 15;
  x *= 0x846ca68bu;
  x ^= x >> 16;
  return x;
}

//! Nearly normal, mean 0, deviation 1: four uniform 16-bit numbers of a hash pair, summed. Scores are
//! sums of several of these, which is close enough to normal for a choice of the best.
inline float noise(std::uint32_t seed, std::uint32_t counter) {
  std::uint32_t const a = hash(counter ^ seed);
  std::uint32_t const b = hash(a ^ 0x9e3779b9u);
  auto const sum = static_cast<std::int32_t>((a & 0xffffu) + (a >> 16) + (b & 0xffffu) + (b >> 16));
  constexpr float mean      = 2.0f * 65535.0f;
  constexpr float per_sigma = 1.7320508f / 65536.0f;  // four of variance 65536^2 / 12
  return (static_cast<float>(sum) - mean) * per_sigma;
}

//! Chooses the pages of the rows of one request, in the order of their positions.
class page_chooser {
 public:
  //! @param num_pages whole pages of the request
  page_chooser(problem_spec const& spec, std::int32_t num_pages, std::uint32_t seed)
      : pattern_(spec.pattern),
        seed_(seed),
        rho_(static_cast<float>(spec.rho)),
        fresh_(static_cast<float>(std::sqrt(1.0 - spec.rho * spec.rho))),
        wanted_(spec.pages_per_row),
        fixed_(num_pages),
        moving_(num_pages),
        score_(num_pages) {
    for (std::int32_t page = 0; page < num_pages; ++page) {
      auto const counter = static_cast<std::uint32_t>(page) * 4;
      float sum          = 0.0f;
      for (std::uint32_t i = 0; i < 4; ++i) {
        sum += noise(hash(seed + 1), counter + i);
      }
      fixed_[page]  = 0.5f * fixed_deviation * sum;
      moving_[page] = noise(hash(seed + 2), counter);
    }
  }

  //! Pages of the next row, ascending.
  //! @param num_visible whole pages that the row can see; it does not fall from row to row
  std::vector<std::int32_t> choose(std::int32_t num_visible) {
    std::uint32_t const row = num_rows_++;
    if (pattern_ == page_pattern::disjoint) {
      return slice(row, num_visible);
    }
    auto const counter = static_cast<std::uint32_t>(row * score_.size());
    bool const drifts  = pattern_ == page_pattern::drifting;
    for (std::size_t page = 0; page < score_.size(); ++page) {
      if (drifts) {
        moving_[page] = rho_ * moving_[page] +
                        fresh_ * noise(seed_, counter + static_cast<std::uint32_t>(page));
      }
      score_[page] = fixed_[page] + moving_[page];
    }
    return best(num_visible);
  }

 private:
  //! Deviation of the part of a page's score that does not change.
  static constexpr float fixed_deviation = 0.7f;

  //! The wanted pages of highest score among those visible.
  std::vector<std::int32_t> best(std::int32_t num_visible) {
    std::vector<std::int32_t> pages(num_visible);
    std::iota(pages.begin(), pages.end(), 0);
    if (num_visible <= wanted_ || wanted_ == 0) {
      pages.resize(std::min(num_visible, wanted_));
      return pages;
    }
    sorted_.assign(score_.begin(), score_.begin() + num_visible);
    auto const last = sorted_.begin() + (wanted_ - 1);
    std::nth_element(sorted_.begin(), last, sorted_.end(), std::greater<float>());
    auto ties           = std::count(sorted_.begin(), last + 1, *last);
    auto const is_worse = [&](std::int32_t page) {
      return score_[page] < *last || (score_[page] == *last && ties-- <= 0);
    };
    pages.erase(std::remove_if(pages.begin(), pages.end(), is_worse), pages.end());
    return pages;
  }

  //! Rows take turns through slices of one permutation of the pages that the first row can see: a row
  //! meets its slice again only after every other slice had its turn.
  std::vector<std::int32_t> slice(std::uint32_t row, std::int32_t num_visible) {
    if (row == 0) {
      permuted_.resize(num_visible);
      std::iota(permuted_.begin(), permuted_.end(), 0);
      random_source(seed_).shuffle(permuted_);
    }
    auto const size           = static_cast<std::int32_t>(permuted_.size());
    std::int32_t const slices = std::max(1, size / std::max(wanted_, 1));
    std::int32_t const begin  = static_cast<std::int32_t>(row % slices) * wanted_;
    std::int32_t const end    = std::min(begin + wanted_, size);
    std::vector<std::int32_t> pages(permuted_.begin() + begin, permuted_.begin() + end);
    std::sort(pages.begin(), pages.end());
    return pages;
  }

  page_pattern pattern_;
  std::uint32_t seed_;
  float rho_;
  float fresh_;
  std::int32_t wanted_;
  std::uint32_t num_rows_ = 0;
  std::vector<float> fixed_;   //!< [pages]
  std::vector<float> moving_;  //!< [pages], deviation 1
  std::vector<float> score_;   //!< [pages]
  std::vector<float> sorted_;
  std::vector<std::int32_t> permuted_;
};

}  // namespace pageunion::test
