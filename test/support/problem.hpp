// SPDX-License-Identifier: Apache-2.0
//! @file
//! A whole attention problem in host memory: the arrays, and the views of them. Any array may be
//! changed after make_problem() made it; the views always show what is there.
#pragma once

#include <cuda_fp16.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <pageunion/kv_cache.hpp>
#include <pageunion/operands.hpp>
#include <pageunion/reference.hpp>
#include <pageunion/selection.hpp>

namespace pageunion::test {

//! How K and V are stored, outermost axis first.
enum class kv_layout {
  separate,            //!< two arrays [blocks, tokens, heads, dim]
  heads_first,         //!< two arrays [blocks, heads, tokens, dim]
  mixed,               //!< K as in separate, V as in heads_first
  interleaved_blocks,  //!< one array [blocks, K or V, tokens, heads, dim]
  interleaved_tokens,  //!< one array [blocks, tokens, heads, K or V, dim]
};

//! Where a token table's counts are.
enum class count_form {
  none,    //!< no counts: every row ends in -1
  array,   //!< an array of their own
  column,  //!< the column after the table's last
};

//! A form that a selection can have: a page table has no counts.
struct selection_form {
  selection_kind kind;
  count_form counts;
};
inline std::vector<selection_form> all_selection_forms() {
  return {{selection_kind::tokens, count_form::none},
          {selection_kind::tokens, count_form::array},
          {selection_kind::tokens, count_form::column},
          {selection_kind::pages, count_form::none}};
}

//! Which request the rows belong to, in what order.
enum class row_order {
  runs,      //!< the rows of a request are neighbours, by position
  shuffled,  //!< any row next to any other
};

//! How the pages of neighbouring rows are related.
enum class page_pattern {
  drifting,  //!< page scores of which a part changes from row to row: bench/README.md, Workloads
  same,      //!< all rows of a request choose the same pages
  disjoint,  //!< neighbouring rows share no page
};

//! Order of a row's entries.
enum class column_order { ascending, shuffled };

//! What the tokens hold that no row attends to.
enum class cache_fill {
  values,  //!< numbers like the others
  nans,    //!< NaN
};

//! What to build. Shares are probabilities in [0, 1].
struct problem_spec {
  std::uint64_t seed = 1;

  // Rows and requests.
  int num_rows     = 8;
  int num_requests = 1;
  std::vector<int> lengths;  //!< [num_requests] tokens; empty = random in [min_length, max_length]
  int min_length       = 100;
  int max_length       = 200;
  row_order order      = row_order::runs;
  double padding_rows  = 0.0;  //!< share of rows whose request is outside [0, num_requests)
  double odd_positions = 0.0;  //!< share of rows at negative positions or past their sequence

  // Cache.
  int page_tokens        = 4;
  int block_tokens       = 16;
  int num_kv_heads       = 1;
  int heads_per_kv       = 6;
  int head_dim           = 256;
  kv_layout layout       = kv_layout::separate;
  int gap                = 0;    //!< elements, a multiple of 8, unused after each extent of an axis
  std::int64_t block_gap = 0;    //!< elements, a multiple of 8, unused after each cache block
  int spare_blocks       = 3;    //!< physical cache blocks of no request
  int spare_columns      = 1;    //!< block table columns past the longest request; may be negative
  double unmapped_blocks = 0.0;  //!< share of block table entries outside [0, num_blocks)
  bool has_shared_prefix = false;  //!< requests map their first cache blocks to request 0's
  cache_fill unselected  = cache_fill::nans;

  // Selection.
  selection_kind kind    = selection_kind::tokens;
  int pages_per_row      = 8;  //!< whole pages that a row chooses, fewer if fewer are visible
  page_pattern pattern   = page_pattern::drifting;
  double rho             = 0.97;  //!< of the drift: 0 = unrelated, 1 = constant
  column_order columns   = column_order::shuffled;
  count_form counts      = count_form::none;
  double token_density   = 1.0;  //!< share of the tokens of a chosen page that are listed
  double holes           = 0.0;  //!< entries of -1 to add, as a share of a row's entries
  double duplicates      = 0.0;  //!< entries to add that the row has already, likewise
  double foreign_entries = 0.0;  //!< entries to add that the row may not see, likewise
  double empty_rows      = 0.0;  //!< share of rows that choose nothing
  int width     = 0;  //!< entries of a row, the rest is cut; 0 = the longest row's and up to 3 more
  int max_pages = 0;  //!< token_table::max_pages

  // Output.
  element_type out_type = element_type::f16;
  log_base lse_base     = log_base::natural;
  float scale           = 0.0f;  //!< 0 = 1 / sqrt(head_dim)
};

//! A specification with the pages and heads of a policy.
template <class Policy>
problem_spec spec_of() {
  problem_spec spec;
  spec.page_tokens  = Policy::page_tokens;
  spec.heads_per_kv = Policy::heads_per_kv;
  spec.head_dim     = Policy::head_dim;
  return spec;
}

//! First elements of a problem's arrays, in host or device memory.
struct problem_arrays {
  std::int32_t const* row_request     = nullptr;
  std::int64_t const* row_position    = nullptr;
  std::int32_t const* sequence_length = nullptr;
  std::uint16_t const* q              = nullptr;
  std::uint16_t const* k              = nullptr;
  std::uint16_t const* v              = nullptr;  //!< null if K and V are one array
  std::int32_t const* block_entries   = nullptr;
  std::int32_t const* entries         = nullptr;
  std::int32_t const* counts          = nullptr;  //!< null unless counts are an array of their own
  void* out                           = nullptr;
  float* lse                          = nullptr;
};

//! Arrays of a problem. Halves are kept as their bits, so that NaN compares equal to itself.
struct host_problem {
  problem_spec spec;

