// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. What attention kernels share of a warp and its registers. Knows no data.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include <pageunion/tuning.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

inline constexpr int mma_dim         = sm70_limits::mma_dim;
inline constexpr int warp_threads    = sm70_limits::warp_threads;
inline constexpr unsigned every_lane = 0xffffffffu;

//! Hides from the compiler where a value came from. What is derived from it is then derived again
//! where it is used, instead of being held, or spilled, in registers across the main loop.
__device__ inline void hide_origin(std::uint32_t& value) { asm volatile("" : "+r"(value)); }
__device__ inline void hide_origin(std::int32_t& value) { asm volatile("" : "+r"(value)); }
__device__ inline void hide_origin(std::uint64_t& value) { asm volatile("" : "+l"(value)); }

//! 2^x by the hardware's unit, results below 2^-126 flushed to 0: weights become halves, whose least is
//! 2^-24. exp2f() spends three more instructions on such results. Relative error 2^-22 at most (PTX
//! ISA, ex2.approx.ftz).
__device__ inline float exp2_flushed(float x) {
#ifdef __CUDA_ARCH__
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
#else
  return exp2f(x);
#endif
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
