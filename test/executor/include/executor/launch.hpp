// SPDX-License-Identifier: Apache-2.0
//! @file
//! The host's side of the executor: launches, the seed, and reports.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include <cuda_runtime.h>

namespace executor {

inline std::size_t max_smem = 98304;  // bytes of a CTA: a V100's, or what a test says

//! A kernel with everything that a launch needs.
struct kernel_launch {
  void const* function;        //!< names the kernel in reports
  std::function<void()> body;  //!< one CUDA thread
  dim3 grid;
  dim3 block;
  std::size_t smem_bytes;
};

//! Runs a launch to its end.
cudaError_t run(kernel_launch const& launch);

//! Runs a step, or records it if the stream is being captured.
cudaError_t enqueue(std::function<cudaError_t()> const& step, cudaStream_t stream);

//! Enqueues `kernel(params)`.
template <class Params>
cudaError_t launch(void (*kernel)(Params), dim3 grid, dim3 block, std::size_t smem_bytes,
                   cudaStream_t stream, Params const& params) {
  kernel_launch const call{reinterpret_cast<void const*>(kernel), [=] { kernel(params); }, grid,
                           block, smem_bytes};
  return enqueue([call] { return run(call); }, stream);
}

//! Decides every order and the map of fragment elements. Set it between launches only. The first
//! seed is PAGEUNION_EXECUTOR_SEED of the environment, or 1.
void set_seed(std::uint64_t seed);
std::uint64_t seed();

//! Runs `body` and returns the report of the first fault in it, "" if there was none. Outside of
//! this, a fault is printed and ends the process.
std::string report_of(std::function<void()> const& body);

//! True if this program's race detector sees accesses: the kernels were compiled for it.
bool detects_races();

}  // namespace executor
