// SPDX-License-Identifier: Apache-2.0
//! @file
//! A problem on the device and one call of row_attention() on it: partial results, and everything
//! that must hold afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <pageunion/plan.hpp>
#include <pageunion/row_attention.cuh>

#include "attention_run.cuh"
#include "device_array.cuh"
#include "policies.hpp"

namespace pageunion::test {

//! One call's device memory. Policy is the policy of the call.
template <class Policy>
class row_run : public attention_run {
 public:
  explicit row_run(host_problem const& p)
      : attention_run(p),
        partitions_(
            num_partitions<Policy, policy_tuning>(device().selected(), device().operands().cache)),
        out_(num_partials() * p.head_dim * sizeof(float)),
        lse_(num_partials() * sizeof(float)) {}

  std::int32_t partitions() const { return partitions_; }
  row_partials partials() const { return {out_.as<float>(), lse_.as<float>(), partitions_}; }

  //! Lets the following calls count in a report on the device.
  void report_to(plan_report* report) { report_ = report; }

  status enqueue(cudaStream_t stream) override {
    return row_attention<Policy, policy_tuning>(device().rows(), device().selected(),
                                                device().operands(), partials(), report_, stream);
  }
  void poison() override {
    attention_run::poison();
    out_.poison();
    lse_.poison();
  }
  std::string damage() const override {
    return out_.is_guarded() && lse_.is_guarded() ? "" : "guard bytes of the partials; ";
  }

 private:
  std::size_t num_partials() const {
    return partitions_ < 2 ? 0
                           : std::size_t{1} * partitions_ * host().num_rows * host().num_heads();
  }

  std::int32_t partitions_;
  device_array out_;
  device_array lse_;
  plan_report* report_ = nullptr;
};

}  // namespace pageunion::test
