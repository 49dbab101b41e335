// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The quads that selections usually have, read and understood with few instructions, and what
//! of them a second pass needs. Knows which tokens a row admits; no masks, no plan.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include <pageunion/detail/selected_runs.cuh>
#include <pageunion/selection.hpp>

namespace pageunion::detail {

//! True if the quads of a row can be read with one load each. Rows of an odd stride (2051) start on
//! any multiple of 4 bytes.
__device__ inline bool has_aligned_quads(std::int32_t const* row) {
  return reinterpret_cast<std::uintptr_t>(row) % sizeof(int4) == 0;
}

//! Reads four entries, all of which exist.
//! @param is_aligned has_aligned_quads() of their row
__device__ inline entry_quad load_whole_quad(std::int32_t const* from, bool is_aligned) {
  if (is_aligned) {
    int4 const loaded = *reinterpret_cast<int4 const*>(from);
    return {{loaded.x, loaded.y, loaded.z, loaded.w}};
  }
  return {{from[0], from[1], from[2], from[3]}};
}

//! All tokens of a page.
template <int PageTokens>
inline constexpr std::uint32_t whole_page = (1u << PageTokens) - 1u;

//! What a first pass over a quad leaves for a second one: the slots of pages that are named whole.
template <int Pages>
struct kept_pages {
  static constexpr std::uint16_t none  = 0xffff;  //!< nothing here
  static constexpr std::uint16_t again = 0xfffe;  //!< read the quad again
  std::uint16_t slot[Pages];
};
//! A quad of tokens usually names one whole page, a quad of page numbers names four.
template <class Table>
struct kept_quad;
template <>
struct kept_quad<token_table> : kept_pages<1> {};
template <>
struct alignas(8) kept_quad<page_table> : kept_pages<4> {};

//! What is kept of a quad that has to be read again.
template <class Table>
__device__ kept_quad<Table> keep_nothing() {
  kept_quad<Table> kept;
#pragma unroll
  for (std::uint16_t& slot : kept.slot) {
    slot = kept.again;
  }
  return kept;
}

//! Calls visit(slot) for the pages that were kept of a quad. False if it must be read again.
template <int Pages, class Visit>
__device__ bool visit_kept(kept_pages<Pages> const& kept, Visit const& visit) {
  bool is_enough = true;
#pragma unroll
  for (std::uint16_t const slot : kept.slot) {
    if (slot < kept.again) {
      visit(static_cast<std::int32_t>(slot));
    }
    is_enough = is_enough && slot != kept.again;
  }
  return is_enough;
}

//! visit_runs() of the usual quads, with fewer instructions: four tokens of a page that the window
//! shows whole, or four tokens outside the window. False, and nothing done, for any other quad.
template <int PageTokens, class Visit>
__device__ bool visit_usual_runs(token_table const&, entry_quad const& quad,
                                 row_window const& window, kept_quad<token_table>& kept,
                                 Visit const& visit) {
  std::uint32_t offset[entry_quad::size];
  std::uint32_t apart = 0;
  std::uint32_t bits  = 0;
  bool is_outside     = true;
#pragma unroll
  for (std::uint32_t i = 0; i < entry_quad::size; ++i) {
    offset[i] =
        static_cast<std::uint32_t>(quad.entry[i]) - static_cast<std::uint32_t>(window.first_token);
    apart |= offset[i] ^ offset[0];
    bits |= 1u << offset[i] % PageTokens;
    is_outside = is_outside && offset[i] >= window.num_tokens;
  }
  bool const is_page = apart < PageTokens && (offset[0] | (PageTokens - 1u)) < window.num_tokens;
  kept.slot[0]       = kept.none;
  if (is_page) {
    std::int32_t const slot = window.first_slot + static_cast<std::int32_t>(offset[0] / PageTokens);
    bool const is_kept      = bits == whole_page<PageTokens> && slot < kept.again;
    kept.slot[0]            = is_kept ? static_cast<std::uint16_t>(slot) : kept.again;
    visit(slot, bits);
  }
  return is_page || is_outside;
}

//! visit_runs() of page numbers: each is a run of its own, and every quad is usual.
template <int PageTokens, class Visit>
__device__ bool visit_usual_runs(page_table const&, entry_quad const& quad,
                                 row_window const& window, kept_quad<page_table>& kept,
                                 Visit const& visit) {
  std::uint32_t const first_page = static_cast<std::uint32_t>(window.first_token) / PageTokens;
  std::uint32_t const num_pages  = (window.num_tokens + PageTokens - 1) / PageTokens;
#pragma unroll
  for (std::uint32_t i = 0; i < entry_quad::size; ++i) {
    std::uint32_t const page = static_cast<std::uint32_t>(quad.entry[i]) - first_page;
    kept.slot[i]             = kept.none;
    if (page < num_pages) {
      std::int32_t const slot  = window.first_slot + static_cast<std::int32_t>(page);
      std::uint32_t const bits = bits_of_page<PageTokens>(page, window);
      bool const is_kept       = bits == whole_page<PageTokens> && slot < kept.again;
      kept.slot[i]             = is_kept ? static_cast<std::uint16_t>(slot) : kept.again;
      visit(slot, bits);
    }
  }
  return true;
}
}  // namespace pageunion::detail
