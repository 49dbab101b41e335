// SPDX-License-Identifier: Apache-2.0
// A whole prefill at the production geometry, checked against the reference and timed: a fresh prompt whose
// rows attend to a quarter of its pages, or the problem of a file.
// Usage: verify_prefill [rows [block_tokens [interleaved]]] [--problem FILE | --export FILE] [--unions FILE]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include <pageunion/pageunion.cuh>
#include <pageunion/reference.hpp>

#include "example.hpp"
#include "problem_arrays.hpp"

namespace {

constexpr int heads = 6, dim = 256, page_tokens = 4;  // those of pageunion::qsa_policy
constexpr int row_elements = heads * dim;

struct options {
  int rows = 8192, block_tokens = 16;
  bool is_interleaved = false;  // K and V block by block in one array, or one after the other
  std::string problem;          // file to read the problem from
  std::string problem_copy;     // file to write the problem to
  std::string unions;           // file to write the unions of groups to
};

options parse(int argc, char** argv) {
  options o;
  int i = 1;
  if (i < argc && argv[i][0] != '-') o.rows = std::atoi(argv[i++]);
  if (i < argc && argv[i][0] != '-') o.block_tokens = std::atoi(argv[i++]);
  if (i < argc && argv[i][0] != '-') o.is_interleaved = argv[i++] == std::string("interleaved");
  for (; i < argc; i += 2) {
    std::string const name  = argv[i];
    std::string* const file = name == "--problem"  ? &o.problem
                              : name == "--export" ? &o.problem_copy
                              : name == "--unions" ? &o.unions
                                                   : nullptr;
    require(file != nullptr && i + 1 < argc,
            "expected --problem FILE, --export FILE or --unions FILE");
    *file = argv[i + 1];
  }
  require(o.rows > 0 && o.block_tokens > 0, "expected rows and tokens of a cache block");
  return o;
}

// [rows, width]: the tokens of each row's pages and of its last, partly visible page, then -1.
std::vector<int> list_tokens(std::vector<int> const& pages, int pages_per_row, int width) {
  std::vector<int> table(pages.size() / pages_per_row * width, -1);
  for (std::size_t row = 0; row < pages.size() / pages_per_row; ++row) {
    int* entry = &table[row * width];
    for (int i = 0; i < pages_per_row && pages[row * pages_per_row + i] >= 0; ++i)
      for (int token = 0; token < page_tokens; ++token)
        *entry++ = pages[row * pages_per_row + i] * page_tokens + token;
    int const tail = int(row + 1) / page_tokens * page_tokens;
    for (int token = tail; token <= int(row); ++token) *entry++ = token;
  }
  return table;
}

// One request, its cache blocks anywhere. The views are of host memory.
void draw_prompt(options const& o, pageunion::prefill_args& args, problem_arrays& arrays) {
  int const pages = o.rows / 16, width = pages * page_tokens + page_tokens - 1;
  int const blocks         = (o.rows + o.block_tokens - 1) / o.block_tokens;
  int const block_elements = o.block_tokens * dim;
  arrays.row_request.assign(o.rows, 0);
  arrays.row_position = consecutive_positions(/*first=*/0, o.rows);
  arrays.sequence_length.assign(1, o.rows);
  arrays.selected =
      list_tokens(choose_pages(arrays.row_position, page_tokens, pages), pages, width);
  arrays.block_table = shuffled_numbers(blocks);
  arrays.q           = random_halves(std::size_t(o.rows) * row_elements);
  arrays.kv          = random_halves(std::size_t(2) * blocks * block_elements);
  arrays.v_first     = o.is_interleaved ? block_elements : arrays.kv.size() / 2;

  args.rows = {o.rows, arrays.row_request.data(), arrays.row_position.data(),
               arrays.sequence_length.data()};
  pageunion::token_table table;
  table.tokens               = arrays.selected.data();
  table.width                = width;
  table.row_stride           = width;
  table.max_pages            = pages + 1;  // the tail page too
  args.selected              = table;
  args.attention.q           = {arrays.q.data(), heads, dim, row_elements, dim};
  args.attention.scale       = 1 / std::sqrt(float(dim));
  pageunion::kv_cache& cache = args.attention.cache;
  cache.k                    = arrays.kv.data();
  cache.v                    = arrays.kv.data() + arrays.v_first;
  cache.k_strides            = pageunion::contiguous_kv_strides(o.block_tokens, 1, dim);
  cache.k_strides.block      = (o.is_interleaved ? 2 : 1) * block_elements;
  cache.v_strides            = cache.k_strides;
  cache.num_blocks           = blocks;
  cache.block_tokens         = o.block_tokens;
  cache.num_kv_heads         = 1;
  cache.blocks               = {arrays.block_table.data(), 1, blocks, blocks};
}

// The same views of device memory, an output of floats, and a report of what the planner saw.
void upload(problem_arrays const& arrays, pageunion::prefill_args& args) {
  args.rows.row_request       = to_device(arrays.row_request);
  args.rows.row_position      = to_device(arrays.row_position);
  args.rows.sequence_length   = to_device(arrays.sequence_length);
  args.selected.tokens.tokens = args.selected.pages.pages = to_device(arrays.selected);
  if (!arrays.counts.empty()) args.selected.tokens.counts = to_device(arrays.counts);
  args.attention.q.data             = to_device(arrays.q);
  __half const* const kv            = to_device(arrays.kv);
  args.attention.cache.k            = kv + arrays.k_first;
  args.attention.cache.v            = kv + arrays.v_first;
  args.attention.cache.blocks.table = to_device(arrays.block_table);
  args.attention.out                = {to_device(std::vector<float>(arrays.q.size(), NAN)),
                                       pageunion::element_type::f32, row_elements, dim};
  args.report                       = to_device(std::vector<pageunion::plan_report>(1));
}

// Milliseconds of planning and attention, the mean of 20 calls after 3 others.
float time_prefill(pageunion::prefill_args const& args) {
  std::size_t bytes = 0;
  require(pageunion::workspace_bytes(args, bytes));
  void* const workspace = allocate(bytes);
  cudaEvent_t start, stop;
  require(cudaEventCreate(&start));
  require(cudaEventCreate(&stop));
  for (int call = -3; call < 20; ++call) {
    if (call == 0) require(cudaEventRecord(start));
    require(pageunion::prefill(args, workspace, bytes, /*stream=*/nullptr));
  }
  float milliseconds = 0;
  require(cudaEventRecord(stop));
  require(cudaEventSynchronize(stop));
  require(cudaEventElapsedTime(&milliseconds, start, stop));
  return milliseconds / 20;
}

// Some rows spread over all of them, with the first and the last group.
std::vector<int> sample_rows(int rows) {
  std::vector<int> sampled(256);
  for (int i = 0, step = rows - 8; i < 256; ++i)
    sampled[i] = std::clamp(i < 8 ? i : rows - 1 - (255 - i) * step / 256, 0, rows - 1);
  return sampled;
}

// For each group of rows, how many pages of its plan 1, 2, ... of its rows attend to.
void write_unions(std::string const& path, pageunion::prefill_args const& args) {
  using shape           = pageunion::plan_shape_of<pageunion::qsa_policy>;
  auto const& cache     = args.attention.cache;
  auto const groups     = pageunion::num_groups<shape>(args.rows.num_rows);
  auto const row_pages  = pageunion::max_pages_per_row(args.selected, page_tokens,
                                                       cache.block_tokens, cache.blocks.width);
  auto const capacity   = int(pageunion::group_capacity<shape>(row_pages));
  auto const plan_bytes = pageunion::layout_plan<shape>(groups, capacity).total;
  auto const planned    = pageunion::carve_plan<shape>(allocate(plan_bytes), groups, capacity);
  require(pageunion::make_plan<shape>(args.rows, args.selected, cache, planned,
                                      /*report=*/nullptr, /*stream=*/nullptr));
  auto const masks     = to_host(planned.masks, std::size_t(groups) * capacity);
  auto const num_pages = to_host(planned.num_pages, groups);

  std::FILE* const file = std::fopen(path.c_str(), "w");
  require(file != nullptr, "the file of the unions cannot be written");
  std::fputs("first_row", file);
  for (int rows = 1; rows <= shape::group_rows; ++rows)
    std::fprintf(file, ",pages_of_%d_rows", rows);
  for (int group = 0; group < groups; ++group) {
    std::vector<int> pages_of(shape::group_rows + 1);
    for (int page = 0; page < num_pages[group]; ++page) {
      int rows = 0;
      for (auto mask = masks[std::size_t(group) * capacity + page]; mask != 0; mask >>= page_tokens)
        rows += mask % (1u << page_tokens) != 0;
      ++pages_of[rows];  // padding is of 0 rows
    }
    std::fprintf(file, "\n%d", group * shape::group_rows);
    for (int rows = 1; rows <= shape::group_rows; ++rows) std::fprintf(file, ",%d", pages_of[rows]);
  }
  std::fputs("\n", file);
  require(std::fclose(file) == 0, "the file of the unions cannot be written");
}

}  // namespace

