// SPDX-License-Identifier: Apache-2.0
#include <executor/launch.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <vector>

#include "address.hpp"
#include "cta.hpp"

namespace executor {

namespace {

std::uint64_t first_seed() {
  char const* const text = std::getenv("PAGEUNION_EXECUTOR_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

std::uint64_t current_seed = first_seed();
std::uint64_t num_launches = 0;
int num_listeners          = 0;  // report_of() calls in progress
std::string first_report;

//! Random numbers for CTA number `cta` of the current launch, or for the order of its CTAs.
std::mt19937 random_for(std::uint64_t cta) {
  std::seed_seq words{current_seed, current_seed >> 32, num_launches, cta};
  return std::mt19937(words);
}

//! Of CUDA's launches, those with CTAs along x and y and threads along x.
bool is_valid(kernel_launch const& launch) {
  dim3 const g = launch.grid;
  dim3 const b = launch.block;
  return g.x - 1 < 0x7fffffffu && g.y - 1 < 65535 && g.z == 1 && b.x - 1 < 1024 && b.y == 1 &&
         b.z == 1 && launch.smem_bytes <= max_smem;
}

//! Runs the CTAs one after the other in a random order. Returns the first report, "" if there is none.
std::string run_ctas(kernel_launch const& launch) {
  std::vector<std::uint64_t> order(std::size_t{launch.grid.x} * launch.grid.y);
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  std::mt19937 random = random_for(order.size());
  std::shuffle(order.begin(), order.end(), random);
  for (std::uint64_t const cta : order) {
    auto const x             = static_cast<unsigned>(cta % launch.grid.x);
    auto const y             = static_cast<unsigned>(cta / launch.grid.x);
    std::string const report = run_cta(launch, dim3(x, y), random_for(cta));
    if (!report.empty()) {
      return report + "\n  CTA (" + std::to_string(x) + ", " + std::to_string(y) + ") of " +
             place_of(launch.function, "-C -f") + "\n  seed " + std::to_string(current_seed);
    }
  }
  return "";
}

}  // namespace

void set_seed(std::uint64_t seed) {
  current_seed = seed;
  num_launches = 0;
}

std::uint64_t seed() { return current_seed; }

cudaError_t run(kernel_launch const& launch) {
  if (!is_valid(launch)) {
    return cudaErrorInvalidConfiguration;
  }
  ++num_launches;
  std::string const report = run_ctas(launch);
  if (report.empty()) {
    return cudaSuccess;
  }
  if (num_listeners == 0) {
    std::fprintf(stderr, "executor: %s\n", report.c_str());
    std::abort();
  }
  if (first_report.empty()) {
    first_report = report;
  }
  return cudaErrorLaunchFailure;
}

std::string report_of(std::function<void()> const& body) {
  first_report.clear();
  ++num_listeners;
  body();
  --num_listeners;
  return first_report;
}

}  // namespace executor
