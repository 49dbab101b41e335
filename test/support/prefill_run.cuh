// SPDX-License-Identifier: Apache-2.0
//! @file
//! A problem on the device and one call of prefill() on it: arguments, workspace, and everything
//! that must hold afterwards.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include <pageunion/plan.hpp>
#include <pageunion/prefill.cuh>

#include "attention_run.cuh"
#include "device_array.cuh"
#include "policies.hpp"

namespace pageunion::test {

//! The routes among which prefill() chooses.
inline std::vector<route> all_routes() { return {route::grouped, route::row}; }

//! One call's device memory. Policy is the policy of the call.
template <class Policy>
class prefill_run : public attention_run {
 public:
  explicit prefill_run(host_problem const& p, route wanted = route::automatic)
      : attention_run(p), wanted_(wanted), workspace_(needed_bytes()) {}

  prefill_args args() const {
    prefill_args call;
    call.rows      = device().rows();
    call.selected  = device().selected();
    call.attention = device().operands();
    call.route     = wanted_;
    call.report    = report_;
    return call;
  }

  void* workspace() const { return workspace_.data(); }
  std::size_t workspace_size() const { return workspace_.size_bytes(); }

  //! Lets the following calls count in a report on the device.
  void report_to(plan_report* report) { report_ = report; }

  //! What prefill() said of its last call.
  prefill_info const& info() const { return info_; }

  //! Calls prefill() with other arguments and the call's workspace, and does not wait.
  status call(prefill_args const& other, cudaStream_t stream = nullptr) {
    return prefill<Policy, policy_tuning>(other, workspace(), workspace_size(), stream, &info_);
  }
  status enqueue(cudaStream_t stream) override { return call(args(), stream); }
  void poison() override {
    attention_run::poison();
    workspace_.poison();
  }
  std::string damage() const override {
    return workspace_.is_guarded() ? "" : "guard bytes of the workspace; ";
  }

 private:
  std::size_t needed_bytes() const {
    std::size_t bytes  = 0;
    status const sized = workspace_bytes<Policy, policy_tuning>(args(), bytes);
    if (sized != status::ok) {
      throw std::runtime_error(to_string(sized));
    }
    return bytes;
  }

  route wanted_;
  plan_report* report_ = nullptr;
  device_array workspace_;
  prefill_info info_{};
};

}  // namespace pageunion::test
