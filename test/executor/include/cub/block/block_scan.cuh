// SPDX-License-Identifier: Apache-2.0
//! @file
//! Stands in for CUB's header of the same name.
#pragma once

#include <functional>

#include <executor/collectives.hpp>

namespace cub {

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };

template <class T, int Threads, BlockScanAlgorithm = BLOCK_SCAN_RAKING>
class BlockScan : executor::block_collective<T, Threads> {
  using base = executor::block_collective<T, Threads>;

 public:
  using base::base;
  using typename base::TempStorage;

  //! The sum of the threads before this one, and of all threads.
  __forceinline__ void ExclusiveSum(T value, T& before, T& all,
                                    executor::site where = executor::site::here()) {
    T const in_warp =
        this->sum_warps("cub::BlockScan::ExclusiveSum", value, std::plus<T>(), where).before;
    all    = T{};
    before = T{};
    for (unsigned w = 0; w < Threads / executor::warp_lanes; ++w) {
      before = w == threadIdx.x / executor::warp_lanes ? all : before;
      all += this->storage_.warp_total[w];
    }
    before += in_warp;
  }
};

}  // namespace cub
