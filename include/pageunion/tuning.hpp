// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 1. The values that change speed and nothing else, and their selector. Knows numbers only.
#pragma once

#include <algorithm>

#include <pageunion/version.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! Limits of the hardware that the kernels are built for.
//! Source: CUDA C++ Programming Guide, "Features and Technical Specifications", compute capability
//! 7.0; WMMA shapes: the same guide, "Element Types and Matrix Sizes".
struct sm70_limits {
  static constexpr int warp_threads          = 32;     //!< threads of a warp
  static constexpr int mma_dim               = 16;     //!< m, n and k of the matrix product in use
  static constexpr int smem_bytes_per_sm     = 98304;  //!< shared by the CTAs of an SM
  static constexpr int accumulator_registers = 8;      //!< of a 16 x 16 float fragment, per thread
};

//! The loops over pages that there are: detail/attention/loops.cuh.
enum class inner_loop : int {
  wmma,  //!< sm70: WMMA, right on every later architecture too
};

//! The loop and the sizes of an attention kernel.
struct attention_tuning {
  inner_loop loop = inner_loop::wmma;  //!< the loop over pages
  int warps;                           //!< warps of a CTA: 4 or 8
  int warp_tiles;                      //!< 16-token tiles that a warp scores at once: 1 or 2
  int lane_vectors;                    //!< 16-byte loads of a lane in flight: 2 or 4
  int ctas_per_sm;                     //!< CTAs that must fit on an SM: 1 to 4

  friend constexpr bool operator==(attention_tuning const& a, attention_tuning const& b) noexcept {
    return a.loop == b.loop && a.warps == b.warps && a.warp_tiles == b.warp_tiles &&
           a.lane_vectors == b.lane_vectors && a.ctas_per_sm == b.ctas_per_sm;
  }
};

//! Everything that a selector decides.
struct tuning {
  attention_tuning grouped;  //!< of the grouped attention
  attention_tuning row;      //!< of the row attention, whose CTA has one row
  int partition_tokens;      //!< selected tokens of a row-attention CTA, whole pages and steps
  //! Automatic routing takes row attention up to this many (row, KV head) pairs per SM and per request
  //! that the rows of a group come from, and up to row_route_rows rows.
  double row_route_rows_per_sm;
  int row_route_rows;

  friend constexpr bool operator==(tuning const& a, tuning const& b) noexcept {
    return a.grouped == b.grouped && a.row == b.row && a.partition_tokens == b.partition_tokens &&
           !(a.row_route_rows_per_sm < b.row_route_rows_per_sm) &&
           !(b.row_route_rows_per_sm < a.row_route_rows_per_sm) &&
           a.row_route_rows == b.row_route_rows;
  }
};

//! The library's selector. A user's own is a type with the same function, passed beside the policy; it
//! may begin with what this one gives.
struct default_tuning {
  //! The tuning of a policy for code of an architecture.
  //! @param architecture of the code that runs, 700 for compute capability 7.0; the PTX of an sm_70
  //!                     build keeps Volta's tuning on a later GPU
  template <class Policy>
  static constexpr tuning select([[maybe_unused]] int architecture) noexcept {
    // Registers, spills and CTAs per SM of the sm_70 build: bench/attention_designs.md.
    constexpr int m_rows = Policy::group_rows * Policy::heads_per_kv;
    // A warp has registers for 64 elements of the output of all m-tiles, or for fewer.
    constexpr bool has_few_m_tiles = m_rows <= (Policy::head_dim == 256 ? 3 : 4) * 16;
    tuning chosen{};
    chosen.grouped.warps        = has_few_m_tiles || Policy::head_dim == 64 ? 4 : 8;
    chosen.grouped.warp_tiles   = has_few_m_tiles ? 2 : 1;
    chosen.grouped.lane_vectors = has_few_m_tiles ? 4 : 2;
    chosen.grouped.ctas_per_sm  = chosen.grouped.warps == 4 ? 2 : 1;  // eight warps of an SM
    chosen.row.warps            = 4;  // one for each quarter of an SM
    chosen.row.warp_tiles       = 1;  // short steps: a partition's last one is padded
    chosen.row.lane_vectors     = 4;  // a warp's slice of V is whole tiles
    chosen.row.ctas_per_sm      = 3;  // 168 registers a thread, which spill nothing
    chosen.partition_tokens     = 1024;
    // bench/row_bench on an H200 of 132 SMs, 2026-11-30: 256 rows of one request take 0.14 ms one by
    // one and 0.17 ms grouped, 320 rows 0.18 and 0.17 ms; 640 rows of 128 requests 0.35 and 0.56 ms,
    // 512 rows of 64 requests 0.27 and 0.25 ms.
    chosen.row_route_rows_per_sm = 2.4;
    chosen.row_route_rows        = 1024;
    return chosen;
  }
};

//! The tuning that takes the most workspace: of all architectures the shortest partitions and the most
//! rows by the row route. For whoever sizes memory and cannot know which code will run.
template <class Policy, class Selector>
constexpr tuning most_demanding_tuning() noexcept {
  tuning most = Selector::template select<Policy>(700);
  for (int const architecture : {720, 750, 800, 860, 870, 890, 900, 1000, 1030, 1100, 1200, 1210}) {
    tuning const other    = Selector::template select<Policy>(architecture);
    most.partition_tokens = (std::min)(most.partition_tokens, other.partition_tokens);
    most.row_route_rows   = (std::max)(most.row_route_rows, other.row_route_rows);
  }
  return most;
}

PAGEUNION_NAMESPACE_END
