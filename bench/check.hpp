// SPDX-License-Identifier: Apache-2.0
//! @file
//! Calls that a benchmark cannot go on without: it has nobody to hand an error to.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include <pageunion/status.hpp>

namespace pageunion::bench {

//! Ends the program with a sentence.
[[noreturn]] inline void fail(std::string const& sentence) {
  std::fprintf(stderr, "%s\n", sentence.c_str());
  std::exit(EXIT_FAILURE);
}

//! Ends the program unless the CUDA runtime agreed.
inline void check(cudaError_t error, char const* what) {
  if (error != cudaSuccess) {
    fail(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

//! Ends the program unless the library agreed.
inline void check(status s, char const* what) {
  if (s != status::ok) {
    fail(std::string(what) + ": " + to_string(s));
  }
}

//! True if there is a device.
inline bool has_device() {
  int num_devices = 0;
  return cudaGetDeviceCount(&num_devices) == cudaSuccess && num_devices > 0;
}

//! Ends the program if there is no device, with the exit code that is ctest's SKIP_RETURN_CODE.
inline void require_device() {
  if (!has_device()) {
    std::fprintf(stderr, "no CUDA device: skipped\n");
    std::exit(77);
  }
}

}  // namespace pageunion::bench
