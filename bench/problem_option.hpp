// SPDX-License-Identifier: Apache-2.0
//! @file
//! The quick start's options --problem FILE and --export FILE, where it is built beside the benchmarks.
//! The quick start itself knows nothing of files.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include <pageunion/prefill.cuh>

#include "problem_file.hpp"
#include "workload.hpp"

namespace pageunion::bench {

//! The arrays that a program's views point into.
struct problem_arrays {
  std::vector<std::int32_t>& selected;
  std::vector<std::int32_t>& counts;
  std::vector<std::int32_t>& row_request;
  std::vector<std::int64_t>& row_position;
  std::vector<std::int32_t>& sequence_length;
  std::vector<std::int32_t>& block_table;
  std::vector<__half>& q;
  std::vector<__half>& kv;
  std::size_t& k_first;  //!< element of kv where K starts
  std::size_t& v_first;  //!< element of kv where V starts
};

//! Ends the program with a sentence.
[[noreturn]] inline void stop(std::string const& sentence, int code) {
  std::printf("%s\n", sentence.c_str());
  std::exit(code);
}

//! Puts a file's problem in the place of the program's own; its heads and pages must be those of the
//! program, which calls prefill() with the default policy.
inline void take_problem(std::string const& path, prefill_args& args,
                         problem_arrays const& arrays) {
  host_problem p;
  std::string const wrong = read_problem(path, p);
  if (!wrong.empty()) {
    stop(wrong, EXIT_FAILURE);
  }
  query_view const& q = args.attention.q;
  if (p.num_heads() != q.num_heads || p.head_dim != q.head_dim ||
      p.page_tokens != qsa_policy::page_tokens || p.num_rows == 0) {
    stop(path + ": expected rows, " + std::to_string(q.num_heads) + " heads of " +
             std::to_string(q.head_dim) + " elements, and pages of " +
             std::to_string(qsa_policy::page_tokens) + " tokens",
         EXIT_FAILURE);
  }
  // K and V of the program are halves in one array.
  if (!p.v_data.empty()) {
    p.v_first += static_cast<std::int64_t>(p.k_data.size());
    p.k_data.insert(p.k_data.end(), p.v_data.begin(), p.v_data.end());
    p.v_data.clear();
  }
  auto const halves = [](std::vector<std::uint16_t> const& bits) {
    auto const* const begin = reinterpret_cast<__half const*>(bits.data());
    return std::vector<__half>(begin, begin + bits.size());
  };
  // Moving an array leaves it where it is, so that the views stay right.
  args.rows              = p.rows();
  args.selected          = p.selected();
  args.attention         = p.operands();
  arrays.q               = halves(p.q_data);
  arrays.kv              = halves(p.k_data);
  args.attention.q.data  = arrays.q.data();
  args.attention.cache.k = arrays.kv.data() + p.k_first;
  args.attention.cache.v = arrays.kv.data() + p.v_first;
  arrays.selected        = std::move(p.entries);
  arrays.counts          = std::move(p.counts);
  arrays.row_request     = std::move(p.row_request);
  arrays.row_position    = std::move(p.row_position);
  arrays.sequence_length = std::move(p.sequence_length);
  arrays.block_table     = std::move(p.block_entries);
  arrays.k_first         = static_cast<std::size_t>(p.k_first);
  arrays.v_first         = static_cast<std::size_t>(p.v_first);
}

//! Writes the program's problem to a file and ends the program.
[[noreturn]] inline void export_problem(std::string const& path, prefill_args const& args,
                                        problem_arrays const& arrays) {
  kv_cache const& cache    = args.attention.cache;
  token_table const& table = args.selected.tokens;
  host_problem p;
  p.name            = "quick_start";
  p.num_rows        = args.rows.num_rows;
  p.num_requests    = cache.blocks.num_requests;
  p.num_kv_heads    = cache.num_kv_heads;
  p.heads_per_kv    = args.attention.q.num_heads / cache.num_kv_heads;
  p.head_dim        = args.attention.q.head_dim;
  p.page_tokens     = qsa_policy::page_tokens;
  p.block_tokens    = cache.block_tokens;
  p.num_blocks      = cache.num_blocks;
  p.table_width     = cache.blocks.width;
  p.width           = table.width;
  p.max_pages       = table.max_pages;
  p.scale           = args.attention.scale;
  p.k_strides       = cache.k_strides;
  p.v_strides       = cache.v_strides;
  p.k_first         = static_cast<std::int64_t>(arrays.k_first);
  p.v_first         = static_cast<std::int64_t>(arrays.v_first);
  p.entries         = arrays.selected;
  p.row_request     = arrays.row_request;
  p.row_position    = arrays.row_position;
  p.sequence_length = arrays.sequence_length;
  p.block_entries   = arrays.block_table;
  auto const bits   = [](std::vector<__half> const& halves) {
    auto const* const begin = reinterpret_cast<std::uint16_t const*>(halves.data());
    return std::vector<std::uint16_t>(begin, begin + halves.size());
  };
  p.q_data                = bits(arrays.q);
  p.k_data                = bits(arrays.kv);
  std::string const wrong = write_problem(path, p);
  stop(wrong.empty() ? path + ": written" : wrong, wrong.empty() ? EXIT_SUCCESS : EXIT_FAILURE);
}

//! Follows the options, --problem FILE or --export FILE; there may be none.
//! @param args   the program's own problem, views of host memory; a token table without counts
//! @param arrays what the views point into
inline void follow_problem_option(int num_options, char** options, prefill_args& args,
                                  problem_arrays const& arrays) {
  if (num_options == 0) {
    return;
  }
  std::string const option = options[0];
  if (num_options == 2 && option == "--problem") {
    take_problem(options[1], args, arrays);
  } else if (num_options == 2 && option == "--export") {
    export_problem(options[1], args, arrays);
  } else {
    stop("expected --problem FILE or --export FILE", EXIT_FAILURE);
  }
}

}  // namespace pageunion::bench
