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

//! A number that depends on the seed and on two more numbers: splitmix64.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  std::uint64_t state = current_seed;
  for (std::uint64_t const value : {a, b}) {
    state += 0x9e3779b97f4a7c15ull + value;
    state = (state ^ state >> 30) * 0xbf58476d1ce4e5b9ull;
    state = (state ^ state >> 27) * 0x94d049bb133111ebull;
    state ^= state >> 31;
  }
  return state;
}

bool is_valid(kernel_launch const& launch) {
  dim3 const g            = launch.grid;
  dim3 const b            = launch.block;
  std::uint64_t const all = std::uint64_t{b.x} * b.y * b.z;
  return g.x - 1 < 0x7fffffffu && g.y - 1 < 65535 && g.z - 1 < 65535 && b.x <= 1024 &&
         b.y <= 1024 && b.z <= 64 && all - 1 < 1024 && launch.smem_bytes <= max_smem;
}

//! The CTAs of one launch, run by several host threads in the order of a stride
//! that visits them all.
class launched_ctas {
 public:
  explicit launched_ctas(kernel_launch const& launch)
      : launch_(launch),
        num_ctas_(std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z),
        draw_(mix(++num_launches, 0)),
        stride_(draw_ % num_ctas_ + 1) {
    while (std::gcd(stride_, num_ctas_) != 1) {
      ++stride_;
    }
  }

  //! Returns the first report, "" if there is none.
  std::string run() {
    // Stacks and shadow memory are worth keeping.
    static std::vector<std::unique_ptr<cta_runner>> runners;
    std::uint64_t const num_workers =
        std::min<std::uint64_t>(num_ctas_, std::max(1u, std::thread::hardware_concurrency()));
    while (runners.size() < num_workers) {
      runners.push_back(std::make_unique<cta_runner>());
    }
    std::vector<std::thread> others;
    for (std::uint64_t w = 1; w < num_workers; ++w) {
      others.emplace_back([this, w] { work(*runners[w]); });
    }
    work(*runners[0]);
    for (std::thread& other : others) {
      other.join();
    }
    return report_;
  }

 private:
  void work(cta_runner& runner) {
    for (std::uint64_t i = next_++; i < num_ctas_ && !has_report_; i = next_++) {
      std::uint64_t const cta = (i * stride_ + draw_ % num_ctas_) % num_ctas_;
      dim3 const index(static_cast<unsigned>(cta % launch_.grid.x),
                       static_cast<unsigned>(cta / launch_.grid.x % launch_.grid.y),
                       static_cast<unsigned>(cta / launch_.grid.x / launch_.grid.y));
      std::string const found = runner.run(launch_, index, mix(draw_, cta + 1));
      std::lock_guard<std::mutex> const lock(mutex_);
      if (!found.empty() && !has_report_.exchange(true)) {
        report_ = found + "\n  CTA (" + std::to_string(index.x) + ", " + std::to_string(index.y) +
                  ", " + std::to_string(index.z) + ") of " + function_at(launch_.function) +
                  "\n  seed " + std::to_string(current_seed);
      }
    }
  }

  kernel_launch const& launch_;
  std::uint64_t const num_ctas_;
  std::uint64_t const draw_;
  std::uint64_t stride_;
  std::atomic<std::uint64_t> next_{0};
  std::mutex mutex_;
  std::string report_;
  std::atomic<bool> has_report_{false};
};

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
  std::string const report = launched_ctas(launch).run();
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
