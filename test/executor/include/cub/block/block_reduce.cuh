// SPDX-License-Identifier: Apache-2.0
//! @file
//! Stands in for CUB's header of the same name.
#pragma once

#include <executor/collectives.hpp>

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

}  // namespace cub
