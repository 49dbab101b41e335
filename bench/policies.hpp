// SPDX-License-Identifier: Apache-2.0
//! @file
//! The policies that the benchmarks instantiate, and the way from a problem's shape to one of them.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <pageunion/policy.hpp>

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

//! Rows of a group of the widest instance for a problem's heads; 8 if there is none.
inline int widest_group_rows(host_problem const& p) {
  bool const has_twelve_heads = p.heads_per_kv == heads12_policy::heads_per_kv;
  return has_twelve_heads ? heads12_policy::group_rows : qsa_policy::group_rows;
}

//! Calls `body(policy)` with the instance for a problem and a group width, or widest_groups. Ends
//! the program, with a message, if there is none.
template <class Body>
auto with_policy(host_problem const& p, int wanted_rows, Body const& body) {
  int const group_rows = wanted_rows == widest_groups ? widest_group_rows(p) : wanted_rows;
  if (p.page_tokens == qsa_policy::page_tokens && p.head_dim == qsa_policy::head_dim) {
    if (p.heads_per_kv == 12 && group_rows == 4) {
      return body(heads12_policy{});
    }
    if (p.heads_per_kv == 6 && group_rows == 4) {
      return body(group4_policy{});
    }
    if (p.heads_per_kv == 6 && group_rows == 8) {
      return body(qsa_policy{});
    }
  }
  std::fprintf(
      stderr,
      "no instance for pages of %d tokens, %d heads per KV head, head_dim %d and groups of "
      "%d rows: add a policy to bench/policies.hpp\n",
      p.page_tokens, p.heads_per_kv, p.head_dim, group_rows);
  std::exit(EXIT_FAILURE);
}

}  // namespace pageunion::bench
