// SPDX-License-Identifier: Apache-2.0
//! @file
//! The policies that the benchmarks instantiate, and the way from a problem's shape to one of them.
#pragma once

#include <string>

#include <pageunion/policy.hpp>

#include "check.hpp"
#include "workload.hpp"

namespace pageunion::bench {

//! qsa_policy with narrower groups.
struct group4_policy : qsa_policy {
  static constexpr int group_rows = 4;
};

//! The layers of TP1 and TP2: twelve heads on a KV head. Half the rows give as many m-tiles.
struct heads12_policy : qsa_policy {
  static constexpr int group_rows   = 4;
  static constexpr int heads_per_kv = 12;
};

//! Wider groups, for the planner: the attention of six m-tiles needs more shared memory than an SM
//! of the first target has.
struct group16_policy : qsa_policy {
  static constexpr int group_rows = 16;
};

//! In the place of a group width: the widest groups that there is an instance for. What a problem
//! that somebody else made is timed with, since its heads are not known before it is read.
inline constexpr int widest_groups = 0;

//! True if a problem can be timed with a policy in groups of so many rows, or widest_groups.
template <class Policy>
bool suits(host_problem const& p, int group_rows) {
  return p.page_tokens == Policy::page_tokens && p.heads_per_kv == Policy::heads_per_kv &&
         p.head_dim == Policy::head_dim &&
         (group_rows == Policy::group_rows || group_rows == widest_groups);
}

//! Calls `body(policy)` with the instance for a problem and a group width, or widest_groups. Ends
//! the program, with a message, if there is none.
template <class Body>
auto with_policy(host_problem const& p, int group_rows, Body const& body) {
  if (suits<qsa_policy>(p, group_rows)) {
    return body(qsa_policy{});
  }
  if (suits<group4_policy>(p, group_rows)) {
    return body(group4_policy{});
  }
  if (suits<heads12_policy>(p, group_rows)) {
    return body(heads12_policy{});
  }
  std::string const width = group_rows == widest_groups ? "any" : std::to_string(group_rows);
  fail("no instance for pages of " + std::to_string(p.page_tokens) + " tokens, " +
       std::to_string(p.heads_per_kv) + " heads per KV head, head_dim " +
       std::to_string(p.head_dim) + " and groups of " + width +
       " rows: add a policy to bench/policies.hpp");
}

}  // namespace pageunion::bench
