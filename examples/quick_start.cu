// SPDX-License-Identifier: Apache-2.0
// Prefill of a fresh prompt whose rows attend to 512 pages of 4 tokens each: checked and timed.
// Usage: quick_start [rows [block_tokens [interleaved]]] [--problem FILE | --export FILE]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include <pageunion/pageunion.cuh>
#include <pageunion/reference.hpp>
#if __has_include("problem_option.hpp")  // beside the benchmarks alone: problems in files
#include "problem_option.hpp"
#endif

constexpr int heads = 6, dim = 256, page_tokens = 4;  // those of pageunion::qsa_policy
constexpr int row_elements = heads * dim;
std::mt19937 generator(1);  // the same problem every time
std::normal_distribution<float> normal;

template <class T>
T* to_device(std::vector<T> const& host) {
  T* device = nullptr;
  cudaMalloc(&device, host.size() * sizeof(T));
  cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice);
  return device;
}

std::vector<__half> random_halves(std::size_t count) {
  std::vector<__half> halves(count);
  for (__half& half : halves) half = __float2half(normal(generator));
  return halves;
}

// [rows, width]: the tokens of each row's best pages and of its last, partly visible page, then -1.
// Scores drift from row to row, so that neighbours choose nearly the same pages.
std::vector<int> choose_tokens(int rows, int pages, int width) {
  std::vector<int> table(std::size_t(rows) * width, -1), order(rows / page_tokens + 1);
  std::vector<float> fixed(order.size()), drift(order.size());
  for (float& score : fixed) score = 0.7f * normal(generator);
  for (float& score : drift) score = normal(generator);
  for (int row = 0; row < rows; ++row) {
    for (float& score : drift) score = 0.97f * score + 0.243f * normal(generator);
    int const whole = (row + 1) / page_tokens, chosen = std::min(whole, pages);
    std::iota(order.begin(), order.end(), 0);
    std::nth_element(order.begin(), order.begin() + chosen, order.begin() + whole,
                     [&](int a, int b) { return fixed[a] + drift[a] > fixed[b] + drift[b]; });
    int* entry = &table[std::size_t(row) * width];
    for (int i = 0; i < chosen * page_tokens; ++i) *entry++ = order[i / 4] * page_tokens + i % 4;
    for (int token = whole * page_tokens; token <= row; ++token) *entry++ = token;
  }
  return table;
}

// Milliseconds of planning and attention, the mean of 20 calls; negative if a call failed.
float time_prefill(pageunion::prefill_args const& args) {
  std::size_t bytes     = 0;
  auto status           = pageunion::workspace_bytes(args, bytes);
  void* const workspace = to_device(std::vector<char>(bytes));
  cudaEvent_t start, stop;
  cudaEventCreate(&start), cudaEventCreate(&stop);
  for (int call = -3; call < 20 && status == pageunion::status::ok; ++call) {
    if (call == 0) cudaEventRecord(start);
    status = pageunion::prefill(args, workspace, bytes, /*stream=*/nullptr);
  }
  float milliseconds = 0;
  cudaEventRecord(stop), cudaEventSynchronize(stop);
  cudaEventElapsedTime(&milliseconds, start, stop);
  std::printf("prefill: %s; %s\n", to_string(status), cudaGetErrorString(cudaGetLastError()));
  return status == pageunion::status::ok ? milliseconds / 20 : -1;
}

