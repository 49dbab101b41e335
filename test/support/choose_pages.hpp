// SPDX-License-Identifier: Apache-2.0
//! @file
//! Which pages the rows of one request choose, and how much neighbouring rows' choices overlap.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

#include "problem.hpp"
#include "random.hpp"

namespace pageunion::test {

//! Chooses the pages of the rows of one request, in the order of their positions.
class page_chooser {
 public:
  //! @param num_pages whole pages of the request
  page_chooser(problem_spec const& spec, std::int32_t num_pages, std::uint64_t seed)
      : pattern_(spec.pattern),
        columns_(spec.columns),
        rho_(static_cast<float>(spec.rho)),
        pages_per_row_(spec.pages_per_row),
        normal_(seed),
        source_(seed + 1),
        fixed_(static_cast<std::size_t>(num_pages)),
        moving_(static_cast<std::size_t>(num_pages)),
        score_(static_cast<std::size_t>(num_pages)) {
    for (std::size_t page = 0; page < fixed_.size(); ++page) {
      fixed_[page]  = fixed_deviation * normal_.next();
      moving_[page] = normal_.next();
    }
  }

  //! Pages of the next row, each once.
  //! @param num_visible whole pages that the row can see; it does not fall from row to row
  std::vector<std::int32_t> choose(std::int32_t num_visible) {
    if (pattern_ == page_pattern::drifting) {
      float const fresh = std::sqrt(1.0f - rho_ * rho_);
      for (float& moving : moving_) {
        moving = rho_ * moving + fresh * normal_.next();
      }
    }
    std::vector<std::int32_t> pages;
    if (pattern_ == page_pattern::disjoint) {
      std::int32_t const num_sets = std::max(num_visible / std::max(pages_per_row_, 1), 1);
      for (std::int32_t page = num_rows_ % num_sets; page < num_visible; page += num_sets) {
        pages.push_back(page);
      }
    } else {
      pages.resize(static_cast<std::size_t>(num_visible));
      std::iota(pages.begin(), pages.end(), 0);
    }
    ++num_rows_;
    keep_best(pages);
    if (columns_ == column_order::ascending) {
      std::sort(pages.begin(), pages.end());
    } else {
      source_.shuffle(pages);
    }
    return pages;
  }

 private:
  //! Deviation of the part of a page's score that does not change (bench/README.md, Workloads).
  static constexpr float fixed_deviation = 0.7f;

  void keep_best(std::vector<std::int32_t>& pages) {
    std::size_t const num_kept = static_cast<std::size_t>(pages_per_row_);
    if (pages.size() <= num_kept) {
      return;
    }
    for (std::size_t page = 0; page < score_.size(); ++page) {
      score_[page] = fixed_[page] + moving_[page];
    }
    auto const is_better = [&](std::int32_t a, std::int32_t b) {
      return score_[static_cast<std::size_t>(a)] > score_[static_cast<std::size_t>(b)];
    };
    std::nth_element(pages.begin(), pages.begin() + pages_per_row_, pages.end(), is_better);
    pages.resize(num_kept);
  }

  page_pattern pattern_;
  column_order columns_;
  float rho_;
  std::int32_t pages_per_row_;
  normal_source normal_;
  random_source source_;
  std::int32_t num_rows_ = 0;
  std::vector<float> fixed_;   //!< [pages]
  std::vector<float> moving_;  //!< [pages], deviation 1
  std::vector<float> score_;   //!< [pages]
};

//! How much rows share. A speed without these says nothing.
struct selection_overlap {
  double jaccard = 0.0;  //!< mean over neighbouring rows of |intersection| / |union| of their pages
  double growth  = 0.0;  //!< pages of a group's union per page of a row, mean over whole groups
};

//! Measures the overlap of a problem whose rows are in runs.
inline selection_overlap measure_overlap(host_problem const& p, int group_rows) {
  auto const pages_of = [&](int row) {
    std::vector<std::int32_t> pages = p.tokens_of(row);
    for (std::int32_t& token : pages) {
      token /= p.spec.page_tokens;
    }
    pages.erase(std::unique(pages.begin(), pages.end()), pages.end());
    return pages;
  };
  double jaccard_sum = 0.0;
  double growth_sum  = 0.0;
  int num_pairs      = 0;
  int num_groups     = 0;
  std::vector<std::int32_t> previous, group;
  double group_pages = 0.0;
  for (int row = 0; row < p.spec.num_rows; ++row) {
    std::vector<std::int32_t> const pages = pages_of(row);
    std::vector<std::int32_t> shared, all;
    std::set_intersection(pages.begin(), pages.end(), previous.begin(), previous.end(),
                          std::back_inserter(shared));
    std::size_t const either = pages.size() + previous.size() - shared.size();
    if (row > 0 && either > 0) {
      jaccard_sum += static_cast<double>(shared.size()) / static_cast<double>(either);
      ++num_pairs;
    }
    std::set_union(pages.begin(), pages.end(), group.begin(), group.end(), std::back_inserter(all));
    group = all;
    group_pages += static_cast<double>(pages.size());
    if (row % group_rows == group_rows - 1) {
      if (group_pages > 0.0) {
        growth_sum += static_cast<double>(group.size()) * group_rows / group_pages;
        ++num_groups;
      }
      group.clear();
      group_pages = 0.0;
    }
    previous = pages;
  }
  selection_overlap overlap;
  overlap.jaccard = num_pairs > 0 ? jaccard_sum / num_pairs : 0.0;
  overlap.growth  = num_groups > 0 ? growth_sum / num_groups : 0.0;
  return overlap;
}

}  // namespace pageunion::test
