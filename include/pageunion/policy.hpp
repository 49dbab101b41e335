// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 1. What the library's user decides at compile time. Knows the elements' tags alone.
#pragma once

#include <pageunion/element.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! QSA of Qwen3.8-Flash-Next: pages of 4 tokens, 6 query heads on a KV head of 256 elements. A policy
//! is a type with these five constants and nothing derived; derive from this one to change some.
//! Policies that differ in group_rows alone give the same result within the accuracy of prefill().
struct qsa_policy {
  static constexpr int page_tokens  = 4;    //!< tokens of a page: 4, 8 or 16
  static constexpr int heads_per_kv = 6;    //!< query heads of a KV head: 1 to 16
  static constexpr int head_dim     = 256;  //!< elements of a head's Q, K or V: 64, 128 or 256
  static constexpr int group_rows   = 8;    //!< adjacent rows that share loaded pages: 4, 8 or 16
  //! What K and V are stored as.
  static constexpr pageunion::cache_element cache_element = pageunion::cache_element::f16;
};

PAGEUNION_NAMESPACE_END
