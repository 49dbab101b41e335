// SPDX-License-Identifier: Apache-2.0
//! @file
//! CUB's sums over the threads of a CTA, with CUB's barriers and CUB's accesses
//! to shared memory: who uses the storage again without a barrier has a race
//! here as there.
#pragma once

#include <cuda_runtime.h>

#include <cstring>
#include <functional>
#include <type_traits>

#include <executor/simt.hpp>

namespace executor {

//! What a lane brings to its warp's sum; afterwards the sums of the lanes
//! before it and of all.
template <class T, class Sum>
struct warp_sum {
  T value;
  Sum sum;
  T before{};
  T all{};
  static void perform(arguments const& lanes) {
    T all{};
    for_each<warp_sum>(lanes, [&](unsigned lane, warp_sum& mine) {
      mine.before = all;
      all         = lane == 0 ? mine.value : mine.sum(all, mine.value);
    });
    for_each<warp_sum>(lanes, [&](unsigned, warp_sum& mine) { mine.all = all; });
  }
};

//! A collective of CTAs of `Threads` threads. T is trivially copyable and T{}
//! adds nothing.
template <class T, int Threads>
class block_collective {
  static_assert(Threads % warp_lanes == 0, "a CTA of a CUB collective must have whole warps");
  static_assert(std::is_trivially_copyable_v<T>, "CUB moves values through shuffles");

 public:
  struct TempStorage {
    T warp_total[Threads / warp_lanes];
  };
  explicit block_collective(TempStorage& storage) : storage_(storage) {}

 protected:
  template <class Sum>
  __forceinline__ warp_sum<T, Sum> sum_warps(char const* name, T const& value, Sum sum,
                                             site where) {
    if (blockDim.x != Threads || blockDim.y != 1 || blockDim.z != 1) {
      fault("a CUB collective of CTAs of another shape");
    }
    warp_sum<T, Sum> mine{value, sum};
    join(name, every_lane, where, mine);
    if (current_lane() == warp_lanes - 1) {
      storage_.warp_total[threadIdx.x / warp_lanes] = mine.all;
    }
    cast_vote<cta_barrier>(name, whole_cta, 0, where);
    return mine;
  }

  TempStorage& storage_;
};

}  // namespace executor

namespace cub {

template <class T, int Threads>
class BlockReduce : executor::block_collective<T, Threads> {
  using base = executor::block_collective<T, Threads>;

 public:
  using base::base;
  using typename base::TempStorage;

  //! The sum in thread 0; nothing that may be used in the others.
  template <class Sum>
  __forceinline__ T Reduce(T const& value, Sum sum, executor::site where = executor::site::here()) {
    T all = this->sum_warps("cub::BlockReduce::Reduce", value, sum, where).all;
    if (threadIdx.x != 0) {
      std::memset(static_cast<void*>(&all), 0xff, sizeof(T));
      return all;
    }
    for (int w = 1; w < Threads / executor::warp_lanes; ++w) {
      all = sum(all, this->storage_.warp_total[w]);
    }
    return all;
  }
};

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
    before = this->sum_warps("cub::BlockScan::ExclusiveSum", value, std::plus<T>(), where).before;
    all    = T{};
    for (unsigned w = 0; w < Threads / executor::warp_lanes; ++w) {
      before += w < threadIdx.x / executor::warp_lanes ? this->storage_.warp_total[w] : T{};
      all += this->storage_.warp_total[w];
    }
  }
};

}  // namespace cub
