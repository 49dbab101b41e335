// SPDX-License-Identifier: Apache-2.0
//! @file
//! The one dial of the device tests' sizes.
#pragma once

namespace pageunion::test {

//! The size that a test takes on a GPU, and where the executor runs the kernels on a CPU: some
//! thousand times slower, and with every access checked, so that few CTAs show what many would.
template <class Size>
constexpr Size test_size([[maybe_unused]] Size on_gpu, [[maybe_unused]] Size on_cpu) {
#ifdef PAGEUNION_EXECUTOR
  return on_cpu;
#else
  return on_gpu;
#endif
}

}  // namespace pageunion::test
