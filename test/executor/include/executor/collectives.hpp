// SPDX-License-Identifier: Apache-2.0
//! @file
//! CUB's sums over the threads of a CTA, with CUB's barriers and CUB's accesses to shared memory: who
//! uses the storage again without a barrier has a race here as there.
#pragma once

#include <cuda_runtime.h>

#include <cstring>
#include <functional>
#include <type_traits>

#include <executor/simt.hpp>

namespace executor {

//! What a lane brings to its warp's sums; afterwards the sums of the lanes before it and of all.
template <class T, class Sum>
struct warp_sums {
  T value;
  Sum sum;
  T before{};
  T all{};
  static void perform(arguments const& lanes) {
    T all{};
    for_each<warp_sums>(lanes, [&](unsigned, warp_sums& mine) {
      mine.before = all;
      all         = mine.sum(all, mine.value);
    });
    for_each<warp_sums>(lanes, [&](unsigned, warp_sums& mine) { mine.all = all; });
  }
};

//! Sums over CTAs of `Threads` threads. T is trivially copyable and T{} adds nothing.
template <class T, int Threads>
class cta_sums {
  static_assert(Threads % warp_lanes == 0, "a CTA of a CUB collective must have whole warps");
  static_assert(std::is_trivially_copyable_v<T>, "CUB moves values through shuffles");

 public:
  struct TempStorage {
    T warp_total[Threads / warp_lanes];
  };
  explicit cta_sums(TempStorage& storage) : storage_(storage) {}

  //! The sum in thread 0; nothing that may be used in the others.
  template <class Sum>
  __forceinline__ T Reduce(T value, Sum sum, site where = {}) {
    T before;
    add("cub::BlockReduce::Reduce", value, sum, before, value, where);
    if (threadIdx.x != 0) {
      std::memset(static_cast<void*>(&value), 0xff, sizeof(T));
    }
    return value;
  }

  //! The sum of the threads before this one, and of all threads.
  __forceinline__ void ExclusiveSum(T value, T& before, T& all, site where = {}) {
    add("cub::BlockScan::ExclusiveSum", value, std::plus<T>(), before, all, where);
  }

 private:
  template <class Sum>
  __forceinline__ void add(char const* name, T const& value, Sum sum, T& before, T& all,
                           site where) {
    if (blockDim.x != Threads) {
      fault("a CUB collective of CTAs of another shape");
    }
    warp_sums<T, Sum> mine{value, sum};
    join(name, every_lane, where, mine);
    unsigned const warp = threadIdx.x / warp_lanes;
    if (current_lane() == warp_lanes - 1) {
      storage_.warp_total[warp] = mine.all;
    }
    cast_vote(name, whole_cta, 0, where);
    all = T{};
    for (unsigned w = 0; w < Threads / warp_lanes; ++w) {
      before = w == warp ? sum(all, mine.before) : before;
      all    = sum(all, storage_.warp_total[w]);
    }
  }

  TempStorage& storage_;
};

}  // namespace executor

#define CUB_NS_QUALIFIER ::cub
namespace cub {

template <class T, int Threads>
using BlockReduce = executor::cta_sums<T, Threads>;

enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
template <class T, int Threads, BlockScanAlgorithm = BLOCK_SCAN_RAKING>
using BlockScan = executor::cta_sums<T, Threads>;

}  // namespace cub
