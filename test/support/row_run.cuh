// SPDX-License-Identifier: Apache-2.0
//! @file
//! A problem on the device and one call of row_attention() on it: partial results, and everything
//! that must hold afterwards.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/reference.hpp>
#include <pageunion/row_attention.cuh>
#include <pageunion/status.hpp>

#include "captured_graph.cuh"
#include "device_array.cuh"
#include "device_problem.cuh"
#include "problem.hpp"
#include "tolerance.hpp"

namespace pageunion::test {

//! A specification with the heads of a policy.
template <class Policy>
problem_spec spec_of() {
  problem_spec spec;
  spec.page_tokens  = Policy::page_tokens;
  spec.heads_per_kv = Policy::heads_per_kv;
  spec.head_dim     = Policy::head_dim;
  return spec;
}

//! What is wrong with the results of a problem, or with memory that was not to change; empty if
//! nothing. Compares the sampled rows with the reference: by the derived bounds, and, if all rows are
//! sampled, by the project's relative L2.
inline std::string faults_of_rows(device_problem const& device,
                                  std::vector<std::int32_t> const& rows) {
  host_problem const& p = device.host();
  reference_result expected;
  reference_rows(p.rows(), p.selected(), p.operands(), p.spec.page_tokens, rows, expected);
  std::vector<double> const bounds =
      output_bounds(p.rows(), p.selected(), p.operands(), p.spec.page_tokens, rows);
  std::vector<double> const all_out = device.out();
  std::vector<double> const all_lse = device.lse();
  auto const heads                  = static_cast<std::size_t>(p.num_heads());
  auto const row_size               = heads * static_cast<std::size_t>(p.spec.head_dim);
  std::vector<double> sampled_out, sampled_lse;
  for (std::int32_t const row : rows) {
    auto const r = static_cast<std::ptrdiff_t>(row);
    auto const n = static_cast<std::ptrdiff_t>(row_size), h = static_cast<std::ptrdiff_t>(heads);
    sampled_out.insert(sampled_out.end(), all_out.begin() + r * n, all_out.begin() + (r + 1) * n);
    sampled_lse.insert(sampled_lse.end(), all_lse.begin() + r * h, all_lse.begin() + (r + 1) * h);
  }
  comparison const out = compare_outputs(sampled_out, expected.out, bounds, p.spec.head_dim);
  comparison const lse = compare_lse(sampled_lse, expected.lse, p.spec.lse_base);

  std::string found = device.damage();
  found += out.is_within_bounds() ? "" : "out: " + out.failure + "; ";
  found += lse.is_within_bounds() ? "" : "lse: " + lse.failure + "; ";
  if (out.relative_l2 > required_relative_l2) {
    found += "relative L2 error " + std::to_string(out.relative_l2) + "; ";
  }
  return found;
}

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
  std::string faults() {
    std::vector<std::int32_t> rows(static_cast<std::size_t>(device_.host().spec.num_rows));
    std::iota(rows.begin(), rows.end(), 0);
    return faults(rows);
  }

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
