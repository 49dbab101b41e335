// SPDX-License-Identifier: Apache-2.0
//! @file
//! The device functions and variables that CUDA gives to nvcc alone.
#pragma once

#include <cuda_fp16.h>
#include <vector_types.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include <executor/simt.hpp>

// Of the thread that runs; the scheduler sets them.
inline uint3 threadIdx{};
inline uint3 blockIdx{};
inline dim3 blockDim{};
inline dim3 gridDim{};

namespace executor {

//! A predicate; afterwards the lanes, of any warp that takes part, where it is true.
struct vote {
  bool predicate;
  unsigned ballot;
  static void perform(arguments const& all);
};
//! What orders a warp's accesses to memory.
struct warp_barrier {
  static void perform(arguments const& all);
};
//! Bits and the lane to read; afterwards that lane's bits.
struct shuffle {
  std::uint64_t bits;
  unsigned source;
  static void perform(arguments const& all);
};

inline unsigned cast_vote(char const* name, unsigned mask, int predicate, site where) {
  vote mine{predicate != 0, 0};
  join(name, mask, where, mine);
  return mine.ballot;
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

//! Stores next(old value, operand) and returns the old value, perhaps after other threads ran. For
//! unsigned and unsigned long long.
template <class T>
T change_atomically(T* address, T operand, T (*next)(T, T));

}  // namespace executor

inline void __syncthreads(executor::site where = {}) {
  executor::cast_vote("__syncthreads", executor::whole_cta, 0, where);
}
inline int __syncthreads_or(int predicate, executor::site where = {}) {
  return executor::cast_vote("__syncthreads_or", executor::whole_cta, predicate, where) != 0;
}
//! Of whole warps only: no kernel of ours uses less.
inline void __syncwarp(executor::site where = {}) {
  executor::warp_barrier mine;
  executor::join("__syncwarp", executor::every_lane, where, mine);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, executor::site where = {}) {
  return executor::cast_vote("__ballot_sync", mask, predicate, where);
}
inline int __any_sync(unsigned mask, int predicate, executor::site where = {}) {
  return executor::cast_vote("__any_sync", mask, predicate, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, executor::site where = {}) {
  return executor::cast_vote("__all_sync", mask, predicate, where) == mask;
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, executor::site where = {}) {
  return executor::exchange("__shfl_sync", mask, value, static_cast<unsigned>(source) % 32, where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, executor::site where = {}) {
  return executor::exchange("__shfl_xor_sync", mask, value,
                            (executor::current_lane() ^ static_cast<unsigned>(bits)) % 32, where);
}
//! Lanes past the warp's end read themselves.
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, executor::site where = {}) {
  unsigned const lane = executor::current_lane();
  return executor::exchange("__shfl_down_sync", mask, value,
                            lane + delta < 32 ? lane + delta : lane, where);
}

template <class T, class Value>
__forceinline__ T atomicAdd(T* address, Value value) {
  return executor::change_atomically<T>(address, value, [](T old, T more) { return old + more; });
}
template <class T, class Value>
__forceinline__ T atomicAnd(T* address, Value value) {
  return executor::change_atomically<T>(address, value, [](T old, T bits) { return old & bits; });
}
template <class T, class Value>
__forceinline__ T atomicOr(T* address, Value value) {
  return executor::change_atomically<T>(address, value, [](T old, T bits) { return old | bits; });
}
template <class T, class Value>
__forceinline__ T atomicMax(T* address, Value value) {
  return executor::change_atomically<T>(address, value,
                                        [](T old, T other) { return old < other ? other : old; });
}

template <class T>
__forceinline__ T __ldg(T const* address) {
  return *address;
}
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __ffs(int value) { return __builtin_ffs(value); }
//! A template: some toolkits have one for the host too, which is then preferred.
template <class Half>
unsigned short __half_as_ushort(Half value) {
  return static_cast<__half_raw>(value).x;
}
