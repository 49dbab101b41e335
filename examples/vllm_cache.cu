// SPDX-License-Identifier: Apache-2.0
// vLLM's tensors as arguments without a copy: its cache [num_blocks, num_kv_heads, block_tokens, 2 *
// head_dim], K and V side by side in the last axis, and a token table whose last column is the count.
// Usage: vllm_cache [rows of a request [block_tokens]]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <pageunion/pageunion.cuh>
#include <pageunion/reference.hpp>

#include "example.hpp"

namespace {

constexpr int kv_heads = 2, heads = 12, dim = 256, row_elements = heads * dim;
constexpr int page_tokens = 4, pages = 512, count_column = pages * page_tokens + 3;  // 2051
constexpr int requests = 3, padding_rows = 5;

// What the engine holds on the device, in its own shapes.
struct engine_step {
  int rows, block_tokens, num_blocks, max_blocks;
  __half const* q;                // [rows, heads, dim]
  __half const* kv;               // [num_blocks, kv_heads, block_tokens, 2 * dim]
  int const* block_table;         // [requests, max_blocks]
  int const* lengths;             // [requests], tokens in the cache
  int const* request_of_row;      // [rows], -1 = padding of the batch
  std::int64_t const* positions;  // [rows]
  int const* tokens;  // [rows, 2052]; column 2051 says how many of a row's columns count
  __half* out;        // [rows, heads, dim]
};

// The adapter: pointers and strides in elements, nothing else.
pageunion::prefill_args adapt(engine_step const& step) {
  pageunion::prefill_args args;
  args.rows = {step.rows, step.request_of_row, step.positions, step.lengths};

  pageunion::token_table table;
  table.tokens       = step.tokens;
  table.width        = count_column;
  table.row_stride   = count_column + 1;
  table.counts       = step.tokens + count_column;
  table.count_stride = table.row_stride;
  table.max_pages    = pages + 1;  // 512 and the tail: without it, room for 2051 pages of each row
  args.selected      = table;

  args.attention.q           = {step.q, heads, dim, row_elements, dim};
  args.attention.out         = {step.out, pageunion::element_type::f16, row_elements, dim};
  args.attention.scale       = 1 / std::sqrt(float(dim));
  pageunion::kv_cache& cache = args.attention.cache;
  cache.k                    = step.kv;
  cache.v                    = step.kv + dim;
  cache.k_strides.token      = 2 * dim;
  cache.k_strides.head       = step.block_tokens * cache.k_strides.token;
  cache.k_strides.block      = kv_heads * cache.k_strides.head;
  cache.v_strides            = cache.k_strides;
  cache.num_blocks           = step.num_blocks;
  cache.block_tokens         = step.block_tokens;
  cache.num_kv_heads         = kv_heads;
  cache.blocks               = {step.block_table, requests, step.max_blocks, step.max_blocks};
  return args;
}

// The same data in plain shapes on the host: what the reference reads.
struct plain_step {
  int rows, block_tokens, num_blocks, max_blocks;
  std::vector<int> lengths, block_table, request, table;  // table: [rows, 2051], then -1
  std::vector<std::int64_t> position;
  std::vector<__half> q, k, v;  // k and v: [num_blocks, block_tokens, kv_heads, dim]
};

// The last rows of a long, a short and a fresh request, then padding. A row chooses three pages of four,
// 512 at most, and its tail tokens.
plain_step draw(int rows_of_request, int block_tokens) {
  plain_step p{};
  p.rows         = requests * rows_of_request + padding_rows;
  p.block_tokens = block_tokens;
  p.lengths      = {rows_of_request + 2400, rows_of_request + 301, rows_of_request};
  p.max_blocks   = p.lengths[0] / block_tokens + 1;
  p.num_blocks   = requests * p.max_blocks;
  p.block_table  = shuffled_numbers(p.num_blocks);
  p.request.assign(p.rows, -1);
  p.position.assign(p.rows, 0);
  p.table.assign(std::size_t(p.rows) * count_column, -1);
  for (int row = 0; row < p.rows - padding_rows; ++row) {
    p.request[row]    = row / rows_of_request;
    p.position[row]   = p.lengths[p.request[row]] - rows_of_request + row % rows_of_request;
    int const visible = int(p.position[row]) + 1, whole = visible / page_tokens;
    int* entry = &p.table[std::size_t(row) * count_column];
    for (int page = 0, chosen = 0; page < whole && chosen < pages; ++page) {
      if (generator() % 4 == 0) continue;
      for (int i = 0; i < page_tokens; ++i) *entry++ = page * page_tokens + i;
      ++chosen;
    }
    for (int token = whole * page_tokens; token < visible; ++token) *entry++ = token;
  }
  p.q = random_halves(std::size_t(p.rows) * row_elements);
  p.k = random_halves(std::size_t(p.num_blocks) * block_tokens * kv_heads * dim);
  p.v = random_halves(p.k.size());
  return p;
}

pageunion::reference_result reference_of(plain_step const& p) {
  auto const strides = pageunion::contiguous_kv_strides(p.block_tokens, kv_heads, dim);
  pageunion::attention_operands operands;
  operands.q     = {p.q.data(), heads, dim, row_elements, dim};
  operands.cache = {p.k.data(),   p.v.data(),
                    strides,      strides,
                    p.num_blocks, p.block_tokens,
                    kv_heads,     {p.block_table.data(), requests, p.max_blocks, p.max_blocks}};
  operands.scale = 1 / std::sqrt(float(dim));
  pageunion::token_table const table{p.table.data(), count_column, count_column, nullptr, 1, 0};
  pageunion::reference_result expected;
  reference_attention({p.rows, p.request.data(), p.position.data(), p.lengths.data()}, table,
                      operands, page_tokens, expected);
  return expected;
}

engine_step to_engine(plain_step const& p) {
  std::vector<__half> kv;  // heads before tokens, K before V
  for (int i = 0; i < p.num_blocks * kv_heads * p.block_tokens; ++i) {
    int const token = i % p.block_tokens, head = i / p.block_tokens % kv_heads;
    std::ptrdiff_t const block = i / p.block_tokens / kv_heads;
    auto const from            = ((block * p.block_tokens + token) * kv_heads + head) * dim;
    kv.insert(kv.end(), p.k.begin() + from, p.k.begin() + from + dim);
    kv.insert(kv.end(), p.v.begin() + from, p.v.begin() + from + dim);
  }
  std::vector<int> tokens;  // past a row's count, what an earlier step left: tokens that exist
  for (auto row = p.table.begin(); row != p.table.end(); row += count_column) {
    auto const end = std::find(row, row + count_column, -1);
    tokens.insert(tokens.end(), row, end);
    tokens.resize(tokens.size() + (row + count_column - end), 0);
    tokens.push_back(int(end - row));
  }
  engine_step step{};
  step.rows           = p.rows;
  step.block_tokens   = p.block_tokens;
  step.num_blocks     = p.num_blocks;
  step.max_blocks     = p.max_blocks;
  step.q              = to_device(p.q);
  step.kv             = to_device(kv);
  step.block_table    = to_device(p.block_table);
  step.lengths        = to_device(p.lengths);
  step.request_of_row = to_device(p.request);
  step.positions      = to_device(p.position);
  step.tokens         = to_device(tokens);
  step.out            = to_device(std::vector<__half>(p.q.size(), __float2half(NAN)));
  return step;
}

}  // namespace

int main(int argc, char** argv) {
  if (lacks_device()) return skipped;
  plain_step const plain =
      draw(argc > 1 ? std::atoi(argv[1]) : 200, argc > 2 ? std::atoi(argv[2]) : 784);
  auto const expected                = reference_of(plain);
  engine_step const step             = to_engine(plain);
  pageunion::prefill_args const args = adapt(step);
  std::size_t bytes                  = 0;
  require(pageunion::workspace_bytes(args, bytes));
  require(pageunion::prefill(args, allocate(bytes), bytes, /*stream=*/nullptr));
  difference const off = compare(to_host(step.out, plain.q.size()), expected.out);
  bool const is_right  = off.largest <= 4e-3 && off.relative_l2 <= 5e-4;
  std::printf("%d rows, blocks of %d tokens: relative L2 %.2e, largest %.2e: %s\n", step.rows,
              step.block_tokens, off.relative_l2, off.largest, is_right ? "right" : "WRONG");
  return is_right ? 0 : 1;
}
