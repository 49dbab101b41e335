// SPDX-License-Identifier: Apache-2.0
// Sparse attention of one layer for the rows of a prompt: each attends to 512 pages of 4 tokens at most.
// README.md shows the call. Usage: quick_start [rows]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <pageunion/pageunion.cuh>
#include <pageunion/reference.hpp>

#include "example.hpp"

int main(int argc, char** argv) {
  if (lacks_device()) return skipped;
  constexpr int num_heads = 6, num_kv_heads = 1, head_dim = 256;  // those of pageunion::qsa_policy
  constexpr int page_tokens = 4, pages_per_row = 512, block_tokens = 16, num_requests = 1;
  int const num_rows   = argc > 1 ? std::atoi(argv[1]) : 8192;
  int const num_blocks = (num_rows + block_tokens - 1) / block_tokens;

  // Row r is token r of the only request, whose cache blocks lie anywhere in the cache.
  std::vector<int> const row_request(num_rows, 0), lengths(num_requests, num_rows);
  auto const row_position = consecutive_positions(/*first=*/0, num_rows);
  auto const block_table  = shuffled_numbers(num_blocks);
  auto const pages        = choose_pages(row_position, page_tokens, pages_per_row);
  auto const queries      = random_halves(std::size_t(num_rows) * num_heads * head_dim);
  auto const keys = random_halves(std::size_t(num_blocks) * block_tokens * num_kv_heads * head_dim);
  auto const values         = random_halves(keys.size());
  __half* const out         = to_device(std::vector<__half>(queries.size()));
  cudaStream_t const stream = nullptr;

  pageunion::prefill_args args;
  args.rows.num_rows        = num_rows;
  args.rows.row_request     = to_device(row_request);   // int32 [num_rows]
  args.rows.row_position    = to_device(row_position);  // int64 [num_rows], in the row's request
  args.rows.sequence_length = to_device(lengths);       // int32 [num_requests], tokens in the cache
  args.selected             = pageunion::page_table{to_device(pages), pages_per_row, pages_per_row};
  args.attention.q.data     = to_device(queries);  // half [num_rows, num_heads, head_dim]
  args.attention.q.num_heads   = num_heads;
  args.attention.q.head_dim    = head_dim;
  args.attention.q.row_stride  = num_heads * head_dim;  // in elements, like all strides
  args.attention.q.head_stride = head_dim;
  args.attention.out         = {out, pageunion::element_type::f16, num_heads * head_dim, head_dim};
  args.attention.scale       = 1 / std::sqrt(float(head_dim));
  pageunion::kv_cache& cache = args.attention.cache;
  cache.k            = to_device(keys);  // half [num_blocks, block_tokens, num_kv_heads, head_dim]
  cache.v            = to_device(values);
  cache.k_strides    = pageunion::contiguous_kv_strides(block_tokens, num_kv_heads, head_dim);
  cache.v_strides    = cache.k_strides;
  cache.num_blocks   = num_blocks;
  cache.block_tokens = block_tokens;
  cache.num_kv_heads = num_kv_heads;
  cache.blocks       = {to_device(block_table), num_requests, num_blocks, num_blocks};
  std::size_t bytes  = 0;
  require(pageunion::workspace_bytes(args, bytes));  // prints what is wrong and exits unless ok
  require(pageunion::prefill(args, allocate(bytes), bytes, stream));

  // The same views of host memory, for the reference in double precision.
  args.rows                 = {num_rows, row_request.data(), row_position.data(), lengths.data()};
  args.selected.pages.pages = pages.data();
  args.attention.q.data     = queries.data();
  cache.k                   = keys.data();
  cache.v                   = values.data();
  cache.blocks.table        = block_table.data();
  std::vector<int> const sampled{0, 1, num_rows / 2, num_rows - 1};
  pageunion::reference_result expected;
  reference_rows(args.rows, args.selected, args.attention, page_tokens, sampled, expected);
  auto const result  = pick_rows(to_host(out, queries.size()), sampled, num_heads * head_dim);
  double const error = compare(result, expected.out).relative_l2;
  std::printf("%d rows; relative L2 error of %d of them: %.2e: %s\n", num_rows, int(sampled.size()),
              error, error <= 5e-4 ? "right" : "WRONG");
  return error <= 5e-4 ? 0 : 1;
}
