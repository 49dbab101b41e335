// SPDX-License-Identifier: Apache-2.0
//! @file
//! A problem on the device and a call of an attention on it: what is wrong afterwards, in results
//! against the reference and in memory that was not to change.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <pageunion/reference.hpp>
#include <pageunion/status.hpp>

#include "captured_graph.cuh"
#include "device_problem.cuh"
#include "make_problem.hpp"
#include "tolerance.hpp"

namespace pageunion::test {

//! A problem's results beside the reference's.
struct row_comparisons {
  comparison out;
  comparison lse;
};

//! Compares the sampled rows with the reference by the derived bounds.
inline row_comparisons compare_rows(device_problem const& device,
                                    std::vector<std::int32_t> const& rows) {
  host_problem const& p = device.host();
  reference_result expected;
  reference_rows(p.rows(), p.selected(), p.operands(), p.page_tokens, rows, expected);
  std::vector<output_bound> const bounds =
      output_bounds(p.rows(), p.selected(), p.operands(), p.page_tokens, rows, expected);
  std::vector<double> const all_out = device.out(), all_lse = device.lse();
  std::vector<double> sampled_out, sampled_lse;
  auto const append = [](std::vector<double>& to, std::vector<double> const& from, int row,
                         int size) {
    auto const begin = from.begin() + std::int64_t{row} * size;
    to.insert(to.end(), begin, begin + size);
  };
  for (std::int32_t const row : rows) {
    append(sampled_out, all_out, row, p.num_heads() * p.head_dim);
    append(sampled_lse, all_lse, row, p.num_heads());
  }
  return {compare_outputs(sampled_out, expected.out, bounds, p.head_dim),
          compare_lse(sampled_lse, expected.lse, p.lse_base)};
}

//! What is wrong with the results of a problem, or with memory that was not to change; empty if
//! nothing. Compares the sampled rows with the reference: by the derived bounds, and all of them
//! together by the project's relative L2.
inline std::string faults_of_rows(device_problem const& device,
                                  std::vector<std::int32_t> const& rows) {
  auto const [out, lse] = compare_rows(device, rows);
  std::string found     = device.damage();
  found += out.is_within_bounds() ? "" : "out: " + out.failure + "; ";
  found += lse.is_within_bounds() ? "" : "lse: " + lse.failure + "; ";
  if (out.relative_l2 > required_relative_l2) {
    found += "relative L2 error " + std::to_string(out.relative_l2) + "; ";
  }
  return found;
}

//! A call's device memory. What derives from it says how the attention is called.
class attention_run {
 public:
  explicit attention_run(host_problem const& p) : device_(p) {}
  virtual ~attention_run() = default;

  //! Calls the attention and does not wait.
  virtual status enqueue(cudaStream_t stream) = 0;
  //! Poisons whatever a call writes.
  virtual void poison() { device_.poison_outputs(); }
  //! Replaces the inputs by those of another problem of the same shapes. Pointers stay.
  virtual void upload(host_problem const& p) { device_.upload(p); }
  //! Names what the call must not have changed and did, besides the problem's own arrays.
  virtual std::string damage() const { return ""; }

  device_problem& device() { return device_; }
  device_problem const& device() const { return device_; }
  host_problem const& host() const { return device_.host(); }

  //! Calls the attention with poisoned outputs, and waits.
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

  //! faults_of_rows() of these rows or of all, and damage().
  std::string faults(std::vector<std::int32_t> const& rows) const {
    return faults_of_rows(device_, rows) + damage();
  }
  std::string faults() const { return faults(all_rows(host())); }

  //! What is wrong after run(); empty if nothing.
  std::string run_faults() {
    status const ran = run();
    return ran == status::ok ? faults() : to_string(ran);
  }

  //! What is wrong after a captured call was replayed on other problems of the same shapes, twice on
  //! each; the first is what was captured.
  std::string replay_faults(std::vector<host_problem> const& problems) {
    captured_graph graph([this](cudaStream_t stream) { return enqueue(stream); });
    std::string found = graph.captured() == status::ok ? "" : to_string(graph.captured());
    for (std::size_t i = 1; i < problems.size() && found.empty(); ++i) {
      upload(problems[i]);
      poison();
      graph.replay();
      found                                  = faults();
      std::vector<unsigned char> const bytes = device_.output_bytes();
      poison();
      graph.replay();
      found += device_.output_bytes() == bytes ? "" : "other bits in the second replay; ";
    }
    return found;
  }

 private:
  device_problem device_;
  test_stream stream_;
};

//! Problems of the same shapes that differ in everything else: as many cache blocks in other
//! proportions, so that positions, lengths and tables change.
inline std::vector<host_problem> problems_of_one_shape(problem_spec spec) {
  std::vector<host_problem> problems;
  spec.num_requests = 2;
  for (int step = 0; step < 4; ++step) {
    spec.seed          = step + 1;
    spec.lengths       = {190 - 16 * step, 120 + 16 * step};
    int const longest  = (std::max(spec.lengths[0], spec.lengths[1]) + 15) / 16;
    spec.spare_columns = 14 - longest;
    spec.holes         = step == 0 ? 0.0 : 0.1;
    problems.push_back(make_problem(spec));
  }
  return problems;
}

}  // namespace pageunion::test
