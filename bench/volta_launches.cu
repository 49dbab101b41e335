// SPDX-License-Identifier: Apache-2.0
//! @file
//! Holds every kernel instance whose cost volta_report.py prints, and prints as JSON what machine
//! code does not tell: dynamic shared memory and threads of each. Runs without a device.
#include <cstddef>
#include <cstdio>

#include <pageunion/grouped_attention.cuh>
#include <pageunion/planner.cuh>

#include "policies.hpp"
#include "synchronous_tile.cuh"

namespace {

using namespace pageunion;

//! A kernel instance, named as volta_report.py names it.
struct instance {
  char const* kernel;
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

template <class Geometry, class Table>
instance planner(char const* name) {
  using shape   = detail::planner_shape;
  using planner = detail::group_planner<Geometry, Table, shape>;
  return {name, reinterpret_cast<void const*>(&detail::planner_kernel<Geometry, Table, shape>),
          shape::threads, sizeof(typename planner::shared_storage)};
}

template <class Geometry, int Warps>
instance synchronous(char const* name) {
  using tile = bench::synchronous_tile<Geometry, Warps>;
  return {name, reinterpret_cast<void const*>(&bench::synchronous_tile_kernel<Geometry, Warps, 0>),
          Warps * sm70_limits::warp_threads, sizeof(typename tile::shared_storage)};
}

}  // namespace

int main() {
  instance const instances[] = {
      grouped<geometry<qsa_policy>>("grouped_attention_kernel<geometry<qsa_policy>>"),
      grouped<geometry<bench::group4_policy>>("grouped_attention_kernel<geometry<group4_policy>>"),
      grouped<geometry<bench::heads12_policy>>(
          "grouped_attention_kernel<geometry<heads12_policy>>"),
      planner<geometry<qsa_policy>, token_table>(
          "planner_kernel<geometry<qsa_policy>, token_table, planner_shape>"),
      planner<geometry<qsa_policy>, page_table>(
          "planner_kernel<geometry<qsa_policy>, page_table, planner_shape>"),
      synchronous<geometry<qsa_policy>, 16>("synchronous_tile_kernel<geometry<qsa_policy>, 16, 0>"),
      synchronous<geometry<qsa_policy>, 8>("synchronous_tile_kernel<geometry<qsa_policy>, 8, 0>"),
  };
  char const* separator = "[";
  for (instance const& i : instances) {
    if (i.code != nullptr) {
      std::printf("%s{\"kernel\": \"%s\", \"threads\": %d, \"smem_bytes\": %zu}", separator,
                  i.kernel, i.threads, i.smem_bytes);
      separator = ",\n ";
    }
  }
  std::printf("]\n");
  return 0;
}
