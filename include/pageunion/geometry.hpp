// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 1. Policies and the geometry that derives every other compile-time value from one.
//! Knows numbers only: no memory, no device.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>
#include <type_traits>

#include <pageunion/version.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! Limits of the hardware that the kernels are built for.
//! Source: CUDA C++ Programming Guide, "Features and Technical Specifications", compute capability
//! 7.0; WMMA shapes: the same guide, "Element Types and Matrix Sizes".
struct sm70_limits {
  static constexpr int warp_threads          = 32;     //!< threads of a warp
  static constexpr int wmma_edge             = 16;     //!< m, n and k of the WMMA shape in use
  static constexpr int smem_bytes_per_cta    = 98304;  //!< with opt-in
  static constexpr int smem_bytes_per_sm     = 98304;  //!< shared by the CTAs of an SM
  static constexpr int registers_per_sm      = 65536;  //!< 32-bit registers
  static constexpr int registers_per_thread  = 255;    //!< 32-bit registers
  static constexpr int accumulator_registers = 8;  //!< of one 16 x 16 float fragment, per thread
};

//! QSA of Qwen3.8-Flash-Next: pages of 4 tokens, 6 query heads on a KV head of 256 elements.
//! A policy is what a person may change, with nothing derived. Policies that differ in group_rows,
//! warps, warp_tiles or ctas_per_sm alone give the same result within the accuracy of prefill().
//! group_rows to ctas_per_sm were chosen by bench/attention_compare on an H200, 2026-11-29, and by the
//! V100 sheet of bench/attention_designs.md.
struct qsa_policy {
  static constexpr int page_tokens      = 4;     //!< tokens of a page
  static constexpr int group_rows       = 8;     //!< adjacent rows that share loaded pages
  static constexpr int heads_per_kv     = 6;     //!< query heads of a KV head
  static constexpr int head_dim         = 256;   //!< elements of a Q, K or V row of one head
  static constexpr int warps            = 4;     //!< warps of an attention CTA
  static constexpr int warp_tiles       = 2;     //!< 16-token tiles that a warp scores at once
  static constexpr int lane_vectors     = 4;     //!< 16-byte loads of a lane in flight
  static constexpr int ctas_per_sm      = 2;     //!< attention CTAs that must fit on an SM
  static constexpr int partition_tokens = 1024;  //!< selected tokens of a row-attention CTA
  //! Automatic routing takes row attention up to this many (row, KV head) pairs per SM and per request
  //! that the rows of a group come from, and up to row_route_rows rows. Chosen by bench/row_bench on an
  //! H200 of 132 SMs, 2026-11-30: 256 rows of one request take 0.14 ms one by one and 0.17 ms grouped, 320
  //! rows 0.18 and 0.17 ms; 640 rows of 128 requests 0.35 and 0.56 ms, 512 rows of 64 0.27 and 0.25 ms.
  static constexpr double row_route_rows_per_sm = 2.4;
  static constexpr int row_route_rows           = 1024;
  using cache_element                           = __half;  //!< element of K and V
};

//! How many rows a group of a shape may have. A shape is the part of a policy that the model gives:
//! page_tokens, heads_per_kv and head_dim.
template <class Shape>
struct group_limits {
  static constexpr int max_mask_bits = 64;  //!< one bit per (row, token) of a page
  //! Queries and weights of more m-tiles do not fit shared memory, their output sums no registers.
  static constexpr int max_m_tiles = Shape::head_dim == 256 ? 6 : 8;

  //! 16-row WMMA tiles that the (row, head) pairs of a group fill.
  static constexpr int num_m_tiles(int group_rows) {
    return (group_rows * Shape::heads_per_kv + sm70_limits::wmma_edge - 1) / sm70_limits::wmma_edge;
  }
  //! True if a group of this many rows fits.
  static constexpr bool fits(int group_rows) {
    return group_rows * Shape::page_tokens <= max_mask_bits &&
           num_m_tiles(group_rows) <= max_m_tiles;
  }
  //! The widest group that fits: groups of 4 rows always do.
  static constexpr int widest = fits(16) ? 16 : fits(8) ? 8 : 4;
};

