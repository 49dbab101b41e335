// SPDX-License-Identifier: Apache-2.0
#include "../examples/problem_arrays.hpp"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "problem_file.hpp"

namespace {

using pageunion::bench::host_problem;

//! Ends the program with a sentence.
[[noreturn]] void stop(std::string const& sentence, int code) {
  std::printf("%s\n", sentence.c_str());
  std::exit(code);
}

}  // namespace

void read_problem(std::string const& path, pageunion::prefill_args& args, problem_arrays& arrays) {
  using policy = pageunion::qsa_policy;
  host_problem p;
  std::string const wrong = pageunion::bench::read_problem(path, p);
  if (!wrong.empty()) {
    stop(wrong, EXIT_FAILURE);
  }
  if (p.num_heads() != policy::heads_per_kv || p.num_kv_heads != 1 ||
      p.head_dim != policy::head_dim || p.page_tokens != policy::page_tokens || p.num_rows == 0) {
    stop(path + ": expected rows, " + std::to_string(policy::heads_per_kv) + " heads of " +
             std::to_string(policy::head_dim) + " elements on one KV head, and pages of " +
             std::to_string(policy::page_tokens) + " tokens",
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

void write_problem(std::string const& path, pageunion::prefill_args const& args,
                   problem_arrays const& arrays) {
  pageunion::kv_cache const& cache    = args.attention.cache;
  pageunion::token_table const& table = args.selected.tokens;
  host_problem p;
  p.name            = "verify_prefill";
  p.num_rows        = args.rows.num_rows;
  p.num_requests    = cache.blocks.num_requests;
  p.num_kv_heads    = cache.num_kv_heads;
  p.heads_per_kv    = args.attention.q.num_heads / cache.num_kv_heads;
  p.head_dim        = args.attention.q.head_dim;
  p.page_tokens     = pageunion::qsa_policy::page_tokens;
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
  std::string const wrong = pageunion::bench::write_problem(path, p);
  stop(wrong.empty() ? path + ": written" : wrong, wrong.empty() ? EXIT_SUCCESS : EXIT_FAILURE);
}