int main(int argc, char** argv) {
  if (lacks_device()) return skipped;
  options const o = parse(argc, argv);
  problem_arrays arrays;
  pageunion::prefill_args args;
  if (o.problem.empty()) draw_prompt(o, args, arrays);
#ifdef PAGEUNION_PROBLEM_FILES
  if (!o.problem.empty()) read_problem(o.problem, args, arrays);
  if (!o.problem_copy.empty()) write_problem(o.problem_copy, args, arrays);
#else
  require(o.problem.empty() && o.problem_copy.empty(),
          "for problems in files, build the benchmarks too");
#endif
  int const rows     = args.rows.num_rows;
  auto const sampled = sample_rows(rows);
  pageunion::reference_result expected;
  reference_rows(args.rows, args.selected, args.attention, page_tokens, sampled, expected);

  upload(arrays, args);
  float const milliseconds = time_prefill(args);
  auto const report        = to_host(args.report, 1)[0];
  auto const out = to_host(static_cast<float const*>(args.attention.out.data), arrays.q.size());
  difference const off = compare(pick_rows(out, sampled, row_elements), expected.out);
  // The largest is in rows of few tokens, since weights are halves; the bound is for values of deviation
  // 1, which a file's need not be.
  double const largest = rows < 8192 ? 1e-3 : 5e-4;
  bool const is_right  = off.relative_l2 <= 5e-4 && (!o.problem.empty() || off.largest <= largest);
  std::printf("%d rows, blocks of %d tokens: %.3f ms; unions grow by %.2f at 8 rows\n", rows,
              args.attention.cache.block_tokens, milliseconds,
              double(report.union_pages) / report.groups * report.rows / report.row_pages);
  std::printf("error of %d rows: relative L2 %.2e, largest %.2e: %s\n", int(sampled.size()),
              off.relative_l2, off.largest, is_right ? "right" : "WRONG");
  if (!o.unions.empty()) write_unions(o.unions, args);
  return is_right ? 0 : 1;
}
