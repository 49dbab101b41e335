// SPDX-License-Identifier: Apache-2.0
//! @file
//! Members of the family of geometries by their numbers.
#pragma once

#include <pageunion/policy.hpp>

namespace pageunion::test {

//! A policy of a given shape. Its parameters are plain numbers, since a table of shapes reads best so.
template <int PageTokens, int GroupRows, int HeadsPerKv, int HeadDim>
struct shape : qsa_policy {
  static constexpr int page_tokens  = PageTokens;
  static constexpr int group_rows   = GroupRows;
  static constexpr int heads_per_kv = HeadsPerKv;
  static constexpr int head_dim     = HeadDim;
};

}  // namespace pageunion::test
