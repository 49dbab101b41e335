// SPDX-License-Identifier: Apache-2.0
//! @file
//! WMMA against the same sums in a plain loop, in every layout and for several
//! maps of elements.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cmath>
#include <type_traits>
#include <vector>

#include <executor/launch.hpp>
#include <pageunion/detail/host/launch.cuh>
#include <support/catch.hpp>
#include <support/random.hpp>

namespace {

using namespace nvcuda;
constexpr int edge = 16;

struct params {
  half const* a;  // [16, depth] in either layout
  half const* b;  // [depth, 16] in either layout
  float* out;     // [16, 16]
  int depth;
};

struct storage {
  alignas(32) float sum[edge * edge];
};

//! out = 2 (a b), the doubling done on the fragment's elements.
template <class ALayout, class BLayout>
__global__ void multiply(params const p) {
  auto& smem = pageunion::detail::dynamic_smem<storage>();
  wmma::fragment<wmma::matrix_a, edge, edge, edge, half, ALayout> a;
  wmma::fragment<wmma::matrix_b, edge, edge, edge, half, BLayout> b;
  wmma::fragment<wmma::accumulator, edge, edge, edge, float> sum;
  constexpr bool a_rows = std::is_same_v<ALayout, wmma::row_major>;
  constexpr bool b_rows = std::is_same_v<BLayout, wmma::row_major>;
  wmma::fill_fragment(sum, 0.0f);
  for (int k = 0; k < p.depth; k += edge) {
    wmma::load_matrix_sync(a, p.a + (a_rows ? k : k * edge),
                           static_cast<unsigned>(a_rows ? p.depth : edge));
    wmma::load_matrix_sync(b, p.b + (b_rows ? k * edge : k),
                           static_cast<unsigned>(b_rows ? edge : p.depth));
    wmma::mma_sync(sum, a, b, sum);
  }
  for (int i = 0; i < sum.num_elements; ++i) {
    sum.x[i] *= 2.0f;
  }
  wmma::store_matrix_sync(smem.sum, sum, edge, wmma::mem_col_major);
  __syncwarp();
  for (int i = static_cast<int>(threadIdx.x); i < edge * edge; i += executor::warp_lanes) {
    p.out[i] = smem.sum[i % edge * edge + i / edge];
  }
}

template <class ALayout, class BLayout>
void check(std::uint64_t seed) {
  constexpr int depth = 48;
  executor::set_seed(seed);
  pageunion::test::normal_source normal(seed);
  auto* const a   = new (std::align_val_t{32}) half[edge * depth];
  auto* const b   = new (std::align_val_t{32}) half[edge * depth];
  auto const fill = [&](half* to) {
    for (int i = 0; i < edge * depth; ++i) {
      to[i] = __half_raw{normal.next_half()};
    }
  };
  fill(a);
  fill(b);
  std::vector<float> out(edge * edge, NAN);
  REQUIRE(pageunion::detail::launch(&multiply<ALayout, BLayout>, 1, 1, 32, sizeof(storage), nullptr,
                                    params{a, b, out.data(), depth}) == pageunion::status::ok);
  for (int row = 0; row < edge; ++row) {
    for (int column = 0; column < edge; ++column) {
      double sum = 0.0;
      for (int k = 0; k < depth; ++k) {
        bool constexpr a_rows = std::is_same_v<ALayout, wmma::row_major>;
        bool constexpr b_rows = std::is_same_v<BLayout, wmma::row_major>;
        sum += 2.0 * static_cast<double>(a[a_rows ? row * depth + k : k * edge + row]) *
               static_cast<double>(b[b_rows ? k * edge + column : column * depth + k]);
      }
      CAPTURE(row, column);
      REQUIRE(std::abs(out[static_cast<std::size_t>(row * edge + column)] - sum) < 1e-4);
    }
  }
  ::operator delete[](a, std::align_val_t{32});
  ::operator delete[](b, std::align_val_t{32});
}

//! Which elements lane 0 of the first warp holds, as CTA 0 finds out.
struct map_params {
  float* out;  // [32 * 8]
};
__global__ void find_map(map_params const p) {
  auto& smem      = pageunion::detail::dynamic_smem<storage>();
  auto const lane = static_cast<int>(threadIdx.x);
  for (int i = lane; i < edge * edge; i += executor::warp_lanes) {
    smem.sum[i] = static_cast<float>(i);
  }
  __syncwarp();
  wmma::fragment<wmma::accumulator, edge, edge, edge, float> indices;
  wmma::load_matrix_sync(indices, smem.sum, edge, wmma::mem_row_major);
  for (int i = 0; i < indices.num_elements; ++i) {
    p.out[lane * indices.num_elements + i] = indices.x[i];
  }
}

std::vector<float> found_map(std::uint64_t seed) {
  executor::set_seed(seed);
  std::vector<float> map(edge * edge);
  (void)pageunion::detail::launch(&find_map, 1, 1, 32, sizeof(storage), nullptr,
                                  map_params{map.data()});
  return map;
}

}  // namespace

TEST_CASE("a product is the sum of products in every layout and map") {
  std::uint64_t const seed = GENERATE(1u, 2u, 3u);
  CAPTURE(seed);
  check<wmma::row_major, wmma::row_major>(seed);
  check<wmma::row_major, wmma::col_major>(seed);
  check<wmma::col_major, wmma::row_major>(seed);
  check<wmma::col_major, wmma::col_major>(seed);
}

TEST_CASE("the map of elements is a permutation that follows the seed alone") {
  std::vector<float> const one = found_map(1);
  REQUIRE(one == found_map(1));
  REQUIRE(one != found_map(2));
  std::vector<bool> seen(edge * edge, false);
  for (float const index : one) {
    REQUIRE(!seen.at(static_cast<std::size_t>(index)));
    seen[static_cast<std::size_t>(index)] = true;
  }
}
