// SPDX-License-Identifier: Apache-2.0
//! @file
//! What the examples need besides the library: memory of the device, calls that must succeed, random
//! problems, and how far two results are apart. Who copies an example copies this file with it.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include <pageunion/status.hpp>

//! Exit code of an example that could do nothing: ctest counts it as skipped.
constexpr int skipped = 77;

//! True, with a line that says so, where no GPU can be used.
inline bool lacks_device() {
  int devices      = 0;
  bool const lacks = cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0;
  if (lacks) std::puts("skipped: no CUDA device");
  return lacks;
}

//! Ends the program with a text unless the call was right.
inline void require(bool is_right, char const* text) {
  if (is_right) return;
  std::puts(text);
  std::exit(1);
}
inline void require(cudaError_t result) {
  require(result == cudaSuccess, cudaGetErrorString(result));
}
inline void require(pageunion::status result) {
  require(result == pageunion::status::ok, to_string(result));
}

//! Device memory. It lives as long as the program: an example frees none.
inline void* allocate(std::size_t bytes) {
  void* device = nullptr;
  require(cudaMalloc(&device, bytes));
  return device;
}

//! A copy in device memory.
template <class T>
T* to_device(std::vector<T> const& host) {
  T* const device = static_cast<T*>(allocate(host.size() * sizeof(T)));
  require(cudaMemcpy(device, host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

//! A copy in host memory. Waits for the default stream.
template <class T>
std::vector<T> to_host(T const* device, std::size_t count) {
  std::vector<T> host(count);
  require(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost));
  return host;
}

//! The source of all random numbers: the same problem in every run.
inline std::mt19937 generator(1);
inline std::normal_distribution<float> normal;

inline std::vector<__half> random_halves(std::size_t count) {
  std::vector<__half> halves(count);
  for (__half& half : halves) half = __float2half(normal(generator));
  return halves;
}

//! [count]: the positions of rows that follow each other in one request.
inline std::vector<std::int64_t> consecutive_positions(std::int64_t first, int count) {
  std::vector<std::int64_t> positions(count);
  std::iota(positions.begin(), positions.end(), first);
  return positions;
}

//! [count]: the numbers from 0 on in any order, as the cache blocks of a request lie in a cache.
inline std::vector<int> shuffled_numbers(int count) {
  std::vector<int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0);
  std::shuffle(numbers.begin(), numbers.end(), generator);
  return numbers;
}

//! [rows, width]: the best pages of each row of a request among those that it sees whole, then -1. The
//! scores of pages drift from row to row, so that neighbours choose nearly the same.
inline std::vector<int> choose_pages(std::vector<std::int64_t> const& positions, int page_tokens,
                                     int width) {
  std::vector<int> table(positions.size() * width, -1), order(positions.back() / page_tokens + 1);
  std::vector<float> fixed(order.size()), drift(order.size());
  for (float& score : fixed) score = 0.7f * normal(generator);
  for (float& score : drift) score = normal(generator);
  for (std::size_t row = 0; row < positions.size(); ++row) {
    for (float& score : drift) score = 0.97f * score + 0.243f * normal(generator);
    int const whole = int(positions[row] + 1) / page_tokens, chosen = std::min(whole, width);
    std::iota(order.begin(), order.end(), 0);
    std::nth_element(order.begin(), order.begin() + chosen, order.begin() + whole,
                     [&](int a, int b) { return fixed[a] + drift[a] > fixed[b] + drift[b]; });
    std::copy_n(order.begin(), chosen, table.begin() + std::ptrdiff_t(row) * width);
  }
  return table;
}

//! Some rows of an array [rows, row_elements].
template <class T>
std::vector<T> pick_rows(std::vector<T> const& all, std::vector<int> const& rows,
                         std::size_t row_elements) {
  std::vector<T> picked;
  for (int const row : rows) {
    auto const first = all.begin() + std::ptrdiff_t(row * row_elements);
    picked.insert(picked.end(), first, first + std::ptrdiff_t(row_elements));
  }
  return picked;
}

//! How far two arrays are apart; NaN if an element of one of them is.
struct difference {
  double relative_l2 = 0;
  double largest     = 0;  //!< of an element
};

template <class T, class U>
difference compare(std::vector<T> const& actual, std::vector<U> const& expected) {
  double largest = 0, error = 0, norm = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    double const right = static_cast<double>(expected[i]);
    double const off   = static_cast<double>(static_cast<float>(actual[i])) - right;
    largest            = std::isnan(off) ? off : std::max(largest, std::abs(off));
    error += off * off;
    norm += right * right;
  }
  return {std::sqrt(error / std::max(norm, 1e-30)), largest};
}
