// SPDX-License-Identifier: Apache-2.0
//! @file
//! Builds random problems that meet a problem_spec, and equivalent or poisoned versions of one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "choose_pages.hpp"
#include "problem.hpp"
#include "random.hpp"

namespace pageunion::test {

//! Makes the arrays of one problem, in the order of the calls in make_problem().
class problem_builder {
 public:
  explicit problem_builder(problem_spec const& spec)
      : spec_(spec), source_(spec.seed), normal_(spec.seed ^ 0x5eed) {
    problem_.spec = spec;
    problem_.scale =
        spec.scale != 0.0f ? spec.scale : 1.0f / std::sqrt(static_cast<float>(spec.head_dim));
  }

  //! Requests, their lengths, and the position of every row: the last positions of its request, or
  //! random ones if the request has fewer tokens than rows.
  void make_rows() {
    problem_.sequence_length.assign(spec_.lengths.begin(), spec_.lengths.end());
    while (problem_.sequence_length.size() < static_cast<std::size_t>(spec_.num_requests)) {
      problem_.sequence_length.push_back(
          static_cast<std::int32_t>(source_.between(spec_.min_length, spec_.max_length)));
    }
    for (std::int64_t row = 0; row < spec_.num_rows; ++row) {
      problem_.row_request.push_back(
          static_cast<std::int32_t>(row * spec_.num_requests / spec_.num_rows));
    }
    if (spec_.order == row_order::shuffled) {
      source_.shuffle(problem_.row_request);
    }
    rows_of_.resize(static_cast<std::size_t>(spec_.num_requests));
    for (int row = 0; row < spec_.num_rows; ++row) {
      rows_of_[index(problem_.row_request[index(row)])].push_back(row);
    }
    problem_.row_position.resize(index(spec_.num_rows));
    for (int request = 0; request < spec_.num_requests; ++request) {
      std::vector<int> const& rows = rows_of_[index(request)];
      std::int64_t const length    = problem_.sequence_length[index(request)];
      std::int64_t const first     = length - static_cast<std::int64_t>(rows.size());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        problem_.row_position[index(rows[i])] =
            first >= 0 ? first + static_cast<std::int64_t>(i) : source_.below(length);
      }
    }
  }

  //! Every row's entries. Done before spoil_rows(): a spoilt row keeps what it chose.
  void make_selection() {
    chosen_.resize(index(spec_.num_rows));
    for (int request = 0; request < spec_.num_requests; ++request) {
      std::vector<int> const& rows = rows_of_[index(request)];
      std::int32_t const length    = problem_.sequence_length[index(request)];
      page_chooser chooser(spec_, length / spec_.page_tokens, source_.next());
      for (int const row : rows) {
        std::int64_t const position = problem_.row_position[index(row)];
        std::int32_t const end =
            position < length ? static_cast<std::int32_t>(position) + 1 : length;
        std::vector<std::int32_t> const pages = chooser.choose(end / spec_.page_tokens);
        if (!source_.is_chosen(spec_.empty_rows)) {
          chosen_[index(row)] = list_entries(pages, end, length);
        }
      }
    }
    store_entries();
  }

  //! Padding rows, and rows at positions that no engine would send.
  void spoil_rows() {
    for (int row = 0; row < spec_.num_rows; ++row) {
      if (source_.is_chosen(spec_.padding_rows)) {
        std::int32_t const bad[] = {-1, -1, spec_.num_requests, std::numeric_limits<int>::min(),
                                    std::numeric_limits<int>::max()};
        problem_.row_request[index(row)] = bad[source_.below(5)];
      }
      if (source_.is_chosen(spec_.odd_positions)) {
        std::int64_t const limit          = std::numeric_limits<std::int64_t>::max();
        std::int64_t const odd[]          = {-1, -limit, limit, std::int64_t{1} << 32,
                                             problem_.row_position[index(row)] + 5};
        problem_.row_position[index(row)] = odd[source_.below(5)];
      }
    }
  }

