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
#include <pageunion/rules.hpp>
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

//! The sizes of a call.
struct problem_shape {
  int num_rows           = 8;
  int num_requests       = 1;
  int page_tokens        = 4;
  int block_tokens       = 16;
  int num_kv_heads       = 1;
  int heads_per_kv       = 6;
  int head_dim           = 256;
  selection_kind kind    = selection_kind::tokens;
  count_form counts_form = count_form::none;
  int max_pages          = 0;  //!< token_table::max_pages
  element_type out_type  = element_type::f16;
  log_base lse_base      = log_base::natural;
  float scale            = 0.0f;  //!< of a specification 0 = 1 / sqrt(head_dim)
  std::string name;               //!< for people

  int num_heads() const { return heads_per_kv * num_kv_heads; }
};

//! What to build. Shares are probabilities in [0, 1].
struct problem_spec : problem_shape {
  std::uint64_t seed = 1;

  // Rows and requests.
  std::vector<int> lengths;  //!< [num_requests] tokens; empty = random in [min_length, max_length]
  int min_length       = 100;
  int max_length       = 200;
  row_order order      = row_order::runs;
  double padding_rows  = 0.0;  //!< share of rows whose request is outside [0, num_requests)
  double odd_positions = 0.0;  //!< share of rows at negative positions or past their sequence

  // Cache.
  kv_layout layout       = kv_layout::separate;
  int gap                = 0;    //!< elements, a multiple of 8, unused after each extent of an axis
  int spare_blocks       = 3;    //!< physical cache blocks of no request
  int spare_columns      = 1;    //!< block table columns past the longest request; may be negative
  double unmapped_blocks = 0.0;  //!< share of block table entries outside [0, num_blocks)
  bool has_shared_prefix = false;  //!< requests map their first cache blocks to request 0's
  cache_fill unselected  = cache_fill::nans;

  // Selection.
  int pages_per_row      = 8;  //!< whole pages that a row chooses, fewer if fewer are visible
  page_pattern pattern   = page_pattern::drifting;
  double rho             = 0.97;  //!< of the drift: 0 = unrelated, 1 = constant
  column_order columns   = column_order::shuffled;
  double token_density   = 1.0;  //!< share of the tokens of a chosen page that are listed
  double holes           = 0.0;  //!< entries of -1 to add, as a share of a row's entries
  double duplicates      = 0.0;  //!< entries to add that the row has already, likewise
  double foreign_entries = 0.0;  //!< entries to add that the row may not see, likewise
  double empty_rows      = 0.0;  //!< share of rows that choose nothing
  int width = 0;  //!< entries of a row, the rest is cut; 0 = the longest row's and up to 3 more
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

//! Arrays of a problem. Halves are kept as their bits, so that NaN compares equal to itself. Arrays of
//! rows may be longer than num_rows.
struct host_problem : problem_shape {
  std::vector<std::int32_t> row_request;      //!< [num_rows]
  std::vector<std::int64_t> row_position;     //!< [num_rows]
  std::vector<std::int32_t> sequence_length;  //!< [num_requests]

  std::vector<std::uint16_t> q_data;  //!< [num_rows, num_heads, head_dim] by q's strides
  std::int64_t q_row_stride  = 0;
  std::int64_t q_head_stride = 0;

  std::vector<std::uint16_t> k_data;  //!< K; K and V if they are one array
  std::vector<std::uint16_t> v_data;  //!< V; empty if they are one array
  std::int64_t k_first = 0;           //!< first element of K in its array
  std::int64_t v_first = 0;           //!< first element of V in its array
  kv_strides k_strides;
  kv_strides v_strides;
  int num_blocks = 0;                       //!< physical cache blocks
  std::vector<std::int32_t> block_entries;  //!< [num_requests, table_width] by table_stride
  int table_width           = 0;
  std::int64_t table_stride = 0;

  std::vector<std::int32_t> entries;  //!< [num_rows, width] by entry_stride
  int width                 = 0;
  std::int64_t entry_stride = 0;
  std::vector<std::int32_t> counts;  //!< [num_rows] if counts are an array of their own
  int count_column = 0;              //!< of a table that holds its counts: 0 = width, the next one

  std::int64_t out_row_stride  = 0;
  std::int64_t out_head_stride = 0;
  std::int64_t lse_row_stride  = 0;

  //! A row's entries.
  std::int32_t* row(int r) { return entries.data() + r * entry_stride; }
  std::int32_t const* row(int r) const { return entries.data() + r * entry_stride; }

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
    a.counts          = counts.data();
    return a;
  }

  batch rows() const { return rows(arrays()); }
  batch rows(problem_arrays const& a) const {
    return {num_rows, a.row_request, a.row_position, a.sequence_length};
  }

  selection selected() const { return selected(arrays()); }
  selection selected(problem_arrays const& a) const {
    if (kind == selection_kind::pages) {
      return page_table{a.entries, width, entry_stride};
    }
    token_table table{a.entries, width, entry_stride, nullptr, 1, max_pages};
    if (counts_form == count_form::array) {
      table.counts = a.counts;
    } else if (counts_form == count_form::column) {
      table.counts       = a.entries + (count_column > 0 ? count_column : width);
      table.count_stride = entry_stride;
    }
    return table;
  }

  //! Operands; out and lse are null in host memory, where nothing writes them.
  attention_operands operands() const { return operands(arrays()); }
  attention_operands operands(problem_arrays const& a) const {
    attention_operands view;
    view.q       = {reinterpret_cast<__half const*>(a.q), num_heads(), head_dim, q_row_stride,
                    q_head_stride};
    view.cache.k = reinterpret_cast<__half const*>(a.k + k_first);
    view.cache.v = reinterpret_cast<__half const*>((a.v ? a.v : a.k) + v_first);
    view.cache.k_strides    = k_strides;
    view.cache.v_strides    = v_strides;
    view.cache.num_blocks   = num_blocks;
    view.cache.block_tokens = block_tokens;
    view.cache.num_kv_heads = num_kv_heads;
    view.cache.blocks       = {a.block_entries, num_requests, table_width, table_stride};
    view.out                = {a.out, out_type, out_row_stride, out_head_stride};
    view.lse                = {a.lse, lse_base, lse_row_stride, 1};
    view.scale              = scale;
    return view;
  }

  //! S(row), by the reference.
  std::vector<std::int32_t> tokens_of(int row) const {
    return reference_tokens(rows(), selected(), operands().cache, page_tokens, row);
  }

  //! The reference's result for all rows.
  reference_result reference() const {
    reference_result result;
    reference_attention(rows(), selected(), operands(), page_tokens, result);
    return result;
  }

  //! Entries of a row that its count admits.
  int entries_in_use(int r) const {
    token_table const& table = selected().tokens;
    bool const has_count     = kind == selection_kind::tokens && table.counts != nullptr;
    int const count          = has_count ? table.counts[r * table.count_stride] : width;
    return count < 0 ? 0 : count < width ? count : width;
  }
};

//! Pages that a row of a problem may have, by its shapes.
inline std::int64_t most_pages_per_row(host_problem const& p) {
  return max_pages_per_row(p.selected(), p.page_tokens, p.block_tokens, p.table_width);
}

//! Elements [row * stride, (row + 1) * stride) of an array.
template <class Value>
std::vector<Value> slice_of(std::vector<Value> const& values, std::int64_t row,
                            std::int64_t stride) {
  auto const begin = values.begin() + row * stride;
  return std::vector<Value>(begin, begin + stride);
}

}  // namespace pageunion::test