int main(int argc, char** argv) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    return std::puts("skipped: no CUDA device"), 77;
  }
  int sizes = 1;  // arguments before the options
  while (sizes < argc && argv[sizes][0] != '-') ++sizes;
  int rows = sizes > 1 ? std::atoi(argv[1]) : 8192, pages = rows / 16;
  int const block_tokens = sizes > 2 ? std::atoi(argv[2]) : 16, interleave = sizes > 3 ? 2 : 1;
  int const width  = pages * page_tokens + page_tokens - 1;
  int const blocks = (rows + block_tokens - 1) / block_tokens, block_elements = block_tokens * dim;

  // One request, its physical blocks anywhere; K and V apart, or interleaved block by block.
  std::vector<int> table = choose_tokens(rows, pages, width), counts, request(rows, 0),
                   length(1, rows);
  std::vector<int> block_of(blocks);
  std::vector<std::int64_t> position(rows);
  std::iota(position.begin(), position.end(), 0), std::iota(block_of.begin(), block_of.end(), 0);
  std::shuffle(block_of.begin(), block_of.end(), generator);
  auto q              = random_halves(std::size_t(rows) * row_elements);
  auto kv             = random_halves(std::size_t(2) * blocks * block_elements);
  std::size_t k_first = 0, v_first = interleave == 2 ? block_elements : kv.size() / 2;

  // Views of host memory first: the reference works on them, in double precision.
  pageunion::prefill_args args;
  args.rows     = {rows, request.data(), position.data(), length.data()};
  args.selected = pageunion::token_table{table.data(), width, width, nullptr, 1, pages + 1};
  pageunion::attention_operands& operands = args.attention;
  operands.q                              = {q.data(), heads, dim, row_elements, dim};
  operands.scale                          = 1 / std::sqrt(float(dim));
  pageunion::kv_strides const strides{interleave * block_elements, dim, dim};
  operands.cache = {kv.data(), kv.data() + v_first, strides, strides,
                    blocks,    block_tokens,        1,       {block_of.data(), 1, blocks, blocks}};
#if __has_include("problem_option.hpp")
  pageunion::bench::follow_problem_option(
      argc - sizes, argv + sizes, args,
      {table, counts, request, position, length, block_of, q, kv, k_first, v_first});
  rows = args.rows.num_rows;
#else
  if (sizes != argc) return std::puts("for problems in files, build the benchmarks too"), 1;
#endif
  std::vector<int> sampled(256);  // spread over the prompt, with the first and the last group
  for (int i = 0, step = rows - 8; i < 256; ++i)
    sampled[i] = std::clamp(i < 8 ? i : rows - 1 - (255 - i) * step / 256, 0, rows - 1);
  pageunion::reference_result expected;
  reference_rows(args.rows, args.selected, operands, page_tokens, sampled, expected);

  // The same views of device memory, an output, and a report of what the planner saw.
  float* const out = to_device(std::vector<float>(std::size_t(rows) * row_elements, NAN));
  args.report      = to_device(std::vector<pageunion::plan_report>(1));
  args.rows        = {rows, to_device(request), to_device(position), to_device(length)};
  args.selected.tokens.tokens = args.selected.pages.pages = to_device(table);
  if (!counts.empty()) args.selected.tokens.counts = to_device(counts);
  operands.q.data             = to_device(q);
  __half const* const cache   = to_device(kv);
  operands.cache.k            = cache + k_first;
  operands.cache.v            = cache + v_first;
  operands.cache.blocks.table = to_device(block_of);
  operands.out                = {out, pageunion::element_type::f32, row_elements, dim};
  float const milliseconds    = time_prefill(args);
  if (milliseconds < 0) return 1;

  pageunion::plan_report report;
  std::vector<float> result(std::size_t(rows) * row_elements);
  cudaMemcpy(&report, args.report, sizeof(report), cudaMemcpyDeviceToHost);
  cudaMemcpy(result.data(), out, result.size() * sizeof(float), cudaMemcpyDeviceToHost);
  double worst = 0, error = 0, norm = 1e-30;  // worst in rows of few tokens: weights are halves
  for (std::size_t i = 0; i < expected.out.size(); ++i) {
    std::size_t const row = sampled[i / row_elements];
    double const off      = result[row * row_elements + i % row_elements] - expected.out[i];
    worst                 = std::isnan(off) ? off : std::max(worst, std::abs(off));
    error += off * off, norm += expected.out[i] * expected.out[i];
  }
  double const limit  = rows < 8192 ? 1e-3 : 5e-4;  // of values of deviation 1: not a file's
  bool const is_right = (sizes < argc || worst <= limit) && std::sqrt(error / norm) <= 5e-4;
  std::printf("%d rows, blocks of %d tokens: %.3f ms; unions grow by %.2f at 8 rows\n", rows,
              operands.cache.block_tokens, milliseconds,
              double(report.union_pages) / report.groups * report.rows / report.row_pages);
  std::printf("error of 256 rows: relative L2 %.2e, largest %.2e: %s\n", std::sqrt(error / norm),
              worst, is_right ? "right" : "WRONG");
  return is_right ? 0 : 1;
}
