// SPDX-License-Identifier: Apache-2.0
//! @file
//! Stands in for CUDA's header of the same name: the toolkit's own types and declarations for host
//! compilers, and ours of what it gives to nvcc alone. Of the runtime's functions, runtime.cpp defines
//! those that the library and its tests call. What is missing does not compile or link, on purpose.
#pragma once

#include <cuda_runtime_api.h>
#include <math.h>
#include <vector_functions.h>

#include <cstddef>

#define PAGEUNION_EXECUTOR 1
#define __launch_bounds__(...)

template <class T>
cudaError_t cudaMalloc(T** pointer, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}

#include <executor/intrinsics.hpp>
