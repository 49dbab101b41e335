// SPDX-License-Identifier: Apache-2.0
//! @file
//! A problem on the device and one call of prefill() on it: arguments, workspace, and everything
//! that must hold afterwards.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <pageunion/plan.hpp>
#include <pageunion/prefill.cuh>
#include <pageunion/status.hpp>

#include "captured_graph.cuh"
#include "device_array.cuh"
#include "device_problem.cuh"
#include "faults.cuh"
#include "problem.hpp"

namespace pageunion::test {

//! The routes among which prefill() chooses.
inline std::vector<route> all_routes() { return {route::grouped, route::row}; }

//! One call's device memory. Policy is the policy of the call.
template <class Policy>
class prefill_run {
 public:
  explicit prefill_run(host_problem const& p, route wanted = route::automatic)
      : device_(p), wanted_(wanted), workspace_(needed_bytes()) {}

  prefill_args args() const {
    prefill_args call;
    call.rows      = device_.rows();
    call.selected  = device_.selected();
    call.attention = device_.operands();
    call.route     = wanted_;
    call.report    = report_;
    return call;
  }

  device_problem& device() { return device_; }
  void* workspace() const { return workspace_.data(); }
  std::size_t workspace_size() const { return workspace_.size_bytes(); }

  //! Calls prefill() and does not wait.
  status enqueue(cudaStream_t stream) {
    return prefill<Policy>(args(), workspace_.data(), workspace_.size_bytes(), stream, &info_);
  }

  //! Calls prefill() with poisoned outputs and workspace, and waits.
  status run() {
    poison();
    status const enqueued = enqueue(stream_.get());
    stream_.synchronize();
    return enqueued;
  }

  //! run() that must succeed: every byte of out and lse.
  std::vector<unsigned char> output_bytes() {
    status const ran = run();
    if (ran != status::ok) {
      throw std::runtime_error(to_string(ran));
    }
    return device_.output_bytes();
  }

  //! Lets the following calls count in a report on the device.
  void report_to(plan_report* report) { report_ = report; }

  void poison() {
    device_.poison_outputs();
    workspace_.poison();
  }

  //! What prefill() said of its last call.
  prefill_info const& info() const { return info_; }

  //! faults_of_rows() of these rows, and damage around the workspace.
  std::string faults(std::vector<std::int32_t> const& rows) {
    std::string const found = faults_of_rows(device_, rows);
    return found + (workspace_.is_guarded() ? "" : "guard bytes of the workspace; ");
  }
  //! The same for all rows.
  std::string faults() { return faults(all_rows(device_.host())); }

 private:
  std::size_t needed_bytes() const {
    std::size_t bytes  = 0;
    status const sized = workspace_bytes<Policy>(args(), bytes);
    if (sized != status::ok) {
      throw std::runtime_error(to_string(sized));
    }
    return bytes;
  }

  device_problem device_;
  route wanted_;
  plan_report* report_ = nullptr;
  device_array workspace_;
  test_stream stream_;
  prefill_info info_{};
};

}  // namespace pageunion::test
