// SPDX-License-Identifier: Apache-2.0
//! @file
//! Spreads the iterations of a host loop over threads. Knows nothing of what the loop does.
#pragma once

#include <algorithm>
#include <cstdint>
#include <thread>
#include <vector>

namespace pageunion::bench {

//! Threads that a host loop may use.
inline int num_host_threads() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

//! Calls `body(begin, end)` once per thread, on ranges that cover [0, count) without overlap, and
//! returns when all have ended. The ranges depend on the number of threads: a body whose result for
//! an index depends on that index alone gives the same results on every machine.
template <class Body>
void parallel_ranges(std::int64_t count, Body const& body) {
  std::int64_t const threads = std::clamp<std::int64_t>(count, 1, num_host_threads());
  std::vector<std::thread> others;
  for (std::int64_t t = 1; t < threads; ++t) {
    others.emplace_back(
        [&body, count, threads, t] { body(count * t / threads, count * (t + 1) / threads); });
  }
  body(std::int64_t{0}, count / threads);
  for (std::thread& other : others) {
    other.join();
  }
}

//! Calls `body(i)` once for every i in [0, count).
template <class Body>
void parallel_for(std::int64_t count, Body const& body) {
  parallel_ranges(count, [&body](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      body(i);
    }
  });
}

}  // namespace pageunion::bench
