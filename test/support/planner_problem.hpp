// SPDX-License-Identifier: Apache-2.0
//! @file
//! Problems of a planner: without queries, keys or values. Plain ones, and random adversarial ones.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include <pageunion/selection.hpp>

#include "problem.hpp"
#include "random.hpp"

namespace pageunion::test {

//! One request of `length` tokens whose blocks are mapped in a random order, and rows at its end.
inline host_problem plain_problem(int page_tokens, int block_tokens, int num_rows, int length,
                                  selection_kind kind, int width, std::uint64_t seed) {
  host_problem p;
  p.page_tokens  = page_tokens;
  p.block_tokens = block_tokens;
  p.kind         = kind;
  p.num_rows     = num_rows;
  p.row_request.assign(num_rows, 0);
  for (int r = 0; r < num_rows; ++r) {
    p.row_position.push_back(length - num_rows + r);
  }
  p.sequence_length = {length};
  p.table_width     = (length + block_tokens - 1) / block_tokens;
  p.table_stride    = p.table_width;
  p.num_blocks      = p.table_width + 5;
  p.block_entries.resize(p.num_blocks);
  std::iota(p.block_entries.begin(), p.block_entries.end(), 0);
  random_source source(seed);
  source.shuffle(p.block_entries);
  p.block_entries.resize(p.table_width);
  p.width        = width;
  p.entry_stride = width;
  p.entries.assign(std::size_t{1} * num_rows * width, -1);
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

  host_problem const& get() const { return p_; }

 private:
  static constexpr std::int32_t lowest  = std::numeric_limits<std::int32_t>::min();
  static constexpr std::int32_t highest = std::numeric_limits<std::int32_t>::max();

  int below(std::int64_t end) { return static_cast<int>(source_.below(end)); }
  bool maybe(double probability) { return source_.is_chosen(probability); }
  template <std::size_t Size, class Value>
  Value one_of(Value const (&values)[Size]) {
    return values[below(Size)];
  }

  void draw_rows() {
    p_.block_tokens        = p_.page_tokens * one_of({1, 2, 3, 4, 9, 12, 196});
    int const num_requests = p_.num_requests = 1 + below(maybe(0.5) ? 1 : 6);
    int const longest                        = one_of({8, 60, 300, 1200, 20000});
    for (int i = 0; i < num_requests; ++i) {
      p_.sequence_length.push_back(maybe(0.2) ? one_of({0, 1, 3, 4, 5, -7}) : 1 + below(longest));
    }
    int const num_rows = p_.num_rows = maybe(0.1) ? below(3) : 1 + below(40);
    bool const is_mixed              = maybe(0.5);
    bool const is_strict             = maybe(0.3);
    std::int32_t request             = 0;
    for (int r = 0; r < num_rows; ++r) {
      if (is_mixed || maybe(0.15)) {
        request = below(num_requests);
      }
      std::int32_t const length = p_.sequence_length[request];
      std::int32_t const bad[]  = {-1, num_requests, num_requests + 3, lowest, highest};
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
    p_.num_blocks    = needed * p_.num_requests + 3;
    std::vector<std::int32_t> blocks(p_.num_blocks);
    std::iota(blocks.begin(), blocks.end(), 0);
    source_.shuffle(blocks);
    double const bad    = maybe(0.5) ? 0.0 : 0.2;
    double const shared = maybe(0.5) ? 0.0 : 0.3;
    std::size_t next    = 0;
    for (int request = 0; request < p_.num_requests; ++request) {
      for (int i = 0; i < p_.table_stride; ++i) {
        std::int32_t block = blocks[next++ % blocks.size()];
        if (maybe(shared)) {
          block = blocks[below(3)];
        }
        if (maybe(bad) || (i >= p_.table_width && maybe(0.5))) {
          block = one_of({-1, p_.num_blocks, p_.num_blocks + 7, lowest, highest});
        }
        p_.block_entries.push_back(block);
      }
    }
  }

  void draw_selection() {
    p_.kind  = maybe(0.5) ? selection_kind::tokens : selection_kind::pages;
    p_.width = one_of({0, 1, 3, 4, 8, 17, 40, 61, 200});
    if (p_.kind == selection_kind::tokens) {
      p_.counts_form =
          one_of({count_form::none, count_form::none, count_form::array, count_form::column});
      p_.max_pages = maybe(0.7) ? 0 : 1 + below(p_.width + 3);
    }
    bool const is_column = p_.counts_form == count_form::column;
    p_.count_column      = is_column ? p_.width + below(2) : 0;
    p_.entry_stride = std::max(p_.width + one_of({0, 1, 2, 3, 5}), p_.count_column + is_column);
    p_.entries.assign(p_.num_rows * p_.entry_stride, 0);
    int const style = below(4);
    std::vector<std::int32_t> previous;
    for (int r = 0; r < p_.num_rows; ++r) {
      std::vector<std::int32_t> entries =
          maybe(0.1) ? std::vector<std::int32_t>() : draw_row(r, style);
      if (style == 3 && !previous.empty() && maybe(0.8)) {
        entries = previous;
      }
      previous = entries;
      entries.resize(p_.width, -1);
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
        maybe(0.2) ? one_of({0, -1, p_.width + 1, highest, lowest}) : below(p_.width + 1);
    if (p_.counts_form == count_form::column) {
      p_.row(r)[p_.count_column] = count;
    } else {
      p_.counts.push_back(count);
    }
  }

  //! Entries of a row in one of the styles: page by page, scattered tokens, anything.
  std::vector<std::int32_t> draw_row(int r, int style) {
    std::int32_t const request = p_.row_request[r];
    std::int32_t length        = 64;
    if (request >= 0 && request < p_.num_requests) {
      length = std::max(1, p_.sequence_length[request]);
    }
    int const unit = p_.kind == selection_kind::pages ? p_.page_tokens : 1;
    std::vector<std::int32_t> entries;
    while (static_cast<int>(entries.size()) < p_.width) {
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
        entries.push_back(one_of(
            {-1, -2, length / unit, length / unit + 1, highest, highest / p_.page_tokens, lowest}));
      }
      if (maybe(0.05)) {
        entries.push_back(entries[below(entries.size())]);
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
  host_problem p_;
};

}  // namespace pageunion::test
