// SPDX-License-Identifier: Apache-2.0
//! @file
//! What every benchmark program shares: cases, the problems they run on, the options --problem,
//! --export, --workload and --cuda-profile-case, and the way into Google Benchmark.
#pragma once

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

//! A named workload of which one member is another: a step of a sweep.
template <class Base, class Value>
problem_source varied(char const* name, Value Base::*member, Value const& value) {
  problem_spec shape = *named_workload(name);
  shape.*member      = value;
  return generated(shape);
}

//! The problem of a source. Keeps the last one: cases of one problem should stand side by side.
problem_handle load(problem_source const& source);

//! A case that is ready to be timed. Everything that it needs is owned by `enqueue`.
struct prepared_case {
  char const* range = "";                 //!< name of a repetition on a profiler's timeline
  std::function<void()> enqueue;          //!< one repetition on the default stream; does not wait
  std::map<std::string, double> facts;    //!< counters as they are
  std::map<std::string, double> amounts;  //!< of one repetition; shown per second
};

//! Whether the L2 cache is flushed before every repetition.
enum class l2_state : int { warm, cold };

//! A named case. `prepare` runs only if the case does.
struct bench_case {
  std::string name;
  l2_state l2;
  std::function<prepared_case()> prepare;
};

//! A case with the problem's size and overlap among its facts, and nothing to enqueue yet.
prepared_case described(loaded_problem const& p, char const* range);

//! main() of a benchmark program.
//!
//! @param cases    makes the cases that sweep workloads
//! @param on_file  makes the cases for the problem of --problem
//! @return exit code; 77 if there is no device and one is needed
int run_benchmarks(int argc, char** argv, std::function<std::vector<bench_case>()> const& cases,
                   std::function<std::vector<bench_case>(problem_source const&)> const& on_file);

}  // namespace pageunion::bench
