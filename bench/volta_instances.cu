// SPDX-License-Identifier: Apache-2.0
//! @file
//! Holds the kernel instances of the benchmarks that a prefill with the default policy does not launch,
//! and prints for volta_report.py the name, threads and dynamic shared memory in bytes of each.
//! Runs without a device.
#include <cstddef>
#include <cstdio>

#include <pageunion/grouped_attention.cuh>

#include "policies.hpp"
#include "synchronous_tile.cuh"

namespace {

using namespace pageunion;

//! A kernel instance, named as volta_report.py names it, without spaces.
struct instance {
  char const* name;
  void const* code;  //!< keeps the instance in the program
  int threads;
  std::size_t smem_bytes;
};

template <class Policy>
instance grouped(char const* name) {
  using code = detail::grouped_attention_code<Policy, default_tuning, 700>;
  return {name, reinterpret_cast<void const*>(code::kernel), code::shape::threads,
          code::smem_bytes};
}

template <int Warps, int CtasPerSm>
instance synchronous(char const* name) {
  using G    = qsa_policy;
  using tile = bench::synchronous_tile<G, Warps>;
  return {name, reinterpret_cast<void const*>(&bench::synchronous_tile_kernel<G, Warps, CtasPerSm>),
          Warps * sm70_limits::warp_threads, sizeof(typename tile::shared_storage)};
}

}  // namespace

int main() {
  instance const instances[] = {
      grouped<bench::group4_policy>("attention_kernel<group_pages,group4_policy>"),
      grouped<bench::heads12_policy>("attention_kernel<group_pages,heads12_policy>"),
      synchronous<16, 0>("synchronous_tile_kernel<qsa_policy,16,0>"),
      synchronous<16, 2>("synchronous_tile_kernel<qsa_policy,16,2>"),
      synchronous<8, 0>("synchronous_tile_kernel<qsa_policy,8,0>"),
  };
  for (instance const& i : instances) {
    if (i.code != nullptr) {
      std::printf("%s %d %zu\n", i.name, i.threads, i.smem_bytes);
    }
  }
  return 0;
}
