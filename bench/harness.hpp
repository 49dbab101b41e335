// SPDX-License-Identifier: Apache-2.0
//! @file
//! What every benchmark program shares: cases, the problems they run on, the options --problem,
//! --export, --workload and --cuda-profile-case, and the way into Google Benchmark.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "check.hpp"
#include "support/device_problem.cuh"
#include "workload.hpp"

namespace pageunion::bench {

//! A problem on host and device, and its overlap.
struct loaded_problem {
  explicit loaded_problem(host_problem const& p) : sharing(measure_overlap(p)), device(p) {}

  host_problem const& host() const { return device.host(); }

  //! Operations of both products over the tokens that the rows asked for.
  double asked_flop() const {
    return 4.0 * sharing.asked_tokens * host().num_heads() * host().head_dim;
  }

  overlap sharing;
  device_problem device;
};

using problem_handle = std::shared_ptr<loaded_problem const>;

//! Where cases get their problems: a generated workload, or the file of --problem.
struct problem_source {
  std::string key;  //!< equal keys give the same problem, which is then loaded once
  std::function<host_problem()> make;  //!< called when a case of another key ran before
};

//! A workload as a source.
problem_source generated(problem_spec const& shape);

//! The problem of a source. Keeps the last one: cases of one problem should stand side by side.
problem_handle load(problem_source const& source);

//! A case that is ready to be timed. Everything that it needs is owned by `enqueue`.
struct prepared_case {
  std::function<void(cudaStream_t)> enqueue;  //!< one repetition; does not wait
  std::map<std::string, double> facts;        //!< counters as they are
  std::map<std::string, double> amounts;      //!< of one repetition; shown per second
};

//! Whether the L2 cache is flushed before every repetition.
enum class l2_state : int { warm, cold };

//! A named case. `prepare` runs only if the case does.
struct bench_case {
  std::string name;
  l2_state l2;
  std::function<prepared_case()> prepare;
};

//! Puts the problem's size and overlap into a case.
void describe(loaded_problem const& p, prepared_case& c);

//! main() of a benchmark program.
//!
//! @param cases    makes the cases that sweep workloads
//! @param on_file  makes the cases for the problem of --problem
//! @param kernel   any kernel of the program, to say which machine code the device runs
//! @return exit code; 77 if there is no device and one is needed
int run_benchmarks(int argc, char** argv, std::function<std::vector<bench_case>()> const& cases,
                   std::function<std::vector<bench_case>(problem_source const&)> const& on_file,
                   void const* kernel);

}  // namespace pageunion::bench
