// SPDX-License-Identifier: Apache-2.0
//! @file
//! The device functions and variables that CUDA gives without an include.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include <executor/simt.hpp>

// A CTA runs on one host thread, so its indices can live there; the scheduler
// sets them.
inline thread_local uint3 threadIdx{};
inline thread_local uint3 blockIdx{};
inline thread_local dim3 blockDim{};
inline thread_local dim3 gridDim{};

namespace executor {

//! A predicate; afterwards, how many were true, and which of a warp's.
struct vote {
  bool predicate;
  int count       = 0;
  unsigned ballot = 0;
  static void perform(arguments const& all);
};
//! A vote that orders memory besides: of the CTA, of the warp.
struct cta_barrier : vote {
  static void perform(arguments const& all);
};
struct warp_barrier : vote {
  static void perform(arguments const& all);
};
//! Bits and the lane to read; afterwards that lane's bits.
struct shuffle {
  std::uint64_t bits;
  unsigned source;
  static void perform(arguments const& all);
};

template <class Vote>
Vote cast_vote(char const* name, unsigned mask, int predicate, site where) {
  Vote mine{};
  mine.predicate = predicate != 0;
  join(name, mask, where, mine);
  return mine;
}

template <class T>
T exchange(char const* name, unsigned mask, T value, unsigned source, site where) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8,
                "a shuffle moves 8 bytes at most");
  shuffle mine{0, source};
  std::memcpy(&mine.bits, &value, sizeof(T));
  join(name, mask, where, mine);
  std::memcpy(&value, &mine.bits, sizeof(T));
  return value;
}

//! Stores next(old value, operand) and returns the old value. For unsigned and
//! unsigned long long.
template <class T>
T change_atomically(T* address, T operand, T (*next)(T, T));

template <class T>
struct identity {
  using type = T;
};
template <class T>
using same = typename identity<T>::type;  // takes no part in deduction

}  // namespace executor

inline void __syncthreads(executor::site where = executor::site::here()) {
  executor::cast_vote<executor::cta_barrier>("__syncthreads", executor::whole_cta, 0, where);
}
inline int __syncthreads_or(int predicate, executor::site where = executor::site::here()) {
  return executor::cast_vote<executor::cta_barrier>("__syncthreads_or", executor::whole_cta,
                                                    predicate, where)
             .count != 0;
}
//! Of whole warps only: no kernel of ours uses less.
inline void __syncwarp(executor::site where = executor::site::here()) {
  executor::cast_vote<executor::warp_barrier>("__syncwarp", executor::every_lane, 0, where);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              executor::site where = executor::site::here()) {
  return executor::cast_vote<executor::vote>("__ballot_sync", mask, predicate, where).ballot;
}
inline int __any_sync(unsigned mask, int predicate, executor::site where = executor::site::here()) {
  return executor::cast_vote<executor::vote>("__any_sync", mask, predicate, where).ballot != 0;
}
inline int __all_sync(unsigned mask, int predicate, executor::site where = executor::site::here()) {
  return executor::cast_vote<executor::vote>("__all_sync", mask, predicate, where).ballot == mask;
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, executor::site where = executor::site::here()) {
  return executor::exchange("__shfl_sync", mask, value, static_cast<unsigned>(source) % 32, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, executor::site where = executor::site::here()) {
  return executor::exchange("__shfl_xor_sync", mask, value,
                            (executor::current_lane() ^ static_cast<unsigned>(bits)) % 32, where);
}
//! Lanes past the warp's end read themselves.
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta,
                   executor::site where = executor::site::here()) {
  unsigned const lane = executor::current_lane();
  return executor::exchange("__shfl_down_sync", mask, value,
                            lane + delta < 32 ? lane + delta : lane, where);
}

template <class T>
__forceinline__ T atomicAdd(T* address, executor::same<T> value) {
  return executor::change_atomically<T>(address, value, [](T old, T more) { return old + more; });
}
template <class T>
__forceinline__ T atomicOr(T* address, executor::same<T> value) {
  return executor::change_atomically<T>(address, value, [](T old, T bits) { return old | bits; });
}
template <class T>
__forceinline__ T atomicMax(T* address, executor::same<T> value) {
  return executor::change_atomically<T>(address, value,
                                        [](T old, T other) { return old < other ? other : old; });
}

template <class T>
__forceinline__ T __ldg(T const* address) {
  return *address;
}
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __ffs(int value) { return __builtin_ffs(value); }

using std::isfinite;
using std::isinf;
using std::isnan;