  //! Physical cache blocks, permuted, and the block table that maps to them.
  void make_block_table() {
    std::vector<int> blocks_of;
    for (std::int32_t const length : problem_.sequence_length) {
      blocks_of.push_back((length + spec_.block_tokens - 1) / spec_.block_tokens);
    }
    int const longest =
        blocks_of.empty() ? 0 : *std::max_element(blocks_of.begin(), blocks_of.end());
    problem_.num_blocks   = std::accumulate(blocks_of.begin(), blocks_of.end(), spec_.spare_blocks);
    problem_.table_width  = std::max(longest + spec_.spare_columns, 0);
    problem_.table_stride = problem_.table_width + (spec_.gap > 0 ? 3 : 0);
    std::vector<std::int32_t> physical(index(problem_.num_blocks));
    std::iota(physical.begin(), physical.end(), 0);
    source_.shuffle(physical);

    // Entries past a request's length map to somebody's block or to none: nobody may follow them.
    problem_.block_entries.resize(index(spec_.num_requests) * index(problem_.table_stride));
    for (std::int32_t& entry : problem_.block_entries) {
      entry = static_cast<std::int32_t>(source_.between(-1, problem_.num_blocks));
    }
    std::size_t next = 0;
    for (int request = 0; request < spec_.num_requests; ++request) {
      int const shared =
          spec_.has_shared_prefix ? std::min(blocks_of[0], blocks_of[index(request)]) / 2 : 0;
      for (int block = 0; block < blocks_of[index(request)]; ++block) {
        std::int32_t const own = physical[next++];
        if (block < problem_.table_width) {
          std::int32_t& entry = block_entry(request, block);
          entry = request > 0 && block < shared ? block_entry(0, block) : maybe_unmapped(own);
        }
      }
    }
  }

  //! K, V and Q; everything outside a head's elements is NaN.
  void make_tensors() {
    host_problem& p = problem_;
    choose_kv_strides();
    bool const is_interleaved = p.v_first > 0;
    p.k_data.assign(index(p.num_blocks) * index(p.k_strides.block), half_nan);
    if (!is_interleaved) {
      p.v_data.assign(index(p.num_blocks) * index(p.v_strides.block), half_nan);
    }
    for (int block = 0; block < p.num_blocks; ++block) {
      for (int token = 0; token < spec_.block_tokens; ++token) {
        for (int kv_head = 0; kv_head < spec_.num_kv_heads; ++kv_head) {
          fill(p.k_data, kv_offset(p.k_strides, block, token, kv_head));
          fill(is_interleaved ? p.k_data : p.v_data,
               p.v_first + kv_offset(p.v_strides, block, token, kv_head));
        }
      }
    }
    p.q_head_stride = spec_.head_dim + spec_.gap;
    p.q_row_stride  = p.num_heads() * p.q_head_stride + spec_.gap;
    p.q_data.assign(index(spec_.num_rows) * index(p.q_row_stride), half_nan);
    for (std::int64_t row = 0; row < spec_.num_rows; ++row) {
      for (std::int64_t h = 0; h < p.num_heads(); ++h) {
        fill(p.q_data, row * p.q_row_stride + h * p.q_head_stride);
      }
    }
    p.out_head_stride = p.q_head_stride;
    p.out_row_stride  = p.q_row_stride;
    p.lse_row_stride  = p.num_heads() + (spec_.gap > 0 ? 3 : 0);
  }

  host_problem finish() { return std::move(problem_); }

 private:
  template <class Integer>
  static std::size_t index(Integer value) {
    return static_cast<std::size_t>(value);
  }

