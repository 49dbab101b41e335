// SPDX-License-Identifier: Apache-2.0
//! @file
//! Calls that a benchmark cannot go on without: it has nobody to hand an error to.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#include <pageunion/status.hpp>

namespace pageunion::bench {

//! Ends the program unless the CUDA runtime agreed.
inline void check(cudaError_t error, char const* what) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(EXIT_FAILURE);
  }
}

//! Ends the program unless the library agreed.
inline void check(status s, char const* what) {
  if (s != status::ok) {
    std::fprintf(stderr, "%s: %s\n", what, to_string(s));
    std::exit(EXIT_FAILURE);
  }
}

}  // namespace pageunion::bench
