// SPDX-License-Identifier: Apache-2.0
// Many layers in one CUDA graph, captured once, with one workspace. Before each replay all contents
// change: queries, keys, values, selection, rows, lengths and block table.
// Usage: layers_in_a_graph [rows [layers]], at least 2 rows
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
constexpr int requests = 2, block_tokens = 36, width = 64;  // pages of a row

// One array on both sides. A graph keeps the address on the device.
template <class T>
struct array {
  std::vector<T> host;
  T* device;

  explicit array(std::size_t count)
      : host(count), device(static_cast<T*>(allocate(count * sizeof(T)))) {}
  void upload() {
    require(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  }
};

// What all layers share.
struct shared {
  int rows, blocks;  // of all requests; of one request
  array<int> table{std::size_t(rows) * width}, request{std::size_t(rows)}, length{requests};
  array<int> block_of{std::size_t(requests) * blocks};
  array<std::int64_t> position{std::size_t(rows)};
};

struct layer {
  array<__half> q, k, v;
  array<float> out;
};

// Gives each request another share of the rows, another length and other physical blocks.
void draw(shared& s) {
  s.block_of.host         = shuffled_numbers(int(s.block_of.host.size()));
  int const rows_of_first = 1 + int(generator() % (s.rows - 1));
  for (int& length : s.length.host)
    length = s.rows + int(generator() % (s.blocks * block_tokens - s.rows));
  for (int row = 0; row < s.rows; ++row) {
    int const request    = row < rows_of_first ? 0 : 1;
    s.request.host[row]  = request;
    s.position.host[row] = s.length.host[request] - (request == 0 ? rows_of_first : s.rows) + row;
    int const whole      = int(s.position.host[row] + 1) / page_tokens;
    for (int i = 0; i < width; ++i)  // a repeat counts once; the last, partly visible page is added
      s.table.host[std::size_t(row) * width + i] = whole == 0 ? -1 : int(generator() % whole);
  }
  for (auto* const ints : {&s.table, &s.request, &s.length, &s.block_of}) ints->upload();
  s.position.upload();
}

void draw(layer& l) {
  for (auto* const input : {&l.q, &l.k, &l.v}) {
    input->host = random_halves(input->host.size());
    input->upload();
  }
  require(cudaMemset(l.out.device, 0xff, l.out.host.size() * sizeof(float)));  // NaN
}

// The call of one layer: views of the arrays on the device, or on the host for the reference.
enum class side { device, host };
pageunion::prefill_args make_args(shared const& s, layer const& l, side at) {
  auto const data    = [&](auto& a) { return at == side::device ? a.device : a.host.data(); };
  auto const strides = pageunion::contiguous_kv_strides(block_tokens, 1, dim);
  pageunion::prefill_args args;
  args.rows            = {s.rows, data(s.request), data(s.position), data(s.length)};
  args.selected        = pageunion::page_table{data(s.table), width, width};
  args.attention.q     = {data(l.q), heads, dim, row_elements, dim};
  args.attention.scale = 1 / std::sqrt(float(dim));
  args.attention.cache = {
      data(l.k),           data(l.v),    strides, strides,
      requests * s.blocks, block_tokens, 1,       {data(s.block_of), requests, s.blocks, s.blocks}};
  args.attention.out = {l.out.device, pageunion::element_type::f32, row_elements, dim};
  return args;
}

// Relative error (L2) of 16 rows of a layer; NaN if one of their elements is.
double error_of(shared const& s, layer const& l) {
  std::vector<int> sampled;
  for (int i = 0; i < 16; ++i) sampled.push_back(i * (s.rows - 1) / 15);
  auto const args = make_args(s, l, side::host);
  pageunion::reference_result expected;
  reference_rows(args.rows, args.selected, args.attention, page_tokens, sampled, expected);
  std::vector<float> const out = to_host(l.out.device, l.out.host.size());
  return compare(pick_rows(out, sampled, row_elements), expected.out).relative_l2;
}

}  // namespace

int main(int argc, char** argv) {
  if (lacks_device()) return skipped;
  int const rows = argc > 1 ? std::atoi(argv[1]) : 512, layers = argc > 2 ? std::atoi(argv[2]) : 12;
  shared s{rows, 4 * rows / block_tokens + 1};
  std::size_t const q_elements  = std::size_t(rows) * row_elements;
  std::size_t const kv_elements = s.block_of.host.size() * block_tokens * dim;
  std::vector<layer> stack;
  for (int i = 0; i < layers; ++i) {
    stack.push_back({array<__half>(q_elements), array<__half>(kv_elements),
                     array<__half>(kv_elements), array<float>(q_elements)});
  }

  // The layers have the same shapes and follow one another on one stream: one workspace is enough.
  std::size_t bytes          = 0;
  cudaStream_t stream        = nullptr;
  cudaGraph_t graph          = nullptr;
  cudaGraphExec_t executable = nullptr;
  pageunion::prefill_info info;
  require(pageunion::workspace_bytes(make_args(s, stack[0], side::device), bytes));
  void* const workspace = allocate(bytes);
  require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  require(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  for (layer const& l : stack) {
    auto const args = make_args(s, l, side::device);
    require(pageunion::prefill(args, workspace, bytes, stream, &info));
  }
  require(cudaStreamEndCapture(stream, &graph));
  require(cudaGraphInstantiateWithFlags(&executable, graph, 0));
  require(cudaGraphDestroy(graph));

  std::vector<double> errors;
  for (int replay = 1; replay <= 3; ++replay) {
    draw(s);
    for (layer& l : stack) draw(l);
    require(cudaDeviceSynchronize());  // this stream does not wait for the copies
    require(cudaGraphLaunch(executable, stream));
    require(cudaStreamSynchronize(stream));
    for (layer const& l : stack) errors.push_back(error_of(s, l));
  }
  require(cudaGraphExecDestroy(executable));
  require(cudaStreamDestroy(stream));
  double const worst  = *std::max_element(errors.begin(), errors.end(),
                                          [](double a, double b) { return a < b || std::isnan(b); });
  bool const is_right = worst <= 5e-4;
  std::printf("%d layers, 3 replays (%s): relative L2 at most %.2e: %s\n", layers, info.reason,
              worst, is_right ? "right" : "WRONG");
  return is_right ? 0 : 1;
}
