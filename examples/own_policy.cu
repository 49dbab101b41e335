// SPDX-License-Identifier: Apache-2.0
// A policy of one's own: 12 query heads on each of 2 KV heads and pages of 8 tokens, by both routes.
// Usage: own_policy [rows]
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <pageunion/pageunion.cuh>
#include <pageunion/reference.hpp>

#include "example.hpp"

namespace {

// What differs from qsa_policy. The library chooses warps and tiles for it. A policy that does not fit
// fails to compile, with a sentence that names the nearest that does.
struct own_policy : pageunion::qsa_policy {
  static constexpr int page_tokens  = 8;
  static constexpr int heads_per_kv = 12;
  static constexpr int group_rows   = 4;
};

constexpr int kv_heads = 2, heads = kv_heads * own_policy::heads_per_kv, dim = own_policy::head_dim;
constexpr int page_tokens = own_policy::page_tokens, row_elements = heads * dim;

// The output of one call, [rows, heads, dim].
std::vector<float> attend(pageunion::prefill_args args, pageunion::route route) {
  std::size_t const elements = std::size_t(args.rows.num_rows) * row_elements;
  float* const out           = to_device(std::vector<float>(elements, NAN));
  args.route                 = route;
  args.attention.out         = {out, pageunion::element_type::f32, row_elements, dim};
  std::size_t bytes          = 0;
  require(pageunion::workspace_bytes<own_policy>(args, bytes));
  require(pageunion::prefill<own_policy>(args, allocate(bytes), bytes, /*stream=*/nullptr));
  return to_host(out, elements);
}

// Prints how far two results are apart; true if no farther than float and half arithmetic explain.
template <class T>
bool agree(char const* what, std::vector<float> const& a, std::vector<T> const& b) {
  difference const off = compare(a, b);
  bool const is_right  = off.largest <= 2e-3 && off.relative_l2 <= 5e-4;
  std::printf("%s: relative L2 %.2e, largest %.2e: %s\n", what, off.relative_l2, off.largest,
              is_right ? "right" : "WRONG");
  return is_right;
}

}  // namespace

int main(int argc, char** argv) {
  if (lacks_device()) return skipped;
  // The last quarter of a prompt, in cache blocks of 24 tokens; a row attends to an eighth of them.
  int const rows = argc > 1 ? std::atoi(argv[1]) : 512, length = 4 * rows, block_tokens = 24;
  int const width  = length / page_tokens / 8;
  int const blocks = (length + block_tokens - 1) / block_tokens;
  // The row's last, partly visible page is not listed: the library adds it.
  std::vector<std::int64_t> const position = consecutive_positions(length - rows, rows);
  std::vector<int> const table = choose_pages(position, page_tokens, width), request(rows, 0),
                         lengths(1, length), block_of = shuffled_numbers(blocks);
  auto const q = random_halves(std::size_t(rows) * row_elements);
  auto const k = random_halves(std::size_t(blocks) * block_tokens * kv_heads * dim);
  auto const v = random_halves(k.size());

  // Views of host memory for the reference, in double precision.
  pageunion::prefill_args args;
  args.rows            = {rows, request.data(), position.data(), lengths.data()};
  args.selected        = pageunion::page_table{table.data(), width, width};
  args.attention.q     = {q.data(), heads, dim, row_elements, dim};
  args.attention.scale = 1 / std::sqrt(float(dim));
  auto const strides   = pageunion::contiguous_kv_strides(block_tokens, kv_heads, dim);
  args.attention.cache = {k.data(), v.data(),     strides,  strides,
                          blocks,   block_tokens, kv_heads, {block_of.data(), 1, blocks, blocks}};
  pageunion::reference_result expected;
  reference_attention(args.rows, args.selected, args.attention, page_tokens, expected);

  // The same views of device memory.
  args.rows                 = {rows, to_device(request), to_device(position), to_device(lengths)};
  args.selected.pages.pages = to_device(table);
  args.attention.q.data     = to_device(q);
  args.attention.cache.k    = to_device(k);
  args.attention.cache.v    = to_device(v);
  args.attention.cache.blocks.table = to_device(block_of);
  auto const grouped                = attend(args, pageunion::route::grouped);
  auto const by_row                 = attend(args, pageunion::route::row);
  bool const is_grouped_right       = agree("grouped against the reference", grouped, expected.out);
  bool const is_row_right           = agree("row against the reference", by_row, expected.out);
  bool const is_same                = agree("grouped against row", grouped, by_row);
  return is_grouped_right && is_row_right && is_same ? 0 : 1;
}
