// SPDX-License-Identifier: Apache-2.0
//! @file
//! A problem on the device and one call of row_attention() on it: partial results, and everything
//! that must hold afterwards.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/row_attention.cuh>
#include <pageunion/status.hpp>

#include "captured_graph.cuh"
#include "device_array.cuh"
#include "device_problem.cuh"
#include "faults.cuh"
#include "problem.hpp"

namespace pageunion::test {

//! One call's device memory. Policy is the policy of the call.
template <class Policy>
class row_run {
 public:
  using G = row_geometry<geometry<Policy>>;

  explicit row_run(host_problem const& p)
      : device_(p),
        partitions_(num_partitions<G>(device_.selected(), device_.operands().cache)),
        out_(num_partials(p) * static_cast<std::size_t>(p.spec.head_dim) * sizeof(float)),
        lse_(num_partials(p) * sizeof(float)) {}

  device_problem& device() { return device_; }
  std::int32_t partitions() const { return partitions_; }
  row_partials partials() const { return {out_.as<float>(), lse_.as<float>(), partitions_}; }

  //! Calls row_attention() and does not wait.
  //! @param report device memory or null
  status enqueue(cudaStream_t stream, plan_report* report = nullptr) {
    return row_attention<geometry<Policy>>(device_.rows(), device_.selected(), device_.operands(),
                                           partials(), report, stream);
  }

  //! Calls row_attention() with poisoned outputs and partials, and waits.
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

  void poison() {
    device_.poison_outputs();
    out_.poison();
    lse_.poison();
  }

  //! faults_of_rows() of these rows, and damage around the partials.
  std::string faults(std::vector<std::int32_t> const& rows) {
    std::string found = faults_of_rows(device_, rows);
    found += out_.is_guarded() && lse_.is_guarded() ? "" : "guard bytes of the partials; ";
    return found;
  }
  //! The same for all rows.
  std::string faults() { return faults(all_rows(device_.host())); }

 private:
  std::size_t num_partials(host_problem const& p) const {
    return partitions_ < 2
               ? 0
               : static_cast<std::size_t>(partitions_) * static_cast<std::size_t>(p.spec.num_rows) *
                     static_cast<std::size_t>(p.num_heads());
  }

  device_problem device_;
  std::int32_t partitions_;
  device_array out_;
  device_array lse_;
  test_stream stream_;
};

}  // namespace pageunion::test
