// SPDX-License-Identifier: Apache-2.0
//! @file
//! A problem on the device and one call of grouped_attention() on it, with a plan that the host made
//! by brute force: the attention is tested without the planner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pageunion/grouped_attention.cuh>
#include <pageunion/plan.hpp>

#include "attention_run.cuh"
#include "device_plan.cuh"
#include "host_plan.hpp"
#include "policies.hpp"
#include "random.hpp"

namespace pageunion::test {

//! One call's device memory. Policy is the policy of the call.
template <class Policy>
class grouped_run : public attention_run {
 public:
  using G         = plan_shape_of<Policy>;
  using mask_type = typename G::mask_type;

  explicit grouped_run(host_problem const& p) : attention_run(p), plan_(p) { upload_plan(); }

  plan<G> planned() const { return plan_.view(); }

  status enqueue(cudaStream_t stream) override {
    return grouped_attention<Policy, policy_tuning>(host().num_rows, device().operands(), planned(),
                                                    stream);
  }
  void upload(host_problem const& p) override {
    attention_run::upload(p);
    upload_plan();
  }
  std::string damage() const override {
    bool const is_intact =
        plan_.is_guarded() && plan_.masks() == masks_ && plan_.num_pages() == num_pages_;
    return is_intact ? "" : "the plan; ";
  }

 private:
  //! Plans on the host. Padding points at any page of the group; entries past the plan's end must
  //! not be looked at: they select every token of a cache block that does not exist.
  void upload_plan() {
    auto const capacity = static_cast<std::size_t>(planned().capacity);
    host_plan<G> const on_host(host());
    std::size_t const entries = on_host.groups().size() * capacity;
    random_source source(17);
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
          addresses.at(place) = pages[source.below(pages.size())].address;
          masks_.at(place)    = 0;
        }
      }
      num_pages_.push_back(static_cast<std::int32_t>(place - first));
      first += capacity;
    }
    plan_.upload(addresses, masks_, num_pages_);
  }

  device_plan<G> plan_;
  std::vector<mask_type> masks_;         //!< the plan's
  std::vector<std::int32_t> num_pages_;  //!< the plan's
};

}  // namespace pageunion::test
