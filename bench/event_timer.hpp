// SPDX-License-Identifier: Apache-2.0
//! @file
//! Times work on the default stream by CUDA events. Knows nothing of the work.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <vector>

#include "check.hpp"

namespace pageunion::bench {

//! Runs that warm clocks, caches and the driver's compiler before the first timed one.
inline constexpr int num_warm_ups = 3;

//! Two events around a piece of work.
class event_timer {
 public:
  event_timer() {
    check(cudaEventCreate(&start_), "cudaEventCreate");
    check(cudaEventCreate(&stop_), "cudaEventCreate");
  }
  event_timer(event_timer const&)            = delete;
  event_timer& operator=(event_timer const&) = delete;
  ~event_timer() {
    cudaEventDestroy(start_);
    cudaEventDestroy(stop_);
  }

  //! Time of `enqueue()` on the device, in seconds. Waits for its end.
  template <class Enqueue>
  double seconds(Enqueue const& enqueue) {
    check(cudaEventRecord(start_), "cudaEventRecord");
    enqueue();
    check(cudaEventRecord(stop_), "cudaEventRecord");
    check(cudaEventSynchronize(stop_), "the timed work");
    float milliseconds = 0.0f;
    check(cudaEventElapsedTime(&milliseconds, start_, stop_), "cudaEventElapsedTime");
    return 1e-3 * milliseconds;
  }

 private:
  cudaEvent_t start_ = nullptr;
  cudaEvent_t stop_  = nullptr;
};

//! The median of at least one value.
inline double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace pageunion::bench
