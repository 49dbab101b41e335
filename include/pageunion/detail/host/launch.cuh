// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The one place that launches kernels and the one accessor of dynamic shared memory, so
//! that tests can run the same kernels elsewhere by replacing this file. Kernels' headers include
//! it before others: it says who can compile them.
#pragma once

#ifndef __CUDACC__
#error "pageunion: its .cuh headers need nvcc, in a .cu; a .cpp includes its .hpp headers."
#include <no such file: the compiler stops here>
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#error "pageunion: its kernels need sm_70 or later: nvcc -arch=sm_70, CMAKE_CUDA_ARCHITECTURES 70."
#endif

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include <pageunion/status.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Shared memory that a CTA gets without opting in to more, in bytes.
inline constexpr std::size_t smem_bytes_without_opt_in = 49152;

//! The CTA's dynamic shared memory as one object. Every kernel has at most one such object, of the
//! type whose size was given to launch().
template <class Storage>
__device__ Storage& dynamic_smem() {
  extern __shared__ __align__(128) unsigned char pageunion_smem[];
  return *reinterpret_cast<Storage*>(pageunion_smem);
}

//! Lets a kernel have so much dynamic shared memory on the current device.
//! @return ok; unsupported_device if the device has less of it; cuda_error for anything else
template <class Params>
[[nodiscard]] status allow_smem(void (*kernel)(Params), std::size_t smem_bytes) noexcept {
  if (smem_bytes <= smem_bytes_without_opt_in) {
    return status::ok;
  }
  cudaError_t const answer = cudaFuncSetAttribute(reinterpret_cast<void const*>(kernel),
                                                  cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                  static_cast<int>(smem_bytes));
  if (answer == cudaErrorInvalidValue) {
    return status::unsupported_device;
  }
  return answer == cudaSuccess ? status::ok : status::cuda_error;
}

//! Enqueues `kernel(params)` on `stream`: `num_ctas` CTAs along x (and `ctas_y` along y).
//! Returns the error of its own launch and leaves cudaGetLastError() to the caller.
template <class Params>
[[nodiscard]] status launch(void (*kernel)(Params), std::uint32_t num_ctas, std::uint32_t ctas_y,
                            int threads, std::size_t smem_bytes, cudaStream_t stream,
                            Params params) noexcept {
  status const allowed = allow_smem(kernel, smem_bytes);
  if (allowed != status::ok) {
    return allowed;
  }
  void* arguments[] = {&params};
  cudaError_t const launched =
      cudaLaunchKernel(reinterpret_cast<void const*>(kernel), dim3(num_ctas, ctas_y),
                       dim3(static_cast<unsigned>(threads), 1), arguments, smem_bytes, stream);
  return launched == cudaSuccess ? status::ok : status::cuda_error;
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
