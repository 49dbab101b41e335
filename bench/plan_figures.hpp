// SPDX-License-Identifier: Apache-2.0
//! @file
//! What a plan makes the grouped attention do, counted from the plan's own arrays.
#pragma once

#include <cstdint>

#include <pageunion/plan.hpp>

#include "support/device_plan.cuh"

namespace pageunion::bench {

using namespace test;

//! Figures of one plan, for all KV heads.
struct plan_figures {
  double union_pages   = 0.0;  //!< pages of all groups, without padding
  double padded_pages  = 0.0;  //!< entries of all groups, padding included
  double tiles         = 0.0;  //!< plan tiles of all groups
  double executed_flop = 0.0;  //!< of both products, over the m-tiles that each tile reaches
  double staged_bytes  = 0.0;  //!< of K and V, each page of the plan once
};

//! Counts a plan that is on the device.
template <class Shape>
plan_figures measure_plan(host_problem const& p, device_plan<Shape> const& planned) {
  using mask_type      = typename Shape::mask_type;
  auto const masks     = planned.masks();
  auto const num_pages = planned.num_pages();
  double m_tiles       = 0.0;
  plan_figures figures;
  for (std::int32_t g = 0; g < planned.view().num_groups; ++g) {
    mask_type const* const of_group =
        masks.data() + static_cast<std::int64_t>(g) * planned.view().capacity;
    figures.padded_pages += num_pages[g];
    for (std::int32_t first = 0; first < num_pages[g]; first += Shape::tile_pages) {
      mask_type any = 0;
      for (int i = 0; i < Shape::tile_pages; ++i) {
        any |= of_group[first + i];
        figures.union_pages += of_group[first + i] != 0 ? 1.0 : 0.0;
      }
      for (int m = 0; m < Shape::m_tiles; ++m) {
        int const band = m * Shape::num_bands / Shape::m_tiles;
        m_tiles += category_of<Shape>(any) >> band & 1;
      }
      figures.tiles += 1.0;
    }
  }
  double const page_elements =
      static_cast<double>(p.num_kv_heads) * Shape::page_tokens * p.head_dim;
  figures.staged_bytes = figures.padded_pages * page_elements * 2.0 * sizeof(__half);
  figures.executed_flop =
      m_tiles * p.num_kv_heads * 4.0 * sm70_limits::mma_dim * Shape::tile_tokens * p.head_dim;
  return figures;
}

}  // namespace pageunion::bench
