// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Which compiled code, and so which tuning, the device has loaded. Knows kernels by address.
#pragma once

#include <cuda_runtime.h>

#include <pageunion/status.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

template <int... Architectures>
struct architecture_list {};

// nvcc before 11.5 does not tell its list: all of its code then has the tuning of sm_70.
#ifdef __CUDA_ARCH_LIST__
using compiled_architectures = architecture_list<__CUDA_ARCH_LIST__>;
#else
using compiled_architectures           = architecture_list<700>;
#endif

//! Architecture of the code that is being compiled; of no meaning in host code.
#if defined(__CUDA_ARCH_LIST__) && defined(__CUDA_ARCH__)
inline constexpr int code_architecture = __CUDA_ARCH__;
#else
inline constexpr int code_architecture = 700;
#endif

//! True if two architectures have one tuning, and so the same kernels.
template <class Policy, class Selector>
constexpr bool have_same_tuning(int a, int b) noexcept {
  return Selector::template select<Policy>(a) == Selector::template select<Policy>(b);
}

//! The first architecture of a list that has the tuning of another one, which is in the list.
template <class Policy, class Selector, int... Architectures>
constexpr int first_of_same_tuning(int architecture, architecture_list<Architectures...>) noexcept {
  for (int const candidate : {Architectures...}) {
    if (have_same_tuning<Policy, Selector>(candidate, architecture)) {
      return candidate;
    }
  }
  return architecture;
}

//! Calls body(Code<Policy, Selector, A>) with A the first compiled architecture that has the tuning of
//! the code that the device loads, which is asked for only if the architectures differ in it.
template <template <class, class, int> class Code, class Policy, class Selector, class Body,
          class All, int First, int... Rest>
[[nodiscard]] status visit_code(int loaded, Body const& body, All all,
                                architecture_list<First, Rest...>) noexcept {
  constexpr int first = first_of_same_tuning<Policy, Selector>(First, All{});
  using code          = Code<Policy, Selector, first>;
  if constexpr (!(have_same_tuning<Policy, Selector>(First, Rest) && ...)) {
    if (loaded == 0) {
      cudaFuncAttributes attributes{};
      if (cudaFuncGetAttributes(&attributes, reinterpret_cast<void const*>(code::kernel)) !=
          cudaSuccess) {
        return status::cuda_error;
      }
      loaded = attributes.ptxVersion * 10;
    }
    if (!have_same_tuning<Policy, Selector>(First, loaded)) {
      return visit_code<Code, Policy, Selector>(loaded, body, all, architecture_list<Rest...>{});
    }
  }
  return body(code{});
}

//! Calls body(Code<Policy, Selector, A>), A standing for the tuning of the code that the current device
//! loads: PTX keeps the tuning of the architecture that it was compiled for, whatever the device.
//! @tparam Code has `kernel`, a kernel's address
template <template <class, class, int> class Code, class Policy, class Selector, class Body>
[[nodiscard]] status with_loaded_code(Body const& body) noexcept {
  return visit_code<Code, Policy, Selector>(0, body, compiled_architectures{},
                                            compiled_architectures{});
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
