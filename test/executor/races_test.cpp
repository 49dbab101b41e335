// SPDX-License-Identifier: Apache-2.0
//! @file
//! Races on shared memory: each kernel is right with its barrier and reported
//! without it.
#include <cuda_runtime.h>
#include <mma.h>
#include <cub/block/block_scan.cuh>

#include <string>

#include <executor/launch.hpp>
#include <pageunion/detail/host/launch.cuh>
#include <support/catch.hpp>

namespace {

using pageunion::test::contains_text;

struct params {
  bool has_barrier;
  float* out;  // [64]
};

struct storage {
  alignas(32) float values[256];
  unsigned char bytes[64];
  unsigned word;
  cub::BlockScan<int, 64>::TempStorage scan;
};

__device__ storage& smem() { return pageunion::detail::dynamic_smem<storage>(); }
__device__ int thread() { return static_cast<int>(threadIdx.x); }

std::string report(void (*kernel)(params), bool has_barrier) {
  float out[64];
  return executor::report_of([&] {
    (void)pageunion::detail::launch(kernel, 1, 1, 64, sizeof(storage), nullptr,
                                    params{has_barrier, out});
  });
}

__global__ void neighbour_in_the_cta(params const p) {
  smem().values[thread()] = 1.0f;
  if (p.has_barrier) {
    __syncthreads();
  }
  p.out[thread()] = smem().values[(thread() + 32) % 64];
}

__global__ void neighbour_in_the_warp(params const p) {
  smem().values[thread()] = 1.0f;
  if (p.has_barrier) {
    __syncwarp();
  }
  p.out[thread()] = smem().values[thread() ^ 1];
}

__global__ void warp_barrier_for_the_cta(params const p) {
  smem().values[thread()] = 1.0f;
  __syncwarp();
  if (p.has_barrier) {
    __syncthreads();
  }
  p.out[thread()] = smem().values[(thread() + 32) % 64];
}

__global__ void vote_for_a_barrier(params const p) {
  smem().values[thread()] = 1.0f;
  (void)__any_sync(0xffffffffu, 1);
  if (p.has_barrier) {
    __syncwarp();
  }
  p.out[thread()] = smem().values[thread() ^ 1];
}

__global__ void overwritten_while_read(params const p) {
  if (thread() == 0) {
    smem().values[0] = 1.0f;
  }
  __syncthreads();
  p.out[thread()] = smem().values[0];
  if (p.has_barrier) {
    __syncthreads();
  }
  if (thread() == 63) {
    smem().values[0] = 2.0f;
  }
}

__global__ void matrix_read_by_lanes(params const p) {
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum;
  nvcuda::wmma::fill_fragment(sum, 1.0f);
  if (thread() < 32) {
    nvcuda::wmma::store_matrix_sync(smem().values, sum, 16, nvcuda::wmma::mem_row_major);
    if (p.has_barrier) {
      __syncwarp();
    }
    p.out[thread()] = smem().values[thread()];
  }
}

__global__ void matrix_written_by_lanes(params const p) {
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum;
  if (thread() < 32) {
    for (int i = thread(); i < 256; i += 32) {
      smem().values[i] = 1.0f;
    }
    if (p.has_barrier) {
      __syncwarp();
    }
    nvcuda::wmma::load_matrix_sync(sum, smem().values, 16, nvcuda::wmma::mem_row_major);
    p.out[thread()] = sum.x[0];
  }
}

__global__ void atomics_then_a_read(params const p) {
  if (thread() == 0) {
    smem().word = 0;
  }
  __syncthreads();
  atomicAdd(&smem().word, 1u);
  if (p.has_barrier) {
    __syncthreads();
  }
  p.out[thread()] = static_cast<float>(smem().word);
}

__global__ void storage_used_twice(params const p) {
  int before = 0;
  int all    = 0;
  cub::BlockScan<int, 64>(smem().scan).ExclusiveSum(thread(), before, all);
  if (p.has_barrier) {
    __syncthreads();
  }
  cub::BlockScan<int, 64>(smem().scan).ExclusiveSum(before, before, all);
  p.out[thread()] = static_cast<float>(before);
}

void check(void (*kernel)(params)) {
  REQUIRE(report(kernel, true) == "");
  std::string const found = report(kernel, false);
  REQUIRE_THAT(found, contains_text("race on shared memory") && contains_text("races_test.cpp"));
}

}  // namespace

TEST_CASE("accesses of two threads without a barrier in between are reported") {
  REQUIRE(executor::detects_races());
  check(neighbour_in_the_cta);
  check(neighbour_in_the_warp);
  check(warp_barrier_for_the_cta);
  check(overwritten_while_read);
}

TEST_CASE("a vote orders no memory") { check(vote_for_a_barrier); }

TEST_CASE("a WMMA operation orders no memory") {
  check(matrix_read_by_lanes);
  check(matrix_written_by_lanes);
}

TEST_CASE("atomics race with plain accesses only") { check(atomics_then_a_read); }

TEST_CASE("storage of a CUB collective is used again after a barrier only") {
  check(storage_used_twice);
}
