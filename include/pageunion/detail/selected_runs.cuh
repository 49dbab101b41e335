// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Reads rows of a token table or a page table and turns them into runs: a page and the
//! tokens of it that neighbouring entries name. Knows which tokens a row admits; no masks, no plan.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include <pageunion/kv_cache.hpp>
#include <pageunion/rules.hpp>
#include <pageunion/selection.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! The entries of a call's rows, and what decides whether they are dropped.
//! @tparam Table token_table or page_table
template <class Table>
struct selected_entries {
  batch rows;
  Table table;
  block_table blocks;
  std::int32_t num_blocks   = 0;  //!< physical cache blocks
  std::int32_t block_tokens = 0;  //!< tokens of a cache block
};

//! The admitted tokens of a row that one window of pages shows: [first_token, first_token +
//! num_tokens). first_token begins a page, and that page has slot first_slot of the window.
struct row_window {
  std::int32_t first_token = 0;
  std::uint32_t num_tokens = 0;
  std::int32_t first_slot  = 0;
};

//! Neighbouring entries of a row that one thread reads at once: 16 bytes.
struct entry_quad {
  static constexpr std::uint32_t size = 4;
  std::int32_t entry[size];
};

//! Reads entries [first, first + 4) of a row. Entries at or past num_entries are not read: -1.
__device__ inline entry_quad load_quad(std::int32_t const* row, std::uint32_t first,
                                       std::uint32_t num_entries) {
  std::int32_t const* const from = row + first;
  entry_quad quad;
  // Rows of an odd stride (2051) start on any multiple of 4 bytes.
  bool const is_aligned = reinterpret_cast<std::uintptr_t>(from) % sizeof(int4) == 0;
  if (is_aligned && first + entry_quad::size <= num_entries) {
    int4 const loaded = *reinterpret_cast<int4 const*>(from);
    quad              = {{loaded.x, loaded.y, loaded.z, loaded.w}};
  } else {
#pragma unroll
    for (std::uint32_t i = 0; i < entry_quad::size; ++i) {
      quad.entry[i] = first + i < num_entries ? from[i] : -1;
    }
  }
  return quad;
}

//! The tokens of the window's page `page` that lie in the window, one bit each.
template <int PageTokens>
__device__ std::uint32_t bits_of_page(std::uint32_t page, row_window const& window) {
  std::uint32_t const tokens_left = window.num_tokens - page * PageTokens;
  return tokens_left >= PageTokens ? (1u << PageTokens) - 1u : (1u << tokens_left) - 1u;
}

//! Calls visit(slot, bits) for each run of a quad of tokens. Entries outside the window are passed
//! over; a hole does not end a run.
template <int PageTokens, class Visit>
__device__ void visit_runs(token_table const&, entry_quad const& quad, row_window const& window,
                           Visit const& visit) {
  std::uint32_t page = 0;
  std::uint32_t bits = 0;
#pragma unroll
  for (std::int32_t const token : quad.entry) {
    // One comparison: a negative token becomes a number past every window.
    std::uint32_t const offset =
        static_cast<std::uint32_t>(token) - static_cast<std::uint32_t>(window.first_token);
    if (offset < window.num_tokens) {
      if (bits != 0 && offset / PageTokens != page) {
        visit(window.first_slot + static_cast<std::int32_t>(page), bits);
        bits = 0;
      }
      page = offset / PageTokens;
      bits |= 1u << offset % PageTokens;
    }
  }
  if (bits != 0) {
    visit(window.first_slot + static_cast<std::int32_t>(page), bits);
  }
}

//! Calls visit(slot, bits) for each page of a quad of page numbers.
template <int PageTokens, class Visit>
__device__ void visit_runs(page_table const&, entry_quad const& quad, row_window const& window,
                           Visit const& visit) {
  std::uint32_t const first_page = static_cast<std::uint32_t>(window.first_token) / PageTokens;
  std::uint32_t const num_pages  = (window.num_tokens + PageTokens - 1) / PageTokens;
#pragma unroll
  for (std::int32_t const entry : quad.entry) {
    std::uint32_t const page = static_cast<std::uint32_t>(entry) - first_page;
    if (page < num_pages) {
      visit(window.first_slot + static_cast<std::int32_t>(page),
            bits_of_page<PageTokens>(page, window));
    }
  }
}

//! A token table names every token itself.
template <int PageTokens, class Visit>
__device__ void visit_implied(token_table const&, row_window const&, Visit const&) {}

//! The last page of a row comes with every page table if it is partly visible. Windows end with
//! whole pages, so that a part of a page is the row's last one.
template <int PageTokens, class Visit>
__device__ void visit_implied(page_table const&, row_window const& window, Visit const& visit) {
  if (window.num_tokens % PageTokens != 0) {
    std::uint32_t const page = window.num_tokens / PageTokens;
    visit(window.first_slot + static_cast<std::int32_t>(page),
          bits_of_page<PageTokens>(page, window));
  }
}

//! First entry of a row.
__device__ inline std::int32_t const* row_entries(token_table const& table, std::int32_t row) {
  return table.tokens + row * table.row_stride;
}
__device__ inline std::int32_t const* row_entries(page_table const& table, std::int32_t row) {
  return table.pages + row * table.row_stride;
}

//! Entries of a row that may be read.
__device__ inline std::int32_t num_row_entries(token_table const& table, std::int32_t row) {
  return table.counts == nullptr
             ? table.width
             : entries_in_use(table.counts[row * table.count_stride], table.width);
}
__device__ inline std::int32_t num_row_entries(page_table const& table, std::int32_t) {
  return table.width;
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
