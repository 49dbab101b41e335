// SPDX-License-Identifier: Apache-2.0
#include "../policies.hpp"

#include "support/catch.hpp"

namespace bench = pageunion::bench;

namespace {

//! What with_policy() chooses.
struct choice {
  int group_rows;
  int heads_per_kv;
};

choice choose(int num_heads, int num_kv_heads, int wanted_rows) {
  bench::host_problem p;
  p.page_tokens  = 4;
  p.head_dim     = 256;
  p.num_kv_heads = num_kv_heads;
  p.heads_per_kv = num_heads / num_kv_heads;
  return bench::with_policy(p, wanted_rows, [](auto policy) {
    return choice{decltype(policy)::group_rows, decltype(policy)::heads_per_kv};
  });
}

}  // namespace

TEST_CASE("a problem of any heads with an instance gets the widest groups", "[policies]") {
  struct expected {
    int num_heads;
    int num_kv_heads;
    choice widest;
  };
  for (expected const& e : {expected{6, 1, {8, 6}}, expected{12, 2, {8, 6}},
                            expected{12, 1, {4, 12}}, expected{24, 2, {4, 12}}}) {
    CAPTURE(e.num_heads, e.num_kv_heads);
    choice const chosen = choose(e.num_heads, e.num_kv_heads, bench::widest_groups);
    CHECK(chosen.group_rows == e.widest.group_rows);
    CHECK(chosen.heads_per_kv == e.widest.heads_per_kv);
  }
}

TEST_CASE("a width that a case names is the one it gets", "[policies]") {
  CHECK(choose(6, 1, 4).group_rows == 4);
  CHECK(choose(6, 1, 8).group_rows == 8);
  CHECK(choose(12, 1, 4).group_rows == 4);
}
