// SPDX-License-Identifier: Apache-2.0
//! @file
//! One of two libraries in a program that were built for different architectures. LIBRARY is its name.
#include <pageunion/merge_partials.cuh>

//! Addresses that this library calls and launches: a launcher's and a kernel's.
extern "C" void LIBRARY(void const* addresses[2]) {
  addresses[0] = reinterpret_cast<void const*>(&pageunion::merge_partials<256>);
  addresses[1] = reinterpret_cast<void const*>(&pageunion::detail::merge_kernel<256>);
}
