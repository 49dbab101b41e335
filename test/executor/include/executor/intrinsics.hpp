// SPDX-License-Identifier: Apache-2.0
//! @file
//! The device functions and variables that CUDA gives without an include.
#pragma once

#include <cuda_runtime.h>

#include <type_traits>

#include <executor/simt.hpp>

// A CTA runs on one host thread, so its indices can live there; the scheduler sets them.
inline thread_local uint3 threadIdx{};
inline thread_local uint3 blockIdx{};
inline thread_local dim3 blockDim{};
inline thread_local dim3 gridDim{};
inline constexpr int warpSize = executor::warp_lanes;

// ---- barriers -----------------------------------------------------------------------------------

inline void __syncthreads(executor::site where = executor::site::here()) {
  executor::barrier("__syncthreads", 0, where);
}
inline int __syncthreads_or(int predicate, executor::site where = executor::site::here()) {
  return executor::barrier("__syncthreads_or", predicate, where).count != 0;
}
inline int __syncthreads_and(int predicate, executor::site where = executor::site::here()) {
  return executor::barrier("__syncthreads_and", predicate, where).all;
}
inline int __syncthreads_count(int predicate, executor::site where = executor::site::here()) {
  return executor::barrier("__syncthreads_count", predicate, where).count;
}
inline void __syncwarp(unsigned mask        = executor::every_lane,
                       executor::site where = executor::site::here()) {
  executor::warp_barrier(mask, where);
}

// ---- votes and shuffles ---------------------------------------------------------------------------

namespace executor {

//! One lane's predicate; afterwards the ballot of the mask's lanes.
struct ballot {
  bool predicate;
  unsigned result;
  static void perform(unsigned mask, void* const* lanes);
};
//! One lane's bits and the lane that it reads; afterwards that lane's bits.
struct shuffle {
  std::uint64_t bits;
  unsigned source;
  static void perform(unsigned mask, void* const* lanes);
};

inline unsigned vote(char const* name, unsigned mask, int predicate, site where) {
  ballot mine{predicate != 0, 0};
  converge(name, mask, where, mine);
  return mine.result;
}

template <class T>
T exchange(char const* name, unsigned mask, T value, unsigned source, site where) {
  static_assert(
      std::is_trivially_copyable_v<T> && (sizeof(T) == 4 || sizeof(T) == 8 || sizeof(T) == 2),
      "a shuffle moves 2, 4 or 8 bytes");
  shuffle mine{0, source};
  std::memcpy(&mine.bits, &value, sizeof(T));
  converge(name, mask, where, mine);
  std::memcpy(&value, &mine.bits, sizeof(T));
  return value;
}

//! The source lane of a shuffle in its segment of `width` lanes; out of the segment means itself.
inline unsigned in_segment(int source, int width) {
  int const lane  = static_cast<int>(current_lane());
  int const first = lane / width * width;
  return static_cast<unsigned>(source >= first && source < first + width ? source : lane);
}

}  // namespace executor

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              executor::site where = executor::site::here()) {
  return executor::vote("__ballot_sync", mask, predicate, where);
}
inline int __any_sync(unsigned mask, int predicate, executor::site where = executor::site::here()) {
  return executor::vote("__any_sync", mask, predicate, where) != 0;
}
inline int __all_sync(unsigned mask, int predicate, executor::site where = executor::site::here()) {
  return executor::vote("__all_sync", mask, predicate, where) == mask;
}
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = warpSize,
              executor::site where = executor::site::here()) {
  int const lane = static_cast<int>(executor::current_lane());
  return executor::exchange("__shfl_sync", mask, value,
                            static_cast<unsigned>(lane / width * width + (source & (width - 1))),
                            where);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = warpSize,
                  executor::site where = executor::site::here()) {
  int const lane = static_cast<int>(executor::current_lane());
  return executor::exchange("__shfl_xor_sync", mask, value,
                            executor::in_segment(lane ^ lane_mask, width), where);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                 executor::site where = executor::site::here()) {
  int const lane = static_cast<int>(executor::current_lane());
  return executor::exchange("__shfl_up_sync", mask, value,
                            executor::in_segment(lane - static_cast<int>(delta), width), where);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = warpSize,
                   executor::site where = executor::site::here()) {
  int const lane = static_cast<int>(executor::current_lane());
  return executor::exchange("__shfl_down_sync", mask, value,
                            executor::in_segment(lane + static_cast<int>(delta), width), where);
}

