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
  explicit problem_builder(problem_spec const& spec) : spec_(spec), source_(spec.seed) {
    static_cast<problem_shape&>(problem_) = spec;
    if (spec.scale == 0.0f) {
      problem_.scale = 1.0f / std::sqrt(static_cast<float>(spec.head_dim));
    }
  }

  //! Requests, their lengths, and the position of every row: the last positions of its request, or
  //! random ones if the request has fewer tokens than rows.
  void make_rows() {
    problem_.sequence_length.assign(spec_.lengths.begin(), spec_.lengths.end());
    while (problem_.sequence_length.size() < static_cast<std::size_t>(spec_.num_requests)) {
      problem_.sequence_length.push_back(source_.between(spec_.min_length, spec_.max_length));
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
      rows_of_[problem_.row_request[row]].push_back(row);
    }
    problem_.row_position.resize(spec_.num_rows);
    for (int request = 0; request < spec_.num_requests; ++request) {
      std::vector<int> const& rows = rows_of_[request];
      std::int64_t const length    = problem_.sequence_length[request];
      std::int64_t const first     = length - static_cast<std::int64_t>(rows.size());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        problem_.row_position[rows[i]] =
            first >= 0 ? first + static_cast<std::int64_t>(i) : source_.below(length);
      }
    }
  }

  //! Every row's entries. Done before spoil_rows(): a spoilt row keeps what it chose.
  void make_selection() {
    chosen_.resize(spec_.num_rows);
    for (int request = 0; request < spec_.num_requests; ++request) {
      std::vector<int> const& rows = rows_of_[request];
      std::int32_t const length    = problem_.sequence_length[request];
      auto const seed              = hash(static_cast<std::uint32_t>(spec_.seed) * 0x9e3779b9u +
                                          static_cast<std::uint32_t>(request));
      page_chooser chooser(spec_, length / spec_.page_tokens, seed);
      for (int const row : rows) {
        std::int64_t const position = problem_.row_position[row];
        std::int32_t const end =
            position < length ? static_cast<std::int32_t>(position) + 1 : length;
        std::vector<std::int32_t> pages = chooser.choose(end / spec_.page_tokens);
        if (spec_.columns == column_order::shuffled) {
          source_.shuffle(pages);
        }
        if (!source_.is_chosen(spec_.empty_rows)) {
          chosen_[row] = list_entries(pages, end, length);
        }
      }
    }
    store_entries();
  }

  //! Padding rows, and rows at positions that no engine would send.
  void spoil_rows() {
    for (int row = 0; row < spec_.num_rows; ++row) {
      if (source_.is_chosen(spec_.padding_rows)) {
        std::int32_t const bad[]  = {-1, -1, spec_.num_requests, std::numeric_limits<int>::min(),
                                     std::numeric_limits<int>::max()};
        problem_.row_request[row] = bad[source_.below(5)];
      }
      if (source_.is_chosen(spec_.odd_positions)) {
        std::int64_t const limit   = std::numeric_limits<std::int64_t>::max();
        std::int64_t const odd[]   = {-1, -limit, limit, std::int64_t{1} << 32,
                                      problem_.row_position[row] + 5};
        problem_.row_position[row] = odd[source_.below(5)];
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
    std::vector<std::int32_t> physical(problem_.num_blocks);
    std::iota(physical.begin(), physical.end(), 0);
    source_.shuffle(physical);

    // Entries past a request's length map to somebody's block or to none: nobody may follow them.
    problem_.block_entries.resize(spec_.num_requests * problem_.table_stride);
    for (std::int32_t& entry : problem_.block_entries) {
      entry = source_.between(-1, problem_.num_blocks);
    }
    std::size_t next = 0;
    for (int request = 0; request < spec_.num_requests; ++request) {
      int const shared =
          spec_.has_shared_prefix ? std::min(blocks_of[0], blocks_of[request]) / 2 : 0;
      for (int block = 0; block < blocks_of[request]; ++block) {
        std::int32_t const own = physical[next++];
        if (block < problem_.table_width) {
          std::int32_t& entry = block_entry(request, block);
          entry = request > 0 && block < shared ? block_entry(0, block) : maybe_unmapped(own);
        }
      }
    }
  }

  host_problem finish() { return std::move(problem_); }

 private:
  std::int32_t& block_entry(int request, int block) {
    return problem_.block_entries[request * problem_.table_stride + block];
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
      insert(entries, entries[source_.below(entries.size())]);
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
    entries.insert(entries.begin() + source_.between(0, entries.size()), entry);
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
    auto const width    = static_cast<std::size_t>(spec_.width);
    for (std::vector<std::int32_t>& entries : chosen_) {
      if (width > 0 && entries.size() > width) {
        entries.resize(width);
      }
      longest = std::max(longest, entries.size());
    }
    host_problem& p = problem_;
    bool const has_counts =
        spec_.kind == selection_kind::tokens && spec_.counts_form != count_form::none;
    bool const is_column = has_counts && spec_.counts_form == count_form::column;
    p.width        = spec_.width > 0 ? spec_.width : static_cast<int>(longest) + source_.below(4);
    p.entry_stride = p.width + (is_column ? 1 : 0) + (spec_.gap > 0 ? 5 : 0);
    p.entries.assign(spec_.num_rows * p.entry_stride, -1);
    if (!has_counts) {
      p.counts_form = count_form::none;
    } else if (!is_column) {
      p.counts.resize(spec_.num_rows);
    }
    for (int row = 0; row < spec_.num_rows; ++row) {
      std::vector<std::int32_t> const& entries = chosen_[row];
      std::int32_t* const stored               = p.entries.data() + row * p.entry_stride;
      std::copy(entries.begin(), entries.end(), stored);
      // Traps: whoever reads past the width or the count attends to them.
      std::int64_t const begin = has_counts ? static_cast<std::int64_t>(entries.size()) : p.width;
      for (std::int64_t i = begin; i < p.entry_stride; ++i) {
        stored[i] = static_cast<std::int32_t>(
            source_.below((p.row_position[row] + 1) /
                          (spec_.kind == selection_kind::pages ? spec_.page_tokens : 1)));
      }
      if (has_counts) {
        (is_column ? stored[p.width] : p.counts[row]) =
            odd_count(static_cast<std::int32_t>(entries.size()));
      }
    }
  }

  std::int32_t odd_count(std::int32_t count) {
    if (count == 0 && source_.is_chosen(0.5)) {
      return -3;
    }
    if (count == problem_.width && source_.is_chosen(0.5)) {
      return problem_.width + 1000;
    }
    return count;
  }

  problem_spec spec_;
  random_source source_;
  host_problem problem_;
  std::vector<std::vector<int>> rows_of_;          //!< rows of each request, by position
  std::vector<std::vector<std::int32_t>> chosen_;  //!< entries of each row
};

//! First element of V's view.
inline std::uint16_t* v_begin(host_problem& p) {
  return (p.v_data.empty() ? p.k_data : p.v_data).data() + p.v_first;
}

//! Fills heads with standard-normal numbers, all of a tensor's that [first, second, third] counts.
inline void fill_heads(std::uint16_t* data, int head_dim, int const (&counts)[3],
                       std::int64_t const (&strides)[3], normal_source& normal) {
  for (int i = 0; i < counts[0]; ++i) {
    for (int j = 0; j < counts[1]; ++j) {
      for (int k = 0; k < counts[2]; ++k) {
        std::uint16_t* const head = data + i * strides[0] + j * strides[1] + k * strides[2];
        std::generate_n(head, head_dim, [&] { return normal.next_half(); });
      }
    }
  }
}

//! Gives a problem strides of Q, out and lse, and Q; everything outside a head's elements is NaN.
//! @param gap elements unused after each extent of an axis
inline void draw_queries(host_problem& p, int gap, std::uint64_t seed) {
  p.q_head_stride = p.out_head_stride = p.head_dim + gap;
  p.q_row_stride = p.out_row_stride = p.num_heads() * p.q_head_stride + gap;
  p.lse_row_stride                  = p.num_heads() + (gap > 0 ? 3 : 0);
  p.q_data.assign(p.num_rows * p.q_row_stride, half_nan);
  normal_source normal(seed);
  fill_heads(p.q_data.data(), p.head_dim, {1, p.num_rows, p.num_heads()},
             {0, p.q_row_stride, p.q_head_stride}, normal);
}

//! Gives a problem strides of K and V, and K and V, likewise.
inline void draw_cache(host_problem& p, kv_layout layout, int gap, std::uint64_t seed) {
  std::int64_t const head      = p.head_dim + gap;
  bool const has_both_in_token = layout == kv_layout::interleaved_tokens;
  kv_strides token_major;
  token_major.head  = has_both_in_token ? 2 * head : head;
  token_major.token = p.num_kv_heads * token_major.head + gap;
  token_major.block = p.block_tokens * token_major.token + gap;
  kv_strides head_major;
  head_major.token = head;
  head_major.head  = p.block_tokens * head + gap;
  head_major.block = p.num_kv_heads * head_major.head + gap;
  p.k_first = p.v_first = 0;
  if (has_both_in_token) {
    p.v_first = head;
  } else if (layout == kv_layout::interleaved_blocks) {
    p.v_first = token_major.block;
    token_major.block *= 2;
  }
  bool const is_k_head_major = layout == kv_layout::heads_first;
  bool const is_v_head_major = is_k_head_major || layout == kv_layout::mixed;
  p.k_strides                = is_k_head_major ? head_major : token_major;
  p.v_strides                = is_v_head_major ? head_major : token_major;
  p.k_data.assign(p.num_blocks * p.k_strides.block, half_nan);
  p.v_data.assign(p.v_first > 0 ? 0 : p.num_blocks * p.v_strides.block, half_nan);
  normal_source normal(seed);
  auto const fill = [&](std::uint16_t* data, kv_strides const& s) {
    fill_heads(data, p.head_dim, {p.num_blocks, p.block_tokens, p.num_kv_heads},
               {s.block, s.token, s.head}, normal);
  };
  fill(p.k_data.data(), p.k_strides);
  fill(v_begin(p), p.v_strides);
}

//! Offset in its array's view of a logical token of a request; its cache block must be mapped.
inline std::int64_t element_of(host_problem const& p, kv_strides const& strides, int request,
                               int token, int kv_head) {
  std::int64_t const entry = request * p.table_stride + token / p.block_tokens;
  return kv_offset(strides, p.block_entries[entry], token % p.block_tokens, kv_head);
}

//! Overwrites K and V of every token that no row attends to.
inline void poison_unselected(host_problem& p, std::uint16_t bits = half_nan) {
  int const block_tokens = p.block_tokens;
  std::vector<char> is_attended(std::size_t{1} * p.num_blocks * block_tokens);
  for (int row = 0; row < p.num_rows; ++row) {
    std::int64_t const request = p.row_request[row];
    for (std::int32_t const token : p.tokens_of(row)) {
      std::int64_t const entry = request * p.table_stride + token / block_tokens;
      std::int64_t const block = p.block_entries[entry];
      is_attended[block * block_tokens + token % block_tokens] = 1;
    }
  }
  for (int place = 0; place < p.num_blocks * block_tokens; ++place) {
    int const block = place / block_tokens, token = place % block_tokens;
    for (int head = 0; !is_attended[place] && head < p.num_kv_heads; ++head) {
      std::fill_n(p.k_data.data() + kv_offset(p.k_strides, block, token, head), p.head_dim, bits);
      std::fill_n(v_begin(p) + kv_offset(p.v_strides, block, token, head), p.head_dim, bits);
    }
  }
}

//! Overwrites one element of the query of a row and head.
inline void poison_query(host_problem& p, int row, int head, std::uint16_t bits) {
  std::int64_t const first         = row * p.q_row_stride + head * p.q_head_stride;
  p.q_data[first + p.head_dim / 3] = bits;
}

//! A random problem without Q, K and V.
inline host_problem make_tables(problem_spec const& spec) {
  problem_builder builder(spec);
  builder.make_rows();
  builder.make_selection();
  builder.spoil_rows();
  builder.make_block_table();
  return builder.finish();
}

//! A random problem.
inline host_problem make_problem(problem_spec const& spec) {
  host_problem problem = make_tables(spec);
  draw_queries(problem, spec.gap, spec.seed ^ 0x5eed);
  draw_cache(problem, spec.layout, spec.gap, spec.seed ^ 0xcac4e);
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
      std::copy_n(from.begin() + block * stride, stride, to.begin() + new_block[block] * stride);
    }
  };
  move_blocks(p.k_data, moved.k_data, p.k_strides.block);
  move_blocks(p.v_data, moved.v_data, p.v_strides.block);
  for (std::int32_t& entry : moved.block_entries) {
    if (entry >= 0 && entry < p.num_blocks) {
      entry = new_block[entry];
    }
  }
  return moved;
}

//! The same selection with the columns of every row in another order.
inline host_problem permuted_columns(host_problem const& p, std::uint64_t seed) {
  host_problem permuted = p;
  random_source source(seed);
  for (int row = 0; row < p.num_rows; ++row) {
    std::int32_t* const begin = permuted.row(row);
    std::vector<std::int32_t> entries(begin, begin + p.entries_in_use(row));
    source.shuffle(entries);
    std::copy(entries.begin(), entries.end(), begin);
  }
  return permuted;
}

}  // namespace pageunion::test