//! A policy for groups of any shape that fits: takes page_tokens, group_rows, heads_per_kv, head_dim
//! and everything else from Shape, and chooses what the kernel's registers and shared memory depend
//! on. Measured: registers, spills and CTAs per SM of the sm_70 build, bench/attention_designs.md.
template <class Shape>
struct tuned_policy : Shape {
  static constexpr int m_tiles = group_limits<Shape>::num_m_tiles(Shape::group_rows);
  //! Whether a warp has registers for 64 elements of the output of all m-tiles, or for fewer.
  static constexpr bool has_few_m_tiles = m_tiles <= (Shape::head_dim == 256 ? 3 : 4);

  static constexpr int warps      = has_few_m_tiles || Shape::head_dim == 64 ? 4 : 8;  //!< of a CTA
  static constexpr int warp_tiles = has_few_m_tiles ? 2 : 1;    //!< as scores have registers
  static constexpr int lane_vectors = has_few_m_tiles ? 4 : 2;  //!< as loads have registers
  static constexpr int ctas_per_sm  = warps == 4 ? 2 : 1;       //!< eight warps of an SM
};

//! Everything derived from a policy, each value once.
template <class Policy>
struct geometry {
  //! The policy, and its values under the same names.
  using policy                          = Policy;
  using cache_element                   = typename Policy::cache_element;
  static constexpr int page_tokens      = Policy::page_tokens;
  static constexpr int group_rows       = Policy::group_rows;
  static constexpr int heads_per_kv     = Policy::heads_per_kv;
  static constexpr int head_dim         = Policy::head_dim;
  static constexpr int warps            = Policy::warps;
  static constexpr int warp_tiles       = Policy::warp_tiles;
  static constexpr int lane_vectors     = Policy::lane_vectors;
  static constexpr int ctas_per_sm      = Policy::ctas_per_sm;
  static constexpr int partition_tokens = Policy::partition_tokens;

  //! Edge of a WMMA fragment and threads of an attention CTA.
  static constexpr int edge    = sm70_limits::wmma_edge;
  static constexpr int threads = warps * sm70_limits::warp_threads;

  static_assert(page_tokens == 4 || page_tokens == 8 || page_tokens == 16,
                "page_tokens must be 4, 8 or 16: a 16-token tile holds whole pages");
  static_assert(group_rows == 1 || group_rows == 4 || group_rows == 8 || group_rows == 16,
                "group_rows must be 4, 8 or 16, or 1 for row attention");
  static_assert(heads_per_kv >= 1 && heads_per_kv <= 16,
                "heads_per_kv must be 1 to 16: a row's heads fill at most one 16-row WMMA tile");
  static_assert(head_dim == 64 || head_dim == 128 || head_dim == 256,
                "head_dim must be 64, 128 or 256");
  static_assert(warps == 4 || warps == 8, "warps must be 4 or 8: one or two per quarter of an SM");
  static_assert(warp_tiles == 1 || warp_tiles == 2, "warp_tiles must be 1 or 2");
  static_assert(ctas_per_sm >= 1 && ctas_per_sm <= 4, "ctas_per_sm must be 1 to 4");
  static_assert(partition_tokens > 0 && partition_tokens % (warps * warp_tiles * edge) == 0,
                "partition_tokens must be a positive multiple of the tokens of a step, "
                "16 * warps * warp_tiles");
  //! Pages of a row-attention CTA.
  static constexpr int partition_pages = partition_tokens / page_tokens;

  static_assert(std::is_same<cache_element, __half>::value,
                "cache_element must be __half: no other K and V element is implemented");

  //! Bits of a page's mask: bit row * page_tokens + token.
  static constexpr int mask_bits = group_rows * page_tokens;
  using limits                   = group_limits<Policy>;
  static_assert(mask_bits <= limits::max_mask_bits || limits::widest != 8,
                "group_rows * page_tokens must be at most 64: one bit per (row, token) of a page; "
                "the nearest that fits is group_rows 8");
  static_assert(mask_bits <= limits::max_mask_bits || limits::widest != 4,
                "group_rows * page_tokens must be at most 64: one bit per (row, token) of a page; "
                "the nearest that fits is group_rows 4");
  using mask_type = std::conditional_t<(mask_bits <= 32), std::uint32_t, std::uint64_t>;

