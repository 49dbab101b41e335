// SPDX-License-Identifier: Apache-2.0
//! @file
//! Stands in for the library's header of the same name: the one place that launches kernels and the
//! one accessor of dynamic shared memory, handed to the executor.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include <executor/launch.hpp>
#include <pageunion/status.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

template <class Storage>
__device__ Storage& dynamic_smem() {
  return *static_cast<Storage*>(executor::shared_memory(sizeof(Storage)));
}

template <class Params>
[[nodiscard]] status allow_smem(void (*)(Params), std::size_t smem_bytes) noexcept {
  return smem_bytes > executor::max_smem ? status::unsupported_device : status::ok;
}

template <class Params>
[[nodiscard]] status launch(void (*kernel)(Params), std::uint32_t num_ctas, std::uint32_t ctas_y,
                            int threads, std::size_t smem_bytes, cudaStream_t stream,
                            Params params) noexcept {
  status const allowed = allow_smem(kernel, smem_bytes);
  if (allowed != status::ok) {
    return allowed;
  }
  cudaError_t const launched =
      executor::launch(kernel, dim3(num_ctas, ctas_y), dim3(static_cast<unsigned>(threads)),
                       smem_bytes, stream, params);
  return launched == cudaSuccess ? status::ok : status::cuda_error;
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