  void choose_kv_strides() {
    std::int64_t const head      = spec_.head_dim + spec_.gap;
    std::int64_t const block_gap = spec_.gap + spec_.block_gap;
    bool const has_both_in_token = spec_.layout == kv_layout::interleaved_tokens;

    kv_strides token_major;
    token_major.head  = has_both_in_token ? 2 * head : head;
    token_major.token = spec_.num_kv_heads * token_major.head + spec_.gap;
    token_major.block = spec_.block_tokens * token_major.token + block_gap;
    kv_strides head_major;
    head_major.token = head;
    head_major.head  = spec_.block_tokens * head + spec_.gap;
    head_major.block = spec_.num_kv_heads * head_major.head + block_gap;

    if (has_both_in_token) {
      problem_.v_first = head;
    } else if (spec_.layout == kv_layout::interleaved_blocks) {
      problem_.v_first = token_major.block;
      token_major.block *= 2;
    }
    bool const is_k_head_major = spec_.layout == kv_layout::heads_first;
    bool const is_v_head_major = is_k_head_major || spec_.layout == kv_layout::mixed;
    problem_.k_strides         = is_k_head_major ? head_major : token_major;
    problem_.v_strides         = is_v_head_major ? head_major : token_major;
  }

  void fill(std::vector<std::uint16_t>& data, std::int64_t first) {
    std::generate_n(data.begin() + first, spec_.head_dim, [this] { return normal_.next_half(); });
  }

  std::int32_t& block_entry(int request, int block) {
    return problem_.block_entries[index(request) * index(problem_.table_stride) + index(block)];
  }

  std::int32_t maybe_unmapped(std::int32_t block) {
    if (!source_.is_chosen(spec_.unmapped_blocks)) {
      return block;
    }
    std::int32_t const bad[] = {-1, problem_.num_blocks, std::numeric_limits<int>::min(),
                                std::numeric_limits<int>::max()};
    return bad[source_.below(4)];
  }

  //! What a row writes into its table: its pages or their tokens and the tail, and the clutter that
  //! the rules must see through.
  std::vector<std::int32_t> list_entries(std::vector<std::int32_t> const& pages, std::int32_t end,
                                         std::int32_t length) {
    int const page_tokens = spec_.page_tokens;
    std::vector<std::int32_t> entries;
    if (spec_.kind == selection_kind::pages) {
      entries = pages;
    } else {
      for (std::int32_t const page : pages) {
        for (int i = 0; i < page_tokens; ++i) {
          if (source_.uniform() < spec_.token_density) {
            entries.push_back(page * page_tokens + i);
          }
        }
      }
      for (std::int32_t token = end / page_tokens * page_tokens; token < end; ++token) {
        entries.push_back(token);
      }
    }
    auto const num_listed = static_cast<double>(entries.size());
    auto const num_added  = [&](double share) {
      return static_cast<int>(share * num_listed + source_.uniform());
    };
    int const holes      = num_added(spec_.holes);
    int const duplicates = num_added(spec_.duplicates);
    int const foreign    = num_added(spec_.foreign_entries);
    for (int i = 0; i < duplicates && !entries.empty(); ++i) {
      insert(entries, entries[index(source_.below(static_cast<int>(entries.size())))]);
    }
    for (int i = 0; i < foreign; ++i) {
      insert(entries, foreign_entry(end, length));
    }
    for (int i = 0; i < holes; ++i) {
      insert(entries, -1);
    }
    return entries;
  }

  void insert(std::vector<std::int32_t>& entries, std::int32_t entry) {
    entries.insert(entries.begin() + source_.between(0, static_cast<int>(entries.size())), entry);
  }

  //! A token (or page) that a row with this visible end may not attend to.
  std::int32_t foreign_entry(std::int32_t end, std::int32_t length) {
    int const unit           = spec_.kind == selection_kind::pages ? spec_.page_tokens : 1;
    std::int32_t const past  = (end + unit - 1) / unit;
    std::int32_t const bad[] = {past,
                                past + static_cast<std::int32_t>(source_.below(16)),
                                (length + spec_.block_tokens) / unit + 1,
                                std::numeric_limits<int>::max(),
                                std::numeric_limits<int>::max() / spec_.page_tokens,
                                std::numeric_limits<int>::min(),
                                -2};
    return bad[source_.below(7)];
  }

