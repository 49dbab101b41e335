// SPDX-License-Identifier: Apache-2.0
#include <executor/launch.hpp>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <numeric>
#include <thread>
#include <vector>

#include "code_address.hpp"
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

//! The runners of all launches so far: their stacks and shadow memory are worth keeping.
std::vector<std::unique_ptr<cta_runner>>& runners() {
  static std::vector<std::unique_ptr<cta_runner>> all;
  return all;
}

bool is_valid(kernel_launch const& launch) {
  dim3 const g = launch.grid;
  dim3 const b = launch.block;
  return g.x > 0 && g.y > 0 && g.z > 0 && g.x <= 0x7fffffffu && g.y <= max_ctas_along_y &&
         g.z <= max_ctas_along_y && b.x > 0 && b.y > 0 && b.z > 0 && b.x <= max_threads &&
         b.y <= max_threads && b.z <= 64 && b.x * b.y * b.z <= max_threads &&
         launch.smem_bytes <= max_smem;
}

//! Runs the CTAs in the order of a stride that visits them all. Returns the first report.
std::string run_all(kernel_launch const& launch) {
  std::uint64_t const num_ctas = std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
  std::uint64_t const draw     = mix(current_seed, ++num_launches);
  random_source random(draw);
  std::uint64_t stride = num_ctas < 2 ? 1 : random.below(0x7fffffffu) % num_ctas + 1;
  while (std::gcd(stride, num_ctas) != 1) {
    ++stride;
  }
  std::atomic<std::uint64_t> next{0};
  std::mutex mutex;
  std::string report;
  std::atomic<bool> has_report{false};

  auto const work = [&](cta_runner& runner) {
    for (std::uint64_t i = next++; i < num_ctas && !has_report; i = next++) {
      std::uint64_t const cta = (i * stride + draw) % num_ctas;
      dim3 const index(static_cast<unsigned>(cta % launch.grid.x),
                       static_cast<unsigned>(cta / launch.grid.x % launch.grid.y),
                       static_cast<unsigned>(cta / launch.grid.x / launch.grid.y));
      std::string const found = runner.run(launch, index, mix(draw, cta, 1));
      if (!found.empty()) {
        std::lock_guard<std::mutex> const lock(mutex);
        if (!has_report.exchange(true)) {
          report = found + "\n  CTA (" + std::to_string(index.x) + ", " + std::to_string(index.y) +
                   ", " + std::to_string(index.z) + ") of " + function_of(launch.function) +
                   "\n  seed " + std::to_string(current_seed);
        }
      }
    }
  };

  std::uint64_t const num_workers =
      std::min<std::uint64_t>(num_ctas, std::max(1u, std::thread::hardware_concurrency()));
  while (runners().size() < num_workers) {
    runners().push_back(std::make_unique<cta_runner>());
  }
  std::vector<std::thread> others;
  for (std::uint64_t w = 1; w < num_workers; ++w) {
    others.emplace_back([&work, w] { work(*runners()[w]); });
  }
  work(*runners()[0]);
  for (std::thread& other : others) {
    other.join();
  }
  return report;
}

}  // namespace

std::uint64_t mix(std::uint64_t seed, std::uint64_t a, std::uint64_t b) {
  std::uint64_t state = seed;
  for (std::uint64_t const value : {a, b}) {
    // splitmix64
    state += 0x9e3779b97f4a7c15ull + value;
    state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9ull;
    state = (state ^ state >> 27) * 0x94d049bb133111ebull;
    state ^= state >> 31;
  }
  return state;
}

void set_seed(std::uint64_t seed) {
  current_seed = seed;
  num_launches = 0;
}

std::uint64_t seed() { return current_seed; }

cudaError_t run(kernel_launch const& launch) {
  if (!is_valid(launch)) {
    return cudaErrorInvalidConfiguration;
  }
  std::string const report = run_all(launch);
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
