// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The quads that selections usually have, read and understood with few instructions, and what
//! of them a second pass needs. Knows which tokens a row admits; no masks, no plan.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include <pageunion/detail/selected_runs.cuh>
#include <pageunion/selection.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

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

//! What a first pass over a quad of tokens leaves for a second one: the slot of the page if the quad
//! names one whole page, or one of these.
struct kept_quad {
  static constexpr std::uint16_t none  = 0xffff;  //!< no page of the window
  static constexpr std::uint16_t again = 0xfffe;  //!< the quad must be read again
  std::uint16_t slot                   = none;
};

//! visit_runs() of the usual quads, with fewer instructions: four tokens of a page that the window
//! shows whole, or four tokens outside the window. False, and nothing done, for any other quad.
template <int PageTokens, class Visit>
__device__ bool visit_usual_runs(token_table const&, entry_quad const& quad,
                                 row_window const& window, kept_quad& kept, Visit const& visit) {
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
  kept.slot          = kept_quad::none;
  if (is_page) {
    std::int32_t const slot = window.first_slot + static_cast<std::int32_t>(offset[0] / PageTokens);
    bool const is_kept      = bits == whole_page<PageTokens> && slot < kept_quad::again;
    kept.slot               = is_kept ? static_cast<std::uint16_t>(slot) : kept_quad::again;
    visit(slot, bits);
  }
  return is_page || is_outside;
}

//! Every quad of page numbers is usual. Nothing is kept of it: four slots take half of the quad's own
//! bytes, and a page table is small enough to be read twice.
template <int PageTokens, class Visit>
__device__ bool visit_usual_runs(page_table const& table, entry_quad const& quad,
                                 row_window const& window, kept_quad&, Visit const& visit) {
  visit_runs<PageTokens>(table, quad, window, visit);
  return true;
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
