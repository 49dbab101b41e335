// SPDX-License-Identifier: Apache-2.0
//! @file
//! What a planner reads, in host memory, without queries, keys or values; and random adversarial
//! ones. Any array may be changed; the views always show what is there.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <pageunion/kv_cache.hpp>
#include <pageunion/selection.hpp>

#include "random.hpp"

namespace pageunion::test {

//! First elements of a planner_problem's arrays, in host or device memory.
struct planner_arrays {
  std::int32_t const* row_request     = nullptr;
  std::int64_t const* row_position    = nullptr;
  std::int32_t const* sequence_length = nullptr;
  std::int32_t const* block_entries   = nullptr;
  std::int32_t const* entries         = nullptr;
  std::int32_t const* counts          = nullptr;
};

//! Rows, block table and selection.
struct planner_problem {
  int page_tokens  = 4;
  int block_tokens = 16;
  int num_blocks   = 0;

  std::vector<std::int32_t> row_request;      //!< [rows + rows_behind]
  std::vector<std::int64_t> row_position;     //!< [rows + rows_behind]
  int rows_behind = 0;                        //!< rows of the arrays past those of the call
  std::vector<std::int32_t> sequence_length;  //!< [requests]

  std::vector<std::int32_t> block_entries;  //!< [requests, table_width], rows table_stride apart
  int table_width  = 0;
  int table_stride = 0;

  selection_kind kind = selection_kind::tokens;
  std::vector<std::int32_t> entries;  //!< [rows, width], rows entry_stride apart
  int width        = 0;
  int entry_stride = 0;
  bool has_counts  = false;
  int count_column = -1;             //!< column of the table that holds the counts; -1 = counts
  std::vector<std::int32_t> counts;  //!< [rows] if they are an array of their own
  int max_pages = 0;

  int num_rows() const { return static_cast<int>(row_request.size()) - rows_behind; }
  int num_requests() const { return static_cast<int>(sequence_length.size()); }

  std::int32_t* row(int r) {
    return entries.data() + static_cast<std::ptrdiff_t>(r) * entry_stride;
  }

  planner_arrays arrays() const {
    return {row_request.data(),   row_position.data(), sequence_length.data(),
            block_entries.data(), entries.data(),      counts.data()};
  }
  batch rows(planner_arrays const& a) const {
    batch view;
    view.num_rows        = num_rows();
    view.row_request     = a.row_request;
    view.row_position    = a.row_position;
    view.sequence_length = a.sequence_length;
    return view;
  }
  selection selected(planner_arrays const& a) const {
    if (kind == selection_kind::pages) {
      page_table table;
      table.pages      = a.entries;
      table.width      = width;
      table.row_stride = entry_stride;
      return table;
    }
    token_table table;
    table.tokens     = a.entries;
    table.width      = width;
    table.row_stride = entry_stride;
    table.max_pages  = max_pages;
    if (has_counts) {
      table.counts       = count_column < 0 ? a.counts : a.entries + count_column;
      table.count_stride = count_column < 0 ? 1 : entry_stride;
    }
    return table;
  }
  kv_cache cache(planner_arrays const& a) const {
    kv_cache view;
    view.num_blocks   = num_blocks;
    view.block_tokens = block_tokens;
    view.num_kv_heads = 1;
    view.blocks       = {a.block_entries, num_requests(), table_width, table_stride};
    return view;
  }
};

//! One request of `length` tokens whose blocks are mapped in a random order, and rows at its end.
inline planner_problem plain_problem(int page_tokens, int block_tokens, int num_rows, int length,
                                     selection_kind kind, int width, std::uint64_t seed) {
  planner_problem p;
  p.page_tokens  = page_tokens;
  p.block_tokens = block_tokens;
  p.kind         = kind;
  p.row_request.assign(static_cast<std::size_t>(num_rows), 0);
  for (int r = 0; r < num_rows; ++r) {
    p.row_position.push_back(length - num_rows + r);
  }
  p.sequence_length = {length};
  p.table_width     = (length + block_tokens - 1) / block_tokens;
  p.table_stride    = p.table_width;
  p.num_blocks      = p.table_width + 5;
  p.block_entries.resize(static_cast<std::size_t>(p.num_blocks));
  std::iota(p.block_entries.begin(), p.block_entries.end(), 0);
  random_source source(seed);
  source.shuffle(p.block_entries);
  p.block_entries.resize(static_cast<std::size_t>(p.table_width));
  p.width        = width;
  p.entry_stride = width;
  p.entries.assign(static_cast<std::size_t>(num_rows) * static_cast<std::size_t>(width), -1);
  return p;
}

//! Draws problems in which everything that can be odd is odd now and then.
class adversarial_problem {
 public:
  adversarial_problem(int page_tokens, std::uint64_t seed) : source_(seed) {
    p_.page_tokens = page_tokens;
    draw_rows();
    draw_block_table();
    draw_selection();
  }

