// SPDX-License-Identifier: Apache-2.0
//! @file
//! CUB's sums over a CTA, against sums in a plain loop.
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>

#include <cstddef>
#include <numeric>
#include <string>
#include <vector>

#include <executor/launch.hpp>
#include <pageunion/detail/host/launch.cuh>
#include <support/catch.hpp>

namespace {

constexpr int threads = 96;
using scan            = cub::BlockScan<int, threads, cub::BLOCK_SCAN_WARP_SCANS>;

//! A sum whose order shows: texts put together.
struct text {
  char letters[threads + 1];
};
struct append {
  text operator()(text const& a, text const& b) const {
    text both{};
    std::size_t const length = std::string(a.letters).copy(both.letters, threads);
    std::string(b.letters).copy(both.letters + length, threads - length);
    return both;
  }
};
using reduce = cub::BlockReduce<text, threads>;

struct storage {
  scan::TempStorage scan_storage;
  reduce::TempStorage reduce_storage;
};

struct params {
  int const* values;  // [threads]
  int* before;        // [threads]
  int* all;           // [threads]
  text* appended;     // [threads]
};

__global__ void sum_everything(params const p) {
  auto& smem     = pageunion::detail::dynamic_smem<storage>();
  auto const t   = threadIdx.x;
  int const mine = p.values[t];
  scan(smem.scan_storage).ExclusiveSum(mine, p.before[t], p.all[t]);
  text letter{};
  letter.letters[0] = static_cast<char>('0' + t % 10);
  p.appended[t]     = reduce(smem.reduce_storage).Reduce(letter, append());
}

cudaError_t sum(unsigned num_threads, std::vector<int> const& values, std::vector<int>& before,
                std::vector<int>& all, std::vector<text>& appended) {
  return executor::launch(sum_everything, dim3(1), dim3(num_threads), sizeof(storage), nullptr,
                          params{values.data(), before.data(), all.data(), appended.data()});
}

}  // namespace

TEST_CASE(
    "a thread gets the sum of the threads before it and of all, in their "
    "order") {
  std::vector<int> values(threads), before(threads), all(threads);
  std::vector<text> appended(threads);
  std::iota(values.begin(), values.end(), -7);
  REQUIRE(sum(threads, values, before, all, appended) == cudaSuccess);
  int expected = 0;
  std::string letters;
  for (std::size_t t = 0; t < threads; ++t) {
    REQUIRE(before[t] == expected);
    REQUIRE(all[t] == std::accumulate(values.begin(), values.end(), 0));
    expected += values[t];
    letters += static_cast<char>('0' + t % 10);
  }
  REQUIRE(appended[0].letters == letters);
}

TEST_CASE("a reduction's sum is in thread 0 alone") {
  std::vector<int> values(threads, 1), before(threads), all(threads);
  std::vector<text> appended(threads);
  REQUIRE(sum(threads, values, before, all, appended) == cudaSuccess);
  for (std::size_t t = 1; t < threads; ++t) {
    REQUIRE(appended[t].letters[0] == '\xff');
  }
}

TEST_CASE("a collective of CTAs of another size is reported") {
  std::vector<int> values(128, 1), before(128), all(128);
  std::vector<text> appended(128);
  REQUIRE_THAT(executor::report_of([&] { (void)sum(128, values, before, all, appended); }),
               pageunion::test::contains_text("CTAs of another shape"));
}
