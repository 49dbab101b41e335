// SPDX-License-Identifier: Apache-2.0
//! @file
//! A case that times the whole prefill(): planning, attention and merging, by one route.
#pragma once

#include <memory>
#include <string>

#include <pageunion/prefill.cuh>

#include "harness.hpp"
#include "policies.hpp"

namespace pageunion::bench {

//! Prepares prefill() with a policy. The fact "route" is the route that ran: 1 grouped, 2 row.
template <class Policy>
prepared_case prepare_prefill(problem_handle const& p, route wanted) {
  prefill_args args;
  args.rows         = p->device.rows();
  args.selected     = p->device.selected();
  args.attention    = p->device.operands();
  args.route        = wanted;
  std::size_t bytes = 0;
  check(workspace_bytes<Policy>(args, bytes), "workspace_bytes");
  auto const workspace = std::make_shared<device_array const>(bytes);

  prefill_info info{};
  check(prefill<Policy>(args, workspace->data(), bytes, nullptr, &info), "prefill");
  prepared_case c = described(*p, "prefill");
  c.enqueue       = [p, args, workspace] {
    check(prefill<Policy>(args, workspace->data(), workspace->size_bytes(), nullptr), "prefill");
  };
  c.facts["route"]           = static_cast<double>(info.route);
  c.facts["workspace_MiB"]   = static_cast<double>(bytes) / (1 << 20);
  c.amounts["rows/s"]        = p->host().num_rows;
  c.amounts["asked_TFLOP/s"] = 1e-12 * p->sharing.asked_flop;
  return c;
}

//! Name of a route in a case's name.
inline std::string name_of(route r) {
  return r == route::automatic ? "automatic" : r == route::grouped ? "grouped" : "row";
}

//! A case of prefill() with the policy of the widest groups for a problem.
inline bench_case prefill_case(std::string name, problem_source const& source, route wanted,
                               l2_state l2 = l2_state::warm) {
  return {std::move(name), l2, [source, wanted] {
            problem_handle const p = load(source);
            return with_policy(p->host(), widest_groups, [&](auto policy) {
              return prepare_prefill<decltype(policy)>(p, wanted);
            });
          }};
}

}  // namespace pageunion::bench
