// SPDX-License-Identifier: Apache-2.0
//! @file
//! Sums over the threads of a CTA, with CUB's barriers and CUB's accesses to shared memory: who uses
//! the storage again without a barrier has a race here as there.
#pragma once

#include <cuda_runtime.h>

#include <cstring>
#include <type_traits>

#include <executor/simt.hpp>

namespace executor {

//! What a lane brings to its warp's sum; afterwards the sums of the lanes before it and of all.
template <class T, class Sum>
struct warp_sum {
  T value;
  Sum sum;
  T before{};
  T all{};
  static void perform(unsigned, void* const* lanes) {
    T all{};
    for (int l = 0; l < warp_lanes; ++l) {
      auto& mine  = *static_cast<warp_sum*>(lanes[l]);
      mine.before = all;
      all         = l == 0 ? mine.value : mine.sum(all, mine.value);
    }
    for (int l = 0; l < warp_lanes; ++l) {
      static_cast<warp_sum*>(lanes[l])->all = all;
    }
  }
};

//! A collective of CTAs of `Threads` threads. T is trivially copyable and T{} adds nothing.
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
      fault(std::string(name) + " of CTAs of another shape");
    }
    warp_sum<T, Sum> mine{value, sum};
    converge(name, every_lane, where, mine);
    if (current_lane() == warp_lanes - 1) {
      storage_.warp_total[threadIdx.x / warp_lanes] = mine.all;
    }
    barrier(name, 0, where);
    return mine;
  }

  TempStorage& storage_;
};

}  // namespace executor
