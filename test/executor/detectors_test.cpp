// SPDX-License-Identifier: Apache-2.0
//! @file
//! Every fault that the executor can find, in the smallest kernel that has it,
//! next to the same kernel without it.
#include <cuda_runtime.h>
#include <mma.h>

#include <cstddef>
#include <string>

#include <executor/launch.hpp>
#include <pageunion/detail/host/launch.cuh>
#include <support/catch.hpp>

namespace {

using pageunion::test::contains_text;

//! Which fault a kernel has; none is the control.
struct params {
  bool is_faulty;
  float* out;
};

struct storage {
  alignas(32) float values[256];
};

__device__ storage& smem() { return pageunion::detail::dynamic_smem<storage>(); }
__device__ int thread() { return static_cast<int>(threadIdx.x); }

//! The report of a launch of 2 CTAs of 64 threads, "" if there is none.
std::string report(void (*kernel)(params), bool is_faulty) {
  float out[256];
  return executor::report_of([&] {
    (void)pageunion::detail::launch(kernel, 2, 1, 64, sizeof(storage), nullptr,
                                    params{is_faulty, out});
  });
}

__global__ void barrier_in_a_branch(params const p) {
  if (!p.is_faulty || thread() != 37) {
    __syncthreads();
  }
}

__global__ void two_barriers(params const p) {
  if (p.is_faulty && thread() < 32) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}

__global__ void warp_call_of_half_a_warp(params const p) {
  if (!p.is_faulty || thread() % 32 < 16) {
    (void)__ballot_sync(0xffffffffu, 1);
  }
}

__global__ void shuffle_in_two_places(params const p) {
  if (p.is_faulty && thread() % 2 == 0) {
    (void)__shfl_sync(0xffffffffu, 1, 0);
  } else {
    (void)__shfl_sync(0xffffffffu, 2, 0);
  }
}

__global__ void shuffle_from_an_absent_lane(params const p) {
  if (thread() % 32 < 8) {
    (void)__shfl_sync(0xffu, thread(), p.is_faulty ? 8 : 7);
  }
}

__global__ void mask_without_the_caller(params const p) {
  if (thread() % 32 < 8) {
    (void)__any_sync(p.is_faulty ? 0xfeu : 0xffu, 1);
  }
}

__global__ void too_much_shared_memory(params const p) {
  struct twice {
    storage halves[2];
  };
  if (p.is_faulty) {
    (void)pageunion::detail::dynamic_smem<twice>();
  }
}

__global__ void misaligned_matrix(params const p) {
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum;
  nvcuda::wmma::fill_fragment(sum, 0.0f);
  if (thread() < 32) {
    nvcuda::wmma::store_matrix_sync(smem().values + (p.is_faulty ? 4 : 0), sum, 12,
                                    nvcuda::wmma::mem_row_major);
  }
}

__global__ void lanes_with_different_matrices(params const p) {
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum;
  nvcuda::wmma::fill_fragment(sum, 0.0f);
  if (thread() < 32) {
    bool const is_other = p.is_faulty && thread() == 3;
    nvcuda::wmma::store_matrix_sync(smem().values, sum, is_other ? 12 : 16,
                                    nvcuda::wmma::mem_row_major);
  }
}

__global__ void operand_changed_in_one_lane(params const p) {
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, 16, 16, 16, half, nvcuda::wmma::row_major> a;
  nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, 16, 16, 16, half, nvcuda::wmma::row_major> b;
  nvcuda::wmma::fragment<nvcuda::wmma::accumulator, 16, 16, 16, float> sum;
  nvcuda::wmma::fill_fragment(a, half(1.0f));
  nvcuda::wmma::fill_fragment(b, half(1.0f));
  nvcuda::wmma::fill_fragment(sum, 0.0f);
  if (p.is_faulty && thread() == 3) {
    nvcuda::wmma::fill_fragment(a, half(2.0f));
  }
  nvcuda::wmma::mma_sync(sum, a, b, sum);
}

void check(void (*kernel)(params), char const* text) {
  REQUIRE(report(kernel, false) == "");
  std::string const found = report(kernel, true);
  REQUIRE_THAT(found, contains_text(text));
  REQUIRE_THAT(found, contains_text("thread") && contains_text("CTA (") && contains_text("seed "));
}

}  // namespace

TEST_CASE("a barrier that not all threads reach is reported") {
  check(barrier_in_a_branch, ": threads 0,1,2,");
  check(barrier_in_a_branch, "exited: threads 37\n");
  check(two_barriers, "threads wait for each other");
}

TEST_CASE("a warp operation that not all lanes reach is reported") {
  check(warp_call_of_half_a_warp, "__ballot_sync");
  check(shuffle_in_two_places, "threads wait for each other");
  check(mask_without_the_caller, "lacks the calling lane");
}

TEST_CASE("a shuffle from an absent lane is reported") {
  check(shuffle_from_an_absent_lane, "shuffles from lane 8, which the mask lacks");
}

TEST_CASE("a WMMA operation with operands that CUDA forbids is reported") {
  check(misaligned_matrix, "not 32-byte aligned");
  check(lanes_with_different_matrices, "disagree about a matrix");
  check(operand_changed_in_one_lane, "disagree about its value");
}

TEST_CASE("a kernel that uses more shared memory than its launch gave is reported") {
  check(too_much_shared_memory, "bytes of shared memory");
}
