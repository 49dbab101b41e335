// SPDX-License-Identifier: Apache-2.0
#include <pageunion/detail/attention/attention_shape.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/policy.hpp>
#include <pageunion/tuning.hpp>

#include <cstdint>
#include <type_traits>

#include "support/catch.hpp"
#include "support/policies.hpp"

using pageunion::plan_shape_of;
using pageunion::qsa_policy;
using pageunion::test::short_head_policy;
using pageunion::test::twelve_head_policy;
using pageunion::test::wide_group_policy;
using pageunion::test::wide_page_policy;

TEST_CASE("the default policy is QSA's", "[shapes]") {
  using G = plan_shape_of<qsa_policy>;
  CHECK(G::page_tokens == 4);
  CHECK(G::group_rows == 8);
  CHECK(G::heads_per_kv == 6);
  CHECK(qsa_policy::head_dim == 256);
  CHECK(G::mask_bits == 32);
  CHECK(std::is_same<G::mask_type, std::uint32_t>::value);
  CHECK(G::m_rows == 48);
  CHECK(G::m_tiles == 3);
  CHECK(G::num_categories == 7);
  CHECK(G::tile_pages == 4);
}

TEST_CASE("a mask has a bit per row and token of a page", "[shapes]") {
  CHECK(plan_shape_of<wide_group_policy>::mask_bits == 64);
  CHECK(std::is_same<plan_shape_of<wide_group_policy>::mask_type, std::uint64_t>::value);
  CHECK(plan_shape_of<wide_page_policy>::mask_bits == 64);
  CHECK(std::is_same<plan_shape_of<short_head_policy>::mask_type, std::uint32_t>::value);
}

TEST_CASE("m-rows are padded to whole tiles", "[shapes]") {
  CHECK(plan_shape_of<short_head_policy>::m_tiles == 2);
  CHECK(plan_shape_of<twelve_head_policy>::m_tiles == 6);
  CHECK(plan_shape_of<wide_group_policy>::m_tiles == 6);
  CHECK(plan_shape_of<wide_page_policy>::m_rows == 12);
  CHECK(plan_shape_of<wide_page_policy>::m_tiles == 1);
}

TEMPLATE_TEST_CASE("what a kernel's sizes derive is consistent", "[shapes]", qsa_policy,
                   short_head_policy, twelve_head_policy, wide_group_policy, wide_page_policy) {
  using pageunion::default_tuning;
  using G = pageunion::detail::attention_shape<
      TestType, pageunion::detail::grouped_tuning<TestType, default_tuning, 700>>;
  using R = pageunion::detail::attention_shape<
      TestType, pageunion::detail::row_tuning<TestType, default_tuning, 700>>;
  CHECK(R::group_rows == 1);
  CHECK(R::tuning::partition_tokens % R::step_tokens == 0);
  CHECK(G::threads == G::warps * 32);
  CHECK(G::tile_pages * G::page_tokens == G::tile_tokens);
  CHECK(G::step_tokens % (G::warps * G::tile_tokens) == 0);
  CHECK(G::step_pages * G::page_tokens == G::step_tokens);
  CHECK(G::value_columns * 16 * G::warps == G::head_dim);
  CHECK(G::padded_m_rows == G::m_tiles * 16);
  CHECK(G::padded_m_rows >= G::m_rows);
  CHECK(G::padded_m_rows - 16 < G::m_rows);
  CHECK(static_cast<int>(8 * sizeof(typename G::mask_type)) >= G::mask_bits);
  CHECK(G::num_bands == (G::m_tiles < 3 ? G::m_tiles : 3));
  CHECK(G::num_categories == (1 << G::num_bands) - 1);
}

namespace {

struct long_head_policy : short_head_policy {
  static constexpr int head_dim = 256;
};

}  // namespace

TEST_CASE("policies that a plan cannot tell apart share its types", "[shapes]") {
  CHECK(std::is_same<plan_shape_of<long_head_policy>, plan_shape_of<short_head_policy>>::value);
}
