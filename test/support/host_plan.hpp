// SPDX-License-Identifier: Apache-2.0
//! @file
//! Plans a selection by brute force on the host, token by token, straight from the rules: the oracle
//! of the planner's tests. Shares no code with the planner.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <pageunion/plan.hpp>

#include "problem.hpp"

namespace pageunion::test {

//! Plan and report of a batch, all groups.
template <class Shape>
class host_plan {
 public:
  using mask_type = typename Shape::mask_type;

  //! A page of a group, in plan order.
  struct entry {
    int category = 0;
    mask_type mask{};
    page_address address;
  };

  //! The problem must not change or end before the plan.
  explicit host_plan(host_problem const& p)
      : rows_(p.rows()), selected_(p.selected()), cache_(p.operands().cache) {
    std::int64_t const page_limit = Shape::group_rows * most_pages_per_row(p);
    for (std::int32_t first = 0; first < p.num_rows; first += Shape::group_rows) {
      plan_group(first, std::min(p.num_rows, first + Shape::group_rows), page_limit);
    }
  }

  //! Pages of each group, without padding.
  std::vector<std::vector<entry>> const& groups() const { return groups_; }
  plan_report const& report() const { return report_; }

 private:
  // (request as first met, page)
  using page_key = std::pair<int, std::int64_t>;

  //! Reads the block table; -1 if the token is in no physical block.
  std::int32_t block_of(std::int32_t request, std::int64_t token, unsigned long long& past_table,
                        unsigned long long& unmapped) const {
    std::int64_t const logical = token / cache_.block_tokens;
    if (logical >= cache_.blocks.width) {
      ++past_table;
      return -1;
    }
    std::int32_t const block = cache_.blocks.table[request * cache_.blocks.row_stride + logical];
    if (block < 0 || block >= cache_.num_blocks) {
      ++unmapped;
      return -1;
    }
    return block;
  }

  //! All entries of a row, the implied tail page of a page table included.
  std::vector<std::int64_t> entries_of(std::int32_t row, std::int64_t num_visible) const {
    std::vector<std::int64_t> entries;
    if (selected_.kind == selection_kind::pages) {
      page_table const& table = selected_.pages;
      for (std::int32_t i = 0; i < table.width; ++i) {
        entries.push_back(table.pages[row * table.row_stride + i]);
      }
      if (num_visible % Shape::page_tokens != 0) {
        entries.push_back(num_visible / Shape::page_tokens);
      }
      return entries;
    }
    token_table const& table = selected_.tokens;
    std::int32_t count       = table.width;
    if (table.counts != nullptr) {
      count = std::max(0, std::min(table.width, table.counts[row * table.count_stride]));
    }
    for (std::int32_t i = 0; i < count; ++i) {
      entries.push_back(table.tokens[row * table.row_stride + i]);
    }
    return entries;
  }

  void plan_group(std::int32_t first, std::int32_t last, std::int64_t page_limit) {
    std::vector<std::int32_t> met;
    std::map<page_key, entry> pages;
    for (std::int32_t row = first; row < last; ++row) {
      ++report_.rows;
      std::int32_t const request = rows_.row_request[row];
      if (request < 0 || request >= cache_.blocks.num_requests) {
        ++report_.bad_request_rows;
        continue;
      }
      auto const known = std::find(met.begin(), met.end(), request);
      int const order  = static_cast<int>(known - met.begin());
      if (known == met.end()) {
        met.push_back(request);
      }
      std::int64_t const length = rows_.sequence_length[request];
      std::int64_t const position =
          std::min<std::int64_t>(rows_.row_position[row], std::int64_t{1} << 40);
      std::int64_t const num_visible =
          std::max<std::int64_t>(0, std::min<std::int64_t>(position + 1, length));
      for (std::int64_t const listed : entries_of(row, num_visible)) {
        admit(row - first, request, order, listed, num_visible, pages);
      }
    }
    finish_group(last - first, page_limit, pages);
  }

  void admit(int row, std::int32_t request, int order, std::int64_t listed,
             std::int64_t num_visible, std::map<page_key, entry>& pages) {
    bool const is_page       = selected_.kind == selection_kind::pages;
    std::int64_t const token = is_page ? listed * Shape::page_tokens : listed;
    ++report_.entries;
    if (token < 0) {
      ++report_.negative;
      return;
    }
    if (token >= num_visible) {
      ++report_.not_visible;
      return;
    }
    std::int32_t const block = block_of(request, token, report_.past_table, report_.unmapped_block);
    if (block < 0) {
      return;
    }
    std::int64_t const page = token / Shape::page_tokens;
    entry& found            = pages[{order, page}];
    found.address.block     = block;
    found.address.first_token =
        static_cast<std::int32_t>(page * Shape::page_tokens % cache_.block_tokens);
    for (std::int64_t t = token; t < (is_page ? token + Shape::page_tokens : token + 1); ++t) {
      if (t < num_visible) {
        found.mask |= mask_type{1} << (row * Shape::page_tokens + t % Shape::page_tokens);
      }
    }
  }

  void finish_group(int num_rows, std::int64_t page_limit, std::map<page_key, entry>& pages) {
    std::vector<entry> ordered;
    for (auto& [key, page] : pages) {
      page.category = category_of<Shape>(page.mask);
      ordered.push_back(page);
    }
    std::stable_sort(ordered.begin(), ordered.end(),
                     [](entry const& a, entry const& b) { return a.category > b.category; });
    if (static_cast<std::int64_t>(ordered.size()) > page_limit) {
      report_.over_capacity += ordered.size() - static_cast<std::size_t>(page_limit);
      ordered.resize(static_cast<std::size_t>(page_limit));
    }
    std::set<int> rows_met;
    std::map<int, unsigned long long> of_category;
    for (entry const& page : ordered) {
      ++of_category[page.category];
      for (int row = 0; row < num_rows; ++row) {
        if ((page.mask >> (row * Shape::page_tokens) & ((1u << Shape::page_tokens) - 1)) != 0) {
          ++report_.row_pages;
          rows_met.insert(row);
        }
      }
    }
    for (auto const& [category, count] : of_category) {
      report_.padded_pages +=
          (count + Shape::tile_pages - 1) / Shape::tile_pages * Shape::tile_pages;
    }
    ++report_.groups;
    report_.empty_rows += static_cast<std::size_t>(num_rows) - rows_met.size();
    report_.union_pages += ordered.size();
    report_.largest_union = std::max<unsigned long long>(report_.largest_union, ordered.size());
    ++report_.histogram[std::min<std::size_t>(ordered.size() / plan_report::bin_pages,
                                              plan_report::num_bins - 1)];
    groups_.push_back(std::move(ordered));
  }

  batch rows_;
  selection selected_;
  kv_cache cache_;
  std::vector<std::vector<entry>> groups_;
  plan_report report_{};
};

}  // namespace pageunion::test
