// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 5. Byte layout of the caller's buffer, for sizing and carving alike. Knows sizes of arrays only.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/policy.hpp>
#include <pageunion/rules.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! Where a plan's arrays are: bytes from the workspace's start, multiples of workspace_alignment.
struct plan_layout {
  std::size_t addresses = 0;  //!< page_address [num_groups, capacity]
  std::size_t masks     = 0;  //!< mask_type [num_groups, capacity]
  std::size_t num_pages = 0;  //!< int32 [num_groups]
  std::size_t total     = 0;  //!< bytes the caller must provide, never 0
};

//! Where the partial results of row attention are; otherwise as above.
struct partials_layout {
  std::size_t out   = 0;  //!< float [num_partitions, rows, num_heads, head_dim]
  std::size_t lse   = 0;  //!< float [num_partitions, rows, num_heads]
  std::size_t total = 0;  //!< bytes the caller must provide, never 0
};

//! The next multiple of workspace_alignment.
constexpr std::size_t align_workspace(std::size_t bytes) noexcept {
  return (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
}

//! Lays out a plan.
//! @param capacity entries of a group: group_capacity()
template <class Shape>
constexpr plan_layout layout_plan(std::int32_t num_groups, std::int32_t capacity) noexcept {
  std::size_t const groups  = static_cast<std::size_t>(num_groups);
  std::size_t const entries = groups * static_cast<std::size_t>(capacity);
  plan_layout layout{};
  layout.masks     = align_workspace(entries * sizeof(page_address));
  layout.num_pages = layout.masks + align_workspace(entries * sizeof(typename Shape::mask_type));
  layout.total     = layout.num_pages + align_workspace(groups * sizeof(std::int32_t));
  layout.total     = layout.total == 0 ? workspace_alignment : layout.total;
  return layout;
}

//! Partitions of `partition_pages` pages that hold this many pages: at least 1.
constexpr std::int32_t partitions_of(std::int64_t pages, std::int32_t partition_pages) noexcept {
  return static_cast<std::int32_t>(pages < 1 ? 1 : (pages - 1) / partition_pages + 1);
}

//! Partitions that row_attention() splits each row of a call into at most, from shapes alone and
//! whichever architecture's code runs: at least 1.
template <class Policy = qsa_policy, class Selector = default_tuning>
constexpr std::int32_t num_partitions(selection const& selected, kv_cache const& cache) noexcept {
  constexpr tuning most = most_demanding_tuning<Policy, Selector>();
  return partitions_of(
      max_pages_per_row(selected, Policy::page_tokens, cache.block_tokens, cache.blocks.width),
      most.partition_tokens / Policy::page_tokens);
}

//! Lays out the partial results of `num_partitions` partitions; none are kept of a single one.
constexpr partials_layout layout_partials(std::int32_t num_partitions, std::int32_t num_rows,
                                          std::int32_t num_heads, std::int32_t head_dim) noexcept {
  std::size_t const heads = num_partitions < 2 ? 0
                                               : static_cast<std::size_t>(num_partitions) *
                                                     static_cast<std::size_t>(num_rows) *
                                                     static_cast<std::size_t>(num_heads);
  partials_layout layout{};
  layout.lse   = align_workspace(heads * static_cast<std::size_t>(head_dim) * sizeof(float));
  layout.total = layout.lse + align_workspace(heads * sizeof(float));
  layout.total = layout.total == 0 ? workspace_alignment : layout.total;
  return layout;
}

//! The plan's arrays in a workspace that layout_plan() laid out.
template <class Shape>
plan<Shape> carve_plan(void* workspace, std::int32_t num_groups, std::int32_t capacity) noexcept {
  plan_layout const layout = layout_plan<Shape>(num_groups, capacity);
  auto* const bytes        = static_cast<unsigned char*>(workspace);
  return {reinterpret_cast<page_address*>(bytes + layout.addresses),
          reinterpret_cast<typename Shape::mask_type*>(bytes + layout.masks),
          reinterpret_cast<std::int32_t*>(bytes + layout.num_pages), num_groups, capacity};
}

//! The partial results in a workspace that layout_partials() laid out.
inline row_partials carve_partials(void* workspace, std::int32_t num_partitions,
                                   std::int32_t num_rows, std::int32_t num_heads,
                                   std::int32_t head_dim) noexcept {
  partials_layout const layout = layout_partials(num_partitions, num_rows, num_heads, head_dim);
  auto* const bytes            = static_cast<unsigned char*>(workspace);
  return {reinterpret_cast<float*>(bytes + layout.out),
          reinterpret_cast<float*>(bytes + layout.lse), num_partitions};
}

PAGEUNION_NAMESPACE_END
