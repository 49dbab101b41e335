// SPDX-License-Identifier: Apache-2.0
#include <pageunion/geometry.hpp>

#include <cstdint>
#include <type_traits>

#include "support/catch.hpp"
#include "support/policies.hpp"

using pageunion::geometry;
using pageunion::qsa_policy;
using pageunion::test::short_head_policy;
using pageunion::test::twelve_head_policy;
using pageunion::test::wide_group_policy;
using pageunion::test::wide_page_policy;

TEST_CASE("the default geometry is QSA's", "[geometry]") {
  using G = geometry<qsa_policy>;
  CHECK(G::page_tokens == 4);
  CHECK(G::group_rows == 8);
  CHECK(G::heads_per_kv == 6);
  CHECK(G::head_dim == 256);
  CHECK(G::partition_tokens == 1024);
  CHECK(G::mask_bits == 32);
  CHECK(std::is_same<G::mask_type, std::uint32_t>::value);
  CHECK(G::m_rows == 48);
  CHECK(G::m_tiles == 3);
  CHECK(G::num_categories == 7);
  CHECK(G::tile_pages == 4);
}

TEST_CASE("a mask has a bit per row and token of a page", "[geometry]") {
  CHECK(geometry<wide_group_policy>::mask_bits == 64);
  CHECK(std::is_same<geometry<wide_group_policy>::mask_type, std::uint64_t>::value);
  CHECK(geometry<wide_page_policy>::mask_bits == 64);
  CHECK(std::is_same<geometry<short_head_policy>::mask_type, std::uint32_t>::value);
}

TEST_CASE("m-rows are padded to whole tiles", "[geometry]") {
  CHECK(geometry<short_head_policy>::m_tiles == 2);
  CHECK(geometry<twelve_head_policy>::m_tiles == 6);
  CHECK(geometry<wide_group_policy>::m_tiles == 6);
  CHECK(geometry<wide_page_policy>::m_rows == 12);
  CHECK(geometry<wide_page_policy>::m_tiles == 1);
}

TEMPLATE_TEST_CASE("what a geometry derives is consistent", "[geometry]", qsa_policy,
                   short_head_policy, twelve_head_policy, wide_group_policy, wide_page_policy) {
  using G = geometry<TestType>;
  CHECK(G::threads == G::warps * 32);
  CHECK(G::tile_pages * G::page_tokens == G::tile_tokens);
  CHECK(G::step_tokens % (G::warps * G::tile_tokens) == 0);
  CHECK(G::step_pages * G::page_tokens == G::step_tokens);
  CHECK(G::partition_tokens % G::step_tokens == 0);
  CHECK(G::value_columns * G::edge * G::warps == G::head_dim);
  CHECK(G::m_tiles * G::edge >= G::m_rows);
  CHECK((G::m_tiles - 1) * G::edge < G::m_rows);
  CHECK(static_cast<int>(8 * sizeof(typename G::mask_type)) >= G::mask_bits);
  CHECK(G::num_bands == (G::m_tiles < 3 ? G::m_tiles : 3));
  CHECK(G::num_categories == (1 << G::num_bands) - 1);
}