// ---- atomics ----------------------------------------------------------------------------------------

namespace executor {

enum class atomic_operation { add, bit_or, bit_and, maximum, minimum, exchange, compare_and_swap };
//! Applies the operation and returns the old value. Instantiated for int, unsigned and unsigned
//! long long.
template <class T>
T apply_atomic(T* address, atomic_operation operation, T operand, T compare = T{});

//! The types that atomics are given for; the argument converts to the address's type.
template <class T>
using atomic_type = std::enable_if_t<std::is_same_v<T, int> || std::is_same_v<T, unsigned> ||
                                         std::is_same_v<T, unsigned long long>,
                                     T>;
template <class T>
struct identity {
  using type = T;
};
template <class T>
using same = typename identity<T>::type;  // takes no part in deduction

}  // namespace executor

template <class T>
__forceinline__ executor::atomic_type<T> atomicAdd(T* address, executor::same<T> value) {
  return executor::apply_atomic(address, executor::atomic_operation::add, value);
}
template <class T>
__forceinline__ executor::atomic_type<T> atomicOr(T* address, executor::same<T> value) {
  return executor::apply_atomic(address, executor::atomic_operation::bit_or, value);
}
template <class T>
__forceinline__ executor::atomic_type<T> atomicAnd(T* address, executor::same<T> value) {
  return executor::apply_atomic(address, executor::atomic_operation::bit_and, value);
}
template <class T>
__forceinline__ executor::atomic_type<T> atomicMax(T* address, executor::same<T> value) {
  return executor::apply_atomic(address, executor::atomic_operation::maximum, value);
}
template <class T>
__forceinline__ executor::atomic_type<T> atomicMin(T* address, executor::same<T> value) {
  return executor::apply_atomic(address, executor::atomic_operation::minimum, value);
}
template <class T>
__forceinline__ executor::atomic_type<T> atomicExch(T* address, executor::same<T> value) {
  return executor::apply_atomic(address, executor::atomic_operation::exchange, value);
}
template <class T>
__forceinline__ executor::atomic_type<T> atomicCAS(T* address, executor::same<T> compare,
                                                   executor::same<T> value) {
  return executor::apply_atomic(address, executor::atomic_operation::compare_and_swap, value,
                                compare);
}

// ---- loads, bits, arithmetic --------------------------------------------------------------------

template <class T>
__forceinline__ T __ldg(T const* address) {
  return *address;
}

inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __popcll(unsigned long long value) { return __builtin_popcountll(value); }
inline int __ffs(int value) { return __builtin_ffs(value); }
inline int __ffsll(long long value) { return __builtin_ffsll(value); }
inline int __clz(int value) {
  return value == 0 ? 32 : __builtin_clz(static_cast<unsigned>(value));
}
inline int __clzll(long long value) {
  return value == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(value));
}

namespace executor {
template <class To, class From>
To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bits must keep their number");
  To to;
  std::memcpy(&to, &from, sizeof(To));
  return to;
}
}  // namespace executor

inline float __int_as_float(int bits) { return executor::bit_cast<float>(bits); }
inline float __uint_as_float(unsigned bits) { return executor::bit_cast<float>(bits); }
inline int __float_as_int(float value) { return executor::bit_cast<int>(value); }
inline unsigned __float_as_uint(float value) { return executor::bit_cast<unsigned>(value); }

using std::isfinite;
using std::isinf;
using std::isnan;

inline float __expf(float x) { return expf(x); }
inline float __logf(float x) { return logf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __fdividef(float x, float y) { return x / y; }

template <class T>
constexpr T min(T a, executor::same<T> b) {
  return b < a ? b : a;
}
template <class T>
constexpr T max(T a, executor::same<T> b) {
  return a < b ? b : a;
}