  //! Lays the rows' entries out. Without counts a row ends in -1; with counts, in tokens that it
  //! could attend to, and counts may be negative or past the width where the rules clamp them.
  void store_entries() {
    std::size_t longest = 0;
    for (std::vector<std::int32_t>& entries : chosen_) {
      if (spec_.width > 0 && entries.size() > index(spec_.width)) {
        entries.resize(index(spec_.width));
      }
      longest = std::max(longest, entries.size());
    }
    host_problem& p = problem_;
    bool const has_counts =
        spec_.kind == selection_kind::tokens && spec_.counts != count_form::none;
    bool const is_column = has_counts && spec_.counts == count_form::column;
    p.width              = spec_.width > 0 ? spec_.width
                                           : static_cast<int>(longest) + static_cast<int>(source_.below(4));
    p.entry_stride       = p.width + (is_column ? 1 : 0) + (spec_.gap > 0 ? 5 : 0);
    p.entries.assign(index(spec_.num_rows) * index(p.entry_stride), -1);
    if (!has_counts) {
      p.spec.counts = count_form::none;
    } else if (!is_column) {
      p.counts.resize(index(spec_.num_rows));
    }
    for (int row = 0; row < spec_.num_rows; ++row) {
      std::vector<std::int32_t> const& entries = chosen_[index(row)];
      std::int32_t* const stored = p.entries.data() + index(row) * index(p.entry_stride);
      std::copy(entries.begin(), entries.end(), stored);
      // Traps: whoever reads past the width or the count attends to them.
      std::int64_t const begin = has_counts ? static_cast<std::int64_t>(entries.size()) : p.width;
      for (std::int64_t i = begin; i < p.entry_stride; ++i) {
        stored[i] = static_cast<std::int32_t>(
            source_.below((p.row_position[index(row)] + 1) /
                          (spec_.kind == selection_kind::pages ? spec_.page_tokens : 1)));
      }
      if (has_counts) {
        (is_column ? stored[p.width] : p.counts[index(row)]) = odd_count(entries.size());
      }
    }
  }

  std::int32_t odd_count(std::size_t count) {
    if (count == 0 && source_.is_chosen(0.5)) {
      return -3;
    }
    if (count == index(problem_.width) && source_.is_chosen(0.5)) {
      return problem_.width + 1000;
    }
    return static_cast<std::int32_t>(count);
  }

  problem_spec spec_;
  random_source source_;
  normal_source normal_;
  host_problem problem_;
  std::vector<std::vector<int>> rows_of_;          //!< rows of each request, by position
  std::vector<std::vector<std::int32_t>> chosen_;  //!< entries of each row
};

//! Offset in its array's view of a logical token of a request; its cache block must be mapped.
inline std::int64_t element_of(host_problem const& p, kv_strides const& strides, int request,
                               int token, int kv_head) {
  std::int64_t const entry = request * p.table_stride + token / p.spec.block_tokens;
  return kv_offset(strides, p.block_entries[static_cast<std::size_t>(entry)],
                   token % p.spec.block_tokens, kv_head);
}

//! First element of V's view.
inline std::uint16_t* v_begin(host_problem& p) {
  return (p.v_data.empty() ? p.k_data : p.v_data).data() + p.v_first;
}