  planner_problem const& get() const { return p_; }

 private:
  int below(std::int64_t end) { return static_cast<int>(source_.below(end)); }
  bool maybe(double probability) { return source_.is_chosen(probability); }
  template <std::size_t Size, class Value>
  Value one_of(Value const (&values)[Size]) {
    return values[static_cast<std::size_t>(below(Size))];
  }

  void draw_rows() {
    p_.block_tokens        = p_.page_tokens * one_of({1, 2, 3, 4, 9, 12, 196});
    int const num_requests = 1 + below(maybe(0.5) ? 1 : 6);
    int const longest      = one_of({8, 60, 300, 1200, 20000});
    for (int i = 0; i < num_requests; ++i) {
      p_.sequence_length.push_back(maybe(0.2) ? one_of({0, 1, 3, 4, 5, -7}) : 1 + below(longest));
    }
    int const num_rows   = maybe(0.1) ? below(3) : 1 + below(40);
    bool const is_mixed  = maybe(0.5);
    bool const is_strict = maybe(0.3);
    std::int32_t request = 0;
    for (int r = 0; r < num_rows; ++r) {
      if (is_mixed || maybe(0.15)) {
        request = below(num_requests);
      }
      std::int32_t const length = p_.sequence_length[static_cast<std::size_t>(request)];
      std::int32_t const bad[]  = {-1, num_requests, num_requests + 3,
                                   std::numeric_limits<std::int32_t>::min(),
                                   std::numeric_limits<std::int32_t>::max()};
      std::int64_t const odd[]  = {-1, length, std::int64_t{1} << 40,
                                   std::numeric_limits<std::int64_t>::min(),
                                   std::numeric_limits<std::int64_t>::max()};
      p_.row_request.push_back(!is_strict && maybe(0.1) ? one_of(bad) : request);
      p_.row_position.push_back(!is_strict && maybe(0.1) ? one_of(odd)
                                                         : source_.below(std::int64_t{length} + 1));
    }
  }

  void draw_block_table() {
    std::int32_t longest = 0;
    for (std::int32_t const length : p_.sequence_length) {
      longest = std::max(longest, length);
    }
    int const needed = (longest + p_.block_tokens - 1) / p_.block_tokens;
    p_.table_width   = std::max(0, needed + one_of({0, 0, 0, 1, 3, -1, -2}));
    p_.table_stride  = p_.table_width + one_of({0, 1, 5});
    p_.num_blocks    = needed * p_.num_requests() + 3;
    std::vector<std::int32_t> blocks(static_cast<std::size_t>(p_.num_blocks));
    std::iota(blocks.begin(), blocks.end(), 0);
    source_.shuffle(blocks);
    double const bad    = maybe(0.5) ? 0.0 : 0.2;
    double const shared = maybe(0.5) ? 0.0 : 0.3;
    std::size_t next    = 0;
    for (int request = 0; request < p_.num_requests(); ++request) {
      for (int i = 0; i < p_.table_stride; ++i) {
        std::int32_t block = blocks[next++ % blocks.size()];
        if (maybe(shared)) {
          block = blocks[static_cast<std::size_t>(below(3))];
        }
        if (maybe(bad) || (i >= p_.table_width && maybe(0.5))) {
          block = one_of({-1, p_.num_blocks, p_.num_blocks + 7,
                          std::numeric_limits<std::int32_t>::min(),
                          std::numeric_limits<std::int32_t>::max()});
        }
        p_.block_entries.push_back(block);
      }
    }
  }