  //! m-rows: (row, head) pairs of a group, row-major, padded to whole 16-row WMMA tiles.
  static constexpr int m_rows  = group_rows * heads_per_kv;
  static constexpr int m_tiles = limits::num_m_tiles(group_rows);
  static_assert(
      m_tiles <= limits::max_m_tiles || limits::widest != 8,
      "group_rows * heads_per_kv must be at most 96 with head_dim 256, else 128: queries and "
      "output sums of more do not fit an SM; the nearest that fits is group_rows 8");
  static_assert(
      m_tiles <= limits::max_m_tiles || limits::widest != 4,
      "group_rows * heads_per_kv must be at most 96 with head_dim 256, else 128: queries and "
      "output sums of more do not fit an SM; the nearest that fits is group_rows 4");

  //! Tile: the tokens of one WMMA column block. A category's pages are padded to whole tiles.
  static constexpr int tile_tokens = edge;
  static constexpr int tile_pages  = tile_tokens / page_tokens;

  //! Step: what a CTA attends to between two exchanges of weights, warp_tiles tiles per warp.
  static constexpr int step_tiles  = warps * warp_tiles;
  static constexpr int step_tokens = step_tiles * tile_tokens;
  static constexpr int step_pages  = step_tiles * tile_pages;
  static_assert(step_pages <= sm70_limits::warp_threads,
                "warps * warp_tiles tiles must have at most 32 pages, one per lane: lower "
                "warp_tiles");

  //! Bands: runs of m-tiles that a category tells apart; three at most, so that there are at most
  //! seven categories. With three m-tiles or fewer a band is an m-tile.
  static constexpr int num_bands      = m_tiles < 3 ? m_tiles : 3;
  static constexpr int num_categories = (1 << num_bands) - 1;

  //! Elements of head_dim that a warp stages of its tokens' keys at once.
  static constexpr int key_dims = 16 * lane_vectors / warp_tiles;
  static_assert(lane_vectors == 2 || lane_vectors == 4, "lane_vectors must be 2 or 4");

  //! Elements of head_dim whose outputs one warp accumulates, and their 16-wide WMMA columns.
  static constexpr int value_dims    = head_dim / warps;
  static constexpr int value_columns = value_dims / edge;
  static_assert(value_dims % edge == 0,
                "head_dim / warps must be a multiple of 16: each warp owns whole WMMA columns of "
                "the output; take 4 warps");

  //! Tokens whose value_dims elements of V a warp stages at once: 32 lanes of 8 halves a load.
  static constexpr int value_tokens = lane_vectors * sm70_limits::warp_threads * 8 / value_dims;
  static_assert(value_tokens % edge == 0,
                "lane_vectors * 256 / (head_dim / warps) must be a multiple of 16: a warp stages "
                "whole 16-token tiles of V; take lane_vectors 4, or 8 warps");

  //! Registers of a thread that hold output sums for the whole kernel.
  static constexpr int accumulator_registers =
      m_tiles * value_columns * sm70_limits::accumulator_registers;
  static_assert(accumulator_registers <= 128,
                "the output sums need more than 128 registers of each thread: take 8 warps, or "
                "tuned_policy");
};

//! The same work one row at a time: an m-tile holds the heads of a row.
template <class Policy>
struct row_policy : Policy {
  static constexpr int group_rows   = 1;  //!< a row is a CTA's own
  static constexpr int warps        = 4;  //!< as few as one per quarter of an SM
  static constexpr int warp_tiles   = 1;  //!< short steps: a partition's last one is padded
  static constexpr int lane_vectors = 4;  //!< a warp's slice of V is whole tiles
  static constexpr int ctas_per_sm  = 3;  //!< 168 registers a thread, which spill nothing
};

//! Geometry of the row attention that goes with the groups of a geometry.
template <class Geometry>
using row_geometry = geometry<row_policy<typename Geometry::policy>>;

PAGEUNION_NAMESPACE_END
