// SPDX-License-Identifier: Apache-2.0
// The double-precision reference, which needs no GPU, against a dense masked softmax written here.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include <pageunion/reference.hpp>

#include "example.hpp"

namespace {

constexpr int rows = 256, heads = 6, dim = 256, block_tokens = 36, width = 40;
constexpr int blocks = (rows + block_tokens - 1) / block_tokens;

struct problem {
  std::vector<int> entries           = std::vector<int>(rows * width, -1);
  std::vector<int> request           = std::vector<int>(rows, 0);
  std::vector<int> length            = std::vector<int>(1, rows);
  std::vector<int> block_of          = std::vector<int>(blocks);
  std::vector<__half> queries        = std::vector<__half>(rows * heads * dim);
  std::vector<__half> keys           = std::vector<__half>(blocks * block_tokens * dim);
  std::vector<__half> values         = keys;
  std::vector<std::int64_t> position = std::vector<std::int64_t>(rows);
};

// Random tokens: some listed twice, some not visible yet, some of them holes.
problem make_problem() {
  problem p;
  for (auto* array : {&p.queries, &p.keys, &p.values}) *array = random_halves(array->size());
  for (int& entry : p.entries) entry = int(generator() % (rows + 40)) - 20;
  p.position = consecutive_positions(/*first=*/0, rows);
  p.block_of = shuffled_numbers(blocks);
  return p;
}

double element(std::vector<__half> const& array, problem const& p, int token, int d) {
  int const block = p.block_of[token / block_tokens];
  return double(__half2float(array[(block * block_tokens + token % block_tokens) * dim + d]));
}

// Every token of the sequence with a weight that is 0 where the row may not look.
std::vector<double> attend_densely(problem const& p, int row, int head, double scale) {
  std::vector<double> out(dim, 0.0);
  double sum = 0.0;
  for (int token = 0; token < rows; ++token) {
    int const* const first = &p.entries[row * width];
    if (token > row || std::find(first, first + width, token) == first + width) continue;
    double score = 0.0;
    for (int d = 0; d < dim; ++d) {
      score += double(__half2float(p.queries[(row * heads + head) * dim + d])) *
               element(p.keys, p, token, d);
    }
    sum += std::exp(scale * score);
    for (int d = 0; d < dim; ++d)
      out[d] += std::exp(scale * score) * element(p.values, p, token, d);
  }
  for (double& x : out) x = sum > 0.0 ? x / sum : 0.0;
  return out;
}

}  // namespace

int main() {
  problem const p = make_problem();
  pageunion::batch const batch{rows, p.request.data(), p.position.data(), p.length.data()};
  pageunion::selection const selected =
      pageunion::token_table{p.entries.data(), width, width, nullptr, 1, 0};
  pageunion::attention_operands operands;
  pageunion::kv_strides const strides = pageunion::contiguous_kv_strides(block_tokens, 1, dim);
  operands.q                          = {p.queries.data(), heads, dim, heads * dim, dim};
  operands.scale                      = 1.0f / 16.0f;
  operands.cache                      = {
                           p.keys.data(), p.values.data(), strides, strides,
                           blocks,        block_tokens,    1,       {p.block_of.data(), 1, blocks, blocks}};

  pageunion::reference_result result;
  reference_attention(batch, selected, operands, /*page_tokens=*/4, result);
  double worst = 0.0;
  for (int row = 0; row < rows; ++row) {
    for (int head = 0; head < heads; ++head) {
      std::vector<double> const expected = attend_densely(p, row, head, operands.scale);
      for (int d = 0; d < dim; ++d) {
        double const error = std::abs(result.out[(row * heads + head) * dim + d] - expected[d]);
        worst              = std::isnan(error) ? error : std::max(worst, error);
      }
    }
  }
  bool const is_right = worst < 1e-12;
  std::printf("host reference, %d rows: largest difference from a dense softmax %.1e: %s\n", rows,
              worst, is_right ? "right" : "WRONG");
  return is_right ? 0 : 1;
}
