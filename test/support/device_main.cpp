// SPDX-License-Identifier: Apache-2.0
//! @file
//! main() of every device test. Without a CUDA device that can run sm_70 code or later, the test is
//! skipped: exit code 77, never success.
#include <cuda_runtime.h>

#include <cstdio>

#include "support/catch_runner.hpp"

namespace {

constexpr int exit_code_skipped = 77;  // SKIP_RETURN_CODE in test/CMakeLists.txt

//! Why no device test can run here; null if one can.
char const* reason_to_skip() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    return "skipped: no CUDA device";
  }
  int major = 0;
  if (cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0) != cudaSuccess ||
      major < 7) {
    return "skipped: the CUDA device is older than compute capability 7.0";
  }
  return nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (char const* const reason = reason_to_skip()) {
    std::puts(reason);
    return exit_code_skipped;
  }
  return pageunion::test::run_catch(argc, argv);
}