  void draw_selection() {
    p_.kind  = maybe(0.5) ? selection_kind::tokens : selection_kind::pages;
    p_.width = one_of({0, 1, 3, 4, 8, 17, 40, 61, 200});
    if (p_.kind == selection_kind::tokens) {
      p_.has_counts   = maybe(0.5);
      p_.count_column = p_.has_counts && maybe(0.5) ? p_.width + below(2) : -1;
      p_.max_pages    = maybe(0.7) ? 0 : 1 + below(p_.width + 3);
    }
    p_.entry_stride = std::max(p_.width + one_of({0, 1, 2, 3, 5}), p_.count_column + 1);
    p_.entries.assign(
        static_cast<std::size_t>(p_.num_rows()) * static_cast<std::size_t>(p_.entry_stride), 0);
    int const style = below(4);
    std::vector<std::int32_t> previous;
    for (int r = 0; r < p_.num_rows(); ++r) {
      std::vector<std::int32_t> entries =
          maybe(0.1) ? std::vector<std::int32_t>() : draw_row(r, style);
      if (style == 3 && !previous.empty() && maybe(0.8)) {
        entries = previous;
      }
      previous = entries;
      entries.resize(static_cast<std::size_t>(p_.width), -1);
      std::copy(entries.begin(), entries.end(), p_.row(r));
      // Garbage past the width, and past the count: plausible entries.
      for (int i = p_.width; i < p_.entry_stride; ++i) {
        p_.row(r)[i] = below(100);
      }
      draw_count(r);
    }
  }

  void draw_count(int r) {
    std::int32_t const count =
        maybe(0.2) ? one_of({0, -1, p_.width + 1, std::numeric_limits<std::int32_t>::max(),
                             std::numeric_limits<std::int32_t>::min()})
                   : below(p_.width + 1);
    if (p_.count_column >= 0) {
      p_.row(r)[p_.count_column] = count;
    } else {
      p_.counts.push_back(count);
    }
  }

  //! Entries of a row in one of the styles: page by page, scattered tokens, anything.
  std::vector<std::int32_t> draw_row(int r, int style) {
    std::int32_t const request = p_.row_request[static_cast<std::size_t>(r)];
    std::int32_t length        = 64;
    if (request >= 0 && request < p_.num_requests()) {
      length = std::max(1, p_.sequence_length[static_cast<std::size_t>(request)]);
    }
    int const unit = p_.kind == selection_kind::pages ? p_.page_tokens : 1;
    std::vector<std::int32_t> entries;
    while (entries.size() < static_cast<std::size_t>(p_.width)) {
      std::int32_t const any = below(length / unit + 1);
      if (unit == 1 && style != 1) {
        std::int32_t const first = any / p_.page_tokens * p_.page_tokens;
        for (int i = 0; i < p_.page_tokens; ++i) {
          entries.push_back(maybe(0.05) ? -1 : first + i);
        }
      } else {
        entries.push_back(any);
      }
      if (maybe(0.05)) {
        entries.push_back(one_of({-1, -2, length / unit, length / unit + 1,
                                  std::numeric_limits<std::int32_t>::max(),
                                  std::numeric_limits<std::int32_t>::max() / p_.page_tokens,
                                  std::numeric_limits<std::int32_t>::min()}));
      }
      if (maybe(0.05)) {
        entries.push_back(
            entries[static_cast<std::size_t>(below(static_cast<int>(entries.size())))]);
      }
      if (maybe(0.01)) {
        break;
      }
    }
    if (style == 2) {
      source_.shuffle(entries);
    }
    return entries;
  }

  random_source source_;
  planner_problem p_;
};

}  // namespace pageunion::test
