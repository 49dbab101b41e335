// SPDX-License-Identifier: Apache-2.0
// Context parallelism on one GPU: the cache blocks of a prompt are dealt to several shards, each attends
// to what it has, and merge_partials() makes the result of the whole cache of the partial ones.
// Usage: context_parallel [rows [shards]]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <pageunion/pageunion.cuh>
#include <pageunion/reference.hpp>

#include "example.hpp"

namespace {

constexpr int heads = 6, dim = 256, page_tokens = 4, row_elements = heads * dim;
constexpr int block_tokens = 20, block_elements = block_tokens * dim, width = 64;  // pages of a row

// The cache blocks that one shard holds, and where the prompt's blocks are in it: -1 = not here.
struct shard {
  std::vector<__half> k, v;
  std::vector<int> table;
};

// Every `count`-th block of the whole cache, from block `index` on.
shard deal(shard const& whole, int index, int count) {
  shard part;
  part.table.assign(whole.table.size(), -1);
  for (std::size_t block = index; block < whole.table.size(); block += count) {
    auto const first  = std::ptrdiff_t(whole.table[block]) * block_elements;
    part.table[block] = int(part.k.size() / block_elements);
    part.k.insert(part.k.end(), whole.k.begin() + first, whole.k.begin() + first + block_elements);
    part.v.insert(part.v.end(), whole.v.begin() + first, whole.v.begin() + first + block_elements);
  }
  return part;
}

pageunion::kv_cache view(shard const& from) {
  pageunion::kv_cache cache;
  cache.k            = from.k.data();
  cache.v            = from.v.data();
  cache.k_strides    = pageunion::contiguous_kv_strides(block_tokens, 1, dim);
  cache.v_strides    = cache.k_strides;
  cache.num_blocks   = int(from.k.size() / block_elements);
  cache.block_tokens = block_tokens;
  cache.num_kv_heads = 1;
  cache.blocks = {from.table.data(), 1, int(from.table.size()), std::int64_t(from.table.size())};
  return cache;
}

// Results on the device for `items` (row, head) pairs: out [items, dim] and lse [items].
struct result {
  float* out;
  float* lse;
};
result new_result(std::size_t items) {
  return {to_device(std::vector<float>(items * dim, NAN)),
          to_device(std::vector<float>(items, NAN))};
}
pageunion::output_view out_view(result to) {
  return {to.out, pageunion::element_type::f32, row_elements, dim};
}
pageunion::lse_view lse_view(result to) { return {to.lse, pageunion::log_base::natural, heads, 1}; }

// Attention to the tokens of one shard, on its GPU: all but the cache is the same on each of them.
void attend(pageunion::prefill_args args, shard const& from, result to) {
  args.attention.cache              = view(from);
  args.attention.cache.k            = to_device(from.k);
  args.attention.cache.v            = to_device(from.v);
  args.attention.cache.blocks.table = to_device(from.table);
  args.attention.out                = out_view(to);
  args.attention.lse                = lse_view(to);
  std::size_t bytes                 = 0;
  require(pageunion::workspace_bytes(args, bytes));
  require(pageunion::prefill(args, allocate(bytes), bytes, /*stream=*/nullptr));
}

// Merges what was gathered on one GPU: out [shards, rows, heads, dim] and lse [shards, rows, heads].
void merge(result from, int shards, int rows, result to) {
  pageunion::partial_view partials;
  partials.out                = from.out;
  partials.lse                = from.lse;
  partials.out_head_stride    = dim;
  partials.out_row_stride     = row_elements;
  partials.out_partial_stride = std::int64_t(rows) * row_elements;
  partials.lse_row_stride     = heads;
  partials.lse_partial_stride = std::int64_t(rows) * heads;
  require(pageunion::merge_partials<pageunion::qsa_policy::head_dim>(
      partials, shards, rows, heads, out_view(to), lse_view(to), /*stream=*/nullptr));
}

}  // namespace

int main(int argc, char** argv) {
  if (lacks_device()) return skipped;
  // A fresh prompt: its first rows see one block, and so have nothing on most shards.
  int const rows = argc > 1 ? std::atoi(argv[1]) : 1024, shards = argc > 2 ? std::atoi(argv[2]) : 4;
  std::size_t const items = std::size_t(rows) * heads;
  std::vector<int> pages(std::size_t(rows) * width), request(rows, 0), length(1, rows);
  std::vector<std::int64_t> const position = consecutive_positions(/*first=*/0, rows);
  for (std::size_t i = 0; i < pages.size();
       ++i)  // repeats count once, pages of the future not at all
    pages[i] = int(generator() % (i / width / page_tokens + 1));
  auto const q = random_halves(items * dim);
  shard whole;
  whole.table = shuffled_numbers((rows + block_tokens - 1) / block_tokens);
  whole.k     = random_halves(whole.table.size() * block_elements);
  whole.v     = random_halves(whole.k.size());

  pageunion::prefill_args args;
  args.rows            = {rows, request.data(), position.data(), length.data()};
  args.selected        = pageunion::page_table{pages.data(), width, width};
  args.attention.q     = {q.data(), heads, dim, row_elements, dim};
  args.attention.scale = 1 / std::sqrt(float(dim));
  args.attention.cache = view(whole);
  pageunion::reference_result expected;
  reference_attention(args.rows, args.selected, args.attention, page_tokens, expected);

  // The rows and their selection go to every shard; a shard drops what it does not have.
  args.rows                 = {rows, to_device(request), to_device(position), to_device(length)};
  args.selected.pages.pages = to_device(pages);
  args.attention.q.data     = to_device(q);
  result const partials = new_result(shards * items), merged = new_result(items),
               unsplit = new_result(items);
  for (int i = 0; i < shards; ++i)
    attend(args, deal(whole, i, shards),
           {partials.out + i * items * dim, partials.lse + i * items});
  merge(partials, shards, rows, merged);
  attend(args, whole, unsplit);
  auto const out = to_host(merged.out, items * dim), lse = to_host(merged.lse, items);
  double const errors[] = {compare(out, expected.out).relative_l2,
                           compare(lse, expected.lse).relative_l2,
                           compare(out, to_host(unsplit.out, items * dim)).relative_l2,
                           compare(lse, to_host(unsplit.lse, items)).relative_l2};

  // Where one shard alone has tokens, merging it with empties keeps every bit.
  auto const part_out = to_host(partials.out, shards * items * dim);
  auto const part_lse = to_host(partials.lse, shards * items);
  int empties = 0, inexact = 0;
  for (std::size_t item = 0; item < items; ++item) {
    std::vector<std::size_t> present;
    for (std::size_t i = item; i < part_lse.size(); i += items)
      if (part_lse[i] != -INFINITY) present.push_back(i);
    empties += shards - int(present.size());
    if (present.size() != 1) continue;
    float const* const only = &part_out[present[0] * dim];
    inexact += !std::equal(only, only + dim, &out[item * dim]) || part_lse[present[0]] != lse[item];
  }
  bool const is_right = inexact == 0 && errors[0] <= 5e-4 && errors[1] <= 1e-5 &&
                        errors[2] <= 5e-4 && errors[3] <= 1e-5;
  std::printf(
      "relative L2 of out and lse: %.2e, %.2e to the reference; %.2e, %.2e to the unsplit run\n",
      errors[0], errors[1], errors[2], errors[3]);
  std::printf("%d of %d partial results were empty, %d did not merge exactly: %s\n", empties,
              int(part_lse.size()), inexact, is_right ? "right" : "WRONG");
  return is_right ? 0 : 1;
}
