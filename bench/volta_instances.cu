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

template <class Geometry>
instance grouped(char const* name) {
  using cta = detail::attention_cta<Geometry, detail::group_pages<Geometry>>;
  return {name, reinterpret_cast<void const*>(&detail::grouped_attention_kernel<Geometry>),
          Geometry::threads, sizeof(typename cta::shared_storage)};
}

template <int Warps, int CtasPerSm>
instance synchronous(char const* name) {
  using G    = geometry<qsa_policy>;
  using tile = bench::synchronous_tile<G, Warps>;
  return {name, reinterpret_cast<void const*>(&bench::synchronous_tile_kernel<G, Warps, CtasPerSm>),
          Warps * sm70_limits::warp_threads, sizeof(typename tile::shared_storage)};
}

}  // namespace

int main() {
  instance const instances[] = {
      grouped<geometry<bench::group4_policy>>("grouped_attention_kernel<geometry<group4_policy>>"),
      grouped<geometry<bench::heads12_policy>>(
          "grouped_attention_kernel<geometry<heads12_policy>>"),
      synchronous<16, 0>("synchronous_tile_kernel<geometry<qsa_policy>,16,0>"),
      synchronous<16, 2>("synchronous_tile_kernel<geometry<qsa_policy>,16,2>"),
      synchronous<8, 0>("synchronous_tile_kernel<geometry<qsa_policy>,8,0>"),
  };
  for (instance const& i : instances) {
    if (i.code != nullptr) {
      std::printf("%s %d %zu\n", i.name, i.threads, i.smem_bytes);
    }
  }
  return 0;
}
