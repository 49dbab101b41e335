// SPDX-License-Identifier: Apache-2.0
//! @file
//! Synthetic problems whose rows overlap as the rows of real prompts do, and the figures that say how
//! much they overlap. Host memory only; knows no kernel.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <pageunion/operands.hpp>
#include <pageunion/selection.hpp>

namespace pageunion::bench {

//! How K and V lie in memory.
enum class kv_layout : int {
  separate,     //!< two arrays [num_blocks, block_tokens, num_kv_heads, head_dim]
  interleaved,  //!< one array [num_blocks, 2, block_tokens, num_kv_heads, head_dim]
};

//! How the rows choose their pages.
enum class choice : int {
  scored,    //!< the best pages by a score that drifts from row to row
  disjoint,  //!< adjacent rows share no page
};

//! What to generate. Every request has the same number of rows, the last of `context` tokens.
struct workload_shape {
  std::string name;
  std::int32_t num_rows     = 8192;
  std::int32_t num_requests = 1;
  std::int32_t context      = 8192;  //!< tokens of each request, this call's rows included

  choice chosen          = choice::scored;
  double fixed_deviation = 0.7;   //!< standard deviation of the part of a score that never changes
  double rho             = 0.97;  //!< how much of the other part stays from one row to the next

  selection_kind kind         = selection_kind::tokens;
  std::int32_t page_tokens    = 4;
  std::int32_t selected_pages = 512;  //!< fully visible pages of a row, at most
  std::int32_t num_heads      = 6;
  std::int32_t num_kv_heads   = 1;
  std::int32_t head_dim       = 256;
  std::int32_t block_tokens   = 784;  //!< tokens of a cache block
  kv_layout layout            = kv_layout::separate;
  std::uint32_t seed          = 1;
};

//! A complete attention problem in host memory. The views at the end point into its arrays, so a
//! problem may be moved but views taken before a copy belong to the original.
struct problem {
  std::string name;
  std::int32_t num_rows     = 0;
  std::int32_t num_requests = 0;
  std::int32_t num_heads    = 0;
  std::int32_t num_kv_heads = 0;
  std::int32_t head_dim     = 0;
  std::int32_t page_tokens  = 0;
  std::int32_t block_tokens = 0;
  std::int32_t num_blocks   = 0;  //!< physical cache blocks
  std::int32_t table_width  = 0;  //!< logical cache blocks of a request
  selection_kind kind       = selection_kind::tokens;
  std::int32_t width        = 0;     //!< entries of a row's selection
  std::int32_t max_pages    = 0;     //!< pages of a row at most; 0 = unknown
  float scale               = 0.0f;  //!< 1 / sqrt(head_dim)
  kv_strides k_strides;              //!< elements, from kv_storage[k_offset]
  kv_strides v_strides;              //!< elements, from kv_storage[v_offset]
  std::int64_t k_offset = 0;         //!< element of kv_storage where K starts
  std::int64_t v_offset = 0;         //!< element of kv_storage where V starts

  std::vector<std::int32_t> row_request;      //!< [num_rows]
  std::vector<std::int64_t> row_position;     //!< [num_rows]
  std::vector<std::int32_t> sequence_length;  //!< [num_requests]
  std::vector<std::int32_t> block_table;      //!< [num_requests, table_width]
  std::vector<std::int32_t> selected;         //!< [num_rows, width] tokens or pages
  std::vector<std::int32_t> counts;           //!< [num_rows] entries in use, or empty
  std::vector<__half> q;                      //!< [num_rows, num_heads, head_dim]
  std::vector<__half> kv_storage;             //!< K and V, laid out by the strides above

  //! Views of the arrays above; out and lse are left null.
  batch rows() const;
  selection selection_view() const;
  attention_operands operands() const;
};

//! How much the rows of a problem share.
struct overlap {
  double jaccard       = 0.0;  //!< mean over adjacent rows of |A and B| / |A or B|, in pages
  double growth[4]     = {};  //!< pages of a union of 2, 4, 8, 16 rows over the mean pages of a row
  double pages_per_row = 0.0;  //!< mean
  double asked_tokens  = 0.0;  //!< (row, token) pairs of all rows
};

//! Row counts of overlap::growth.
inline constexpr int growth_rows[4] = {2, 4, 8, 16};

//! The workloads by name: fresh-8k, chunk-32k, long-tail, long-tail-131k, disjoint, verify.
std::optional<workload_shape> named_workload(std::string_view name);

//! The names that named_workload() knows.
std::vector<std::string> workload_names();

//! A step of the overlap sweep: 8,192 rows at the end of 32,768 tokens whose union growth at 8 rows
//! climbs with `step`, from 1.05 (step 0) to 3.96 (the last).
workload_shape overlap_step(int step);

//! Steps of overlap_step().
inline constexpr int num_overlap_steps = 7;

//! Generates rows, selection and a permuted block table; no Q, K or V yet.
problem make_tables(workload_shape const& shape);

//! Gives a problem queries: independent values, nearly normal, of deviation 1.
void draw_queries(problem& p, std::uint32_t seed);

//! Gives a problem K and V: independent values, nearly normal, of deviation 1.
void draw_cache(problem& p, kv_layout layout, std::uint32_t seed);

//! Tables and operands.
problem make_workload(workload_shape const& shape);

//! Measures the overlap of a problem's selection, tail pages included.
overlap measure_overlap(problem const& p);

//! One line: Jaccard and growth, for people.
std::string to_string(overlap const& o);

}  // namespace pageunion::bench
