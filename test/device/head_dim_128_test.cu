// SPDX-License-Identifier: Apache-2.0
//! @file
//! The family of geometries with head_dim 128. Together with the other head_dims, the shapes
//! below hold every pair of page_tokens and group_rows that fits with every head_dim, and every
//! heads_per_kv with every value of each of the others.
#include <pageunion/policy.hpp>

#include "support/catch.hpp"
#include "support/family_run.cuh"
#include "support/shape.hpp"

using pageunion::test::shape;

// page_tokens, group_rows, heads_per_kv
TEMPLATE_TEST_CASE_SIG("every shape of head_dim 128 agrees with the reference", "[family]",
                       ((int PageTokens, int GroupRows, int HeadsPerKv), PageTokens, GroupRows,
                        HeadsPerKv),
                       (4, 4, 16), (4, 8, 16), (4, 16, 6), (4, 16, 8), (8, 4, 12), (8, 8, 2),
                       (16, 4, 1), (16, 4, 2), (16, 4, 4), (16, 4, 8)) {
  pageunion::test::require_family_member<shape<PageTokens, GroupRows, HeadsPerKv, 128>>();
}