//! Overwrites K and V of every token that no row attends to.
inline void poison_unselected(host_problem& p, std::uint16_t bits = half_nan) {
  int const block_tokens = p.spec.block_tokens;
  std::vector<char> is_attended(static_cast<std::size_t>(p.num_blocks) *
                                static_cast<std::size_t>(block_tokens));
  for (int row = 0; row < p.spec.num_rows; ++row) {
    std::int64_t const request = p.row_request[static_cast<std::size_t>(row)];
    for (std::int32_t const token : p.tokens_of(row)) {
      std::int64_t const entry = request * p.table_stride + token / block_tokens;
      std::int64_t const block = p.block_entries[static_cast<std::size_t>(entry)];
      is_attended[static_cast<std::size_t>(block * block_tokens + token % block_tokens)] = 1;
    }
  }
  for (std::size_t slot = 0; slot < is_attended.size(); ++slot) {
    int const block = static_cast<int>(slot / static_cast<std::size_t>(block_tokens));
    int const token = static_cast<int>(slot % static_cast<std::size_t>(block_tokens));
    for (int kv_head = 0; !is_attended[slot] && kv_head < p.spec.num_kv_heads; ++kv_head) {
      std::fill_n(p.k_data.data() + kv_offset(p.k_strides, block, token, kv_head), p.spec.head_dim,
                  bits);
      std::fill_n(v_begin(p) + kv_offset(p.v_strides, block, token, kv_head), p.spec.head_dim,
                  bits);
    }
  }
}

//! Overwrites one element of the query of a row and head.
inline void poison_query(host_problem& p, int row, int head, std::uint16_t bits) {
  std::int64_t const first = row * p.q_row_stride + head * p.q_head_stride;
  p.q_data[static_cast<std::size_t>(first + p.spec.head_dim / 3)] = bits;
}

//! A random problem.
inline host_problem make_problem(problem_spec const& spec) {
  problem_builder builder(spec);
  builder.make_rows();
  builder.make_selection();
  builder.spoil_rows();
  builder.make_block_table();
  builder.make_tensors();
  host_problem problem = builder.finish();
  if (spec.unselected == cache_fill::nans) {
    poison_unselected(problem);
  }
  return problem;
}

//! The same logical content in other physical cache blocks.
inline host_problem relocated(host_problem const& p, std::uint64_t seed) {
  host_problem moved = p;
  random_source source(seed);
  std::vector<std::int32_t> new_block(static_cast<std::size_t>(p.num_blocks));
  std::iota(new_block.begin(), new_block.end(), 0);
  source.shuffle(new_block);
  // In every layout the cache block is the outermost axis.
  auto const move_blocks = [&](std::vector<std::uint16_t> const& from,
                               std::vector<std::uint16_t>& to, std::int64_t stride) {
    for (int block = 0; block < p.num_blocks && !from.empty(); ++block) {
      std::copy_n(from.begin() + block * stride, stride,
                  to.begin() + new_block[static_cast<std::size_t>(block)] * stride);
    }
  };
  move_blocks(p.k_data, moved.k_data, p.k_strides.block);
  move_blocks(p.v_data, moved.v_data, p.v_strides.block);
  for (std::int32_t& entry : moved.block_entries) {
    if (entry >= 0 && entry < p.num_blocks) {
      entry = new_block[static_cast<std::size_t>(entry)];
    }
  }
  return moved;
}

//! The same selection with the columns of every row in another order.
inline host_problem permuted_columns(host_problem const& p, std::uint64_t seed) {
  host_problem permuted = p;
  random_source source(seed);
  selection const selected = p.selected();
  for (std::int64_t row = 0; row < p.spec.num_rows; ++row) {
    std::int64_t in_use = p.width;
    if (selected.kind == selection_kind::tokens && selected.tokens.counts != nullptr) {
      std::int64_t const count = selected.tokens.counts[row * selected.tokens.count_stride];
      in_use                   = std::min(in_use, std::max<std::int64_t>(count, 0));
    }
    auto const begin = permuted.entries.begin() + row * p.entry_stride;
    std::vector<std::int32_t> entries(begin, begin + in_use);
    source.shuffle(entries);
    std::copy(entries.begin(), entries.end(), begin);
  }
  return permuted;
}

}  // namespace pageunion::test