  std::vector<std::int32_t> row_request;      //!< [num_rows]
  std::vector<std::int64_t> row_position;     //!< [num_rows]
  std::vector<std::int32_t> sequence_length;  //!< [num_requests]

  std::vector<std::uint16_t> q_data;  //!< [num_rows, num_heads, head_dim] by q's strides
  std::int64_t q_row_stride  = 0;
  std::int64_t q_head_stride = 0;

  std::vector<std::uint16_t> k_data;  //!< K; K and V if they are interleaved
  std::vector<std::uint16_t> v_data;  //!< V; empty if they are interleaved
  std::int64_t v_first = 0;           //!< first element of V in its array
  kv_strides k_strides;
  kv_strides v_strides;
  int num_blocks = 0;
  std::vector<std::int32_t> block_entries;  //!< [num_requests, table_width] by table_stride
  int table_width           = 0;
  std::int64_t table_stride = 0;

  std::vector<std::int32_t> entries;  //!< [num_rows, width] by entry_stride
  int width                 = 0;
  std::int64_t entry_stride = 0;
  std::vector<std::int32_t> counts;  //!< [num_rows] if counts are an array of their own

  std::int64_t out_row_stride  = 0;
  std::int64_t out_head_stride = 0;
  std::int64_t lse_row_stride  = 0;
  float scale                  = 1.0f;

  int num_heads() const { return spec.heads_per_kv * spec.num_kv_heads; }

  //! Elements of the output array, gaps included.
  std::size_t out_elements() const {
    return static_cast<std::size_t>(spec.num_rows) * static_cast<std::size_t>(out_row_stride);
  }
  //! Elements of the lse array, gaps included.
  std::size_t lse_elements() const {
    return static_cast<std::size_t>(spec.num_rows) * static_cast<std::size_t>(lse_row_stride);
  }
  //! Bytes of an output element.
  std::size_t out_element_bytes() const { return spec.out_type == element_type::f16 ? 2 : 4; }

  problem_arrays arrays() const {
    problem_arrays a;
    a.row_request     = row_request.data();
    a.row_position    = row_position.data();
    a.sequence_length = sequence_length.data();
    a.q               = q_data.data();
    a.k               = k_data.data();
    a.v               = v_data.empty() ? nullptr : v_data.data();
    a.block_entries   = block_entries.data();
    a.entries         = entries.data();
    a.counts          = counts.empty() ? nullptr : counts.data();
    return a;
  }

  batch rows() const { return rows(arrays()); }
  batch rows(problem_arrays const& a) const {
    batch view;
    view.num_rows        = spec.num_rows;
    view.row_request     = a.row_request;
    view.row_position    = a.row_position;
    view.sequence_length = a.sequence_length;
    return view;
  }

  selection selected() const { return selected(arrays()); }
  selection selected(problem_arrays const& a) const {
    if (spec.kind == selection_kind::pages) {
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
    table.max_pages  = spec.max_pages;
    if (spec.counts == count_form::array) {
      table.counts = a.counts;
    } else if (spec.counts == count_form::column) {
      table.counts       = a.entries + width;
      table.count_stride = entry_stride;
    }
    return table;
  }

  //! Operands; out and lse are null in host memory, where nothing writes them.
  attention_operands operands() const { return operands(arrays()); }
  attention_operands operands(problem_arrays const& a) const {
    attention_operands view;
    view.q.data             = reinterpret_cast<__half const*>(a.q);
    view.q.num_heads        = num_heads();
    view.q.head_dim         = spec.head_dim;
    view.q.row_stride       = q_row_stride;
    view.q.head_stride      = q_head_stride;
    view.cache.k            = reinterpret_cast<__half const*>(a.k);
    view.cache.v            = reinterpret_cast<__half const*>((a.v ? a.v : a.k) + v_first);
    view.cache.k_strides    = k_strides;
    view.cache.v_strides    = v_strides;
    view.cache.num_blocks   = num_blocks;
    view.cache.block_tokens = spec.block_tokens;
    view.cache.num_kv_heads = spec.num_kv_heads;
    view.cache.blocks       = {a.block_entries, spec.num_requests, table_width, table_stride};
    view.out.data           = a.out;
    view.out.type           = spec.out_type;
    view.out.row_stride     = out_row_stride;
    view.out.head_stride    = out_head_stride;
    view.lse.data           = a.lse;
    view.lse.base           = spec.lse_base;
    view.lse.row_stride     = lse_row_stride;
    view.scale              = scale;
    return view;
  }

  //! S(row), by the reference.
  std::vector<std::int32_t> tokens_of(int row) const {
    return reference_tokens(rows(), selected(), operands().cache, spec.page_tokens, row);
  }

  //! The reference's result for all rows.
  reference_result reference() const {
    reference_result result;
    reference_attention(rows(), selected(), operands(), spec.page_tokens, result);
    return result;
  }
};

//! Elements [row * stride, (row + 1) * stride) of an array.
template <class Value>
std::vector<Value> slice_of(std::vector<Value> const& values, std::int64_t row,
                            std::int64_t stride) {
  auto const begin = values.begin() + row * stride;
  return std::vector<Value>(begin, begin + stride);
}

}  // namespace pageunion::test
