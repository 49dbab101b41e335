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

//! Calls `body(i)` once for every i in [0, count), and returns when all calls have.
template <class Body>
void parallel_for(std::int64_t count, Body const& body) {
  std::int64_t const threads = std::clamp<std::int64_t>(count, 1, num_host_threads());
  auto const share           = [&body, count, threads](std::int64_t t) {
    for (std::int64_t i = count * t / threads; i < count * (t + 1) / threads; ++i) {
      body(i);
    }
  };
  std::vector<std::thread> others;
  for (std::int64_t t = 1; t < threads; ++t) {
    others.emplace_back(share, t);
  }
  share(0);
  for (std::thread& other : others) {
    other.join();
  }
}

}  // namespace pageunion::bench
