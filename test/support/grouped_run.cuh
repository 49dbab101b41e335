// SPDX-License-Identifier: Apache-2.0
//! @file
//! A problem on the device and one call of grouped_attention() on it, with a plan that the host made
//! by brute force: the attention is tested without the planner.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <pageunion/geometry.hpp>
#include <pageunion/grouped_attention.cuh>
#include <pageunion/plan.hpp>
#include <pageunion/rules.hpp>
#include <pageunion/status.hpp>

#include "captured_graph.cuh"
#include "device_plan.cuh"
#include "device_problem.cuh"
#include "faults.cuh"
#include "host_plan.hpp"
#include "problem.hpp"
#include "random.hpp"

namespace pageunion::test {

//! One call's device memory. Policy is the policy of the call.
template <class Policy>
class grouped_run {
 public:
  using G         = geometry<Policy>;
  using mask_type = typename G::mask_type;

  explicit grouped_run(host_problem const& p)
      : device_(p), plan_(p.spec.num_rows, group_capacity<G>(pages_per_row(p))) {
    upload_plan();
  }

  device_problem& device() { return device_; }
  plan<G> planned() const { return plan_.view(); }

  //! Replaces inputs and plan by those of another problem of the same shapes. Pointers stay.
  void upload(host_problem const& p) {
    device_.upload(p);
    upload_plan();
  }

  //! Calls grouped_attention() and does not wait.
  status enqueue(cudaStream_t stream) {
    return grouped_attention<G>(device_.host().spec.num_rows, device_.operands(), planned(),
                                stream);
  }

  //! Calls grouped_attention() with poisoned outputs, and waits.
  status run() {
    device_.poison_outputs();
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

  //! faults_of_rows() of all rows, and damage to the plan.
  std::string faults() {
    std::string found = faults_of_rows(device_, all_rows(device_.host()));
    bool const is_intact =
        plan_.is_guarded() && plan_.masks() == masks_ && plan_.num_pages() == num_pages_;
    return found + (is_intact ? "" : "the plan; ");
  }

 private:
  static std::int64_t pages_per_row(host_problem const& p) {
    return max_pages_per_row(p.selected(), G::page_tokens, p.spec.block_tokens, p.table_width);
  }

  //! Plans on the host. Padding points at any page of the group; entries past the plan's end must
  //! not be looked at: they select every token of a cache block that does not exist.
  void upload_plan() {
    host_problem const& p = device_.host();
    auto const capacity   = static_cast<std::size_t>(planned().capacity);
    host_plan<G> const on_host(p.rows(), p.selected(), p.operands().cache,
                               G::group_rows * pages_per_row(p));
    std::size_t const entries = on_host.groups().size() * capacity;
    random_source source(p.spec.seed + 17);
    std::vector<page_address> addresses(entries, page_address{-1, -1});
    masks_.assign(entries, static_cast<mask_type>(~mask_type{0}));
    num_pages_.clear();
    std::size_t first = 0;
    for (auto const& pages : on_host.groups()) {
      std::size_t place = first;
      for (std::size_t i = 0; i < pages.size(); ++i) {
        addresses.at(place) = pages[i].address;
        masks_.at(place++)  = pages[i].mask;
        bool const ends     = i + 1 == pages.size() || pages[i + 1].category != pages[i].category;
        for (; ends && (place - first) % G::tile_pages != 0; ++place) {
          auto const any      = source.below(static_cast<std::int64_t>(pages.size()));
          addresses.at(place) = pages[static_cast<std::size_t>(any)].address;
          masks_.at(place)    = 0;
        }
      }
      num_pages_.push_back(static_cast<std::int32_t>(place - first));
      first += capacity;
    }
    plan_.upload(addresses, masks_, num_pages_);
  }

  device_problem device_;
  device_plan<G> plan_;
  std::vector<mask_type> masks_;         //!< the plan's
  std::vector<std::int32_t> num_pages_;  //!< the plan's
  test_stream stream_;
};

}  // namespace pageunion::test
