// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Reads rows of a token table or a page table and turns them into runs: a page and the tokens
//! of it that neighbouring entries name. Knows which tokens a row admits; no masks, no plan.
#pragma once

#include <pageunion/rules.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! The entries of a call's rows, and what decides whether they are dropped.
struct selected_entries {
  batch rows;
  selection selected;
  block_table blocks;
  std::int32_t num_blocks   = 0;  //!< physical cache blocks
  std::int32_t block_tokens = 0;  //!< tokens of a cache block
};

//! The tokens of a call that a row may attend to if it selects them, as far as the block table's shape
//! says; empty for a row of no request.
__device__ inline token_range admitted_tokens(selected_entries const& from, std::int32_t row) {
  std::int32_t const request = from.rows.row_request[row];
  if (!is_request(request, from.blocks.num_requests)) {
    return {};
  }
  std::int32_t const mapped = from.blocks.width * from.block_tokens;
  token_range range =
      visible_tokens(from.rows.row_position[row], from.rows.sequence_length[request]);
  range.end = range.end < mapped ? range.end : mapped;
  return range.begin < range.end ? range : token_range{};
}

//! The admitted tokens of a row that one window of pages shows: [first_token, first_token +
//! num_tokens). first_token begins a page, and that page has position first_position in the window.
struct row_window {
  std::int32_t first_token    = 0;
  std::uint32_t num_tokens    = 0;
  std::int32_t first_position = 0;
};

//! Neighbouring entries of a row that one thread reads at once: 16 bytes.
struct entry_quad {
  static constexpr std::uint32_t size = 4;
  std::int32_t entry[size];
};

//! What a first pass over a quad of tokens leaves for a second one: the position of the page if the quad
//! names one whole page, or one of these.
struct kept_quad {
  static constexpr std::uint16_t none  = 0xffff;  //!< no page of the window
  static constexpr std::uint16_t again = 0xfffe;  //!< the quad must be read again
  std::uint16_t position               = none;
};

//! All tokens of a page, one bit each.
template <int PageTokens>
inline constexpr std::uint32_t whole_page = (1u << PageTokens) - 1u;

//! Entries of a row that may be read.
__device__ inline std::int32_t num_row_entries(selection const& selected, std::int32_t row) {
  if (selected.kind == selection_kind::pages) {
    return selected.pages.width;
  }
  token_table const& table = selected.tokens;
  return table.counts == nullptr
             ? table.width
             : entries_in_use(table.counts[row * table.count_stride], table.width);
}

//! One row of a selection's table.
//! @tparam Kind which of the two tables
template <int PageTokens, selection_kind Kind>
class selection_reader {
 public:
  static constexpr std::uint32_t page_tokens = PageTokens;
  static constexpr bool has_pages            = Kind == selection_kind::pages;

  __device__ selection_reader(selection const& selected, std::int32_t row)
      : entries_(has_pages ? selected.pages.pages + row * selected.pages.row_stride
                           : selected.tokens.tokens + row * selected.tokens.row_stride) {}

  __device__ std::int32_t entry(std::uint32_t index) const { return entries_[index]; }
  //! The token that stands for an entry: all tokens of an entry that lie in the row's range share its
  //! fate, since a page lies in one cache block. 64 bits: a page number times page_tokens can exceed
  //! int32.
  static __device__ std::int64_t token_of(std::int32_t entry, token_range visible) {
    if constexpr (!has_pages) {
      return entry;
    }
    std::int64_t const first = std::int64_t{entry} * PageTokens;
    return first < visible.begin && visible.begin < first + PageTokens ? visible.begin : first;
  }

  //! Reads entries [first, first + 4), all of which exist. A row of an odd stride (2051) starts at any 4
  //! bytes: only one that starts at 16 is read by one load.
  __device__ entry_quad load_whole_quad(std::uint32_t first) const {
    std::int32_t const* const from = entries_ + first;
    if (reinterpret_cast<std::uintptr_t>(entries_) % sizeof(int4) == 0) {
      int4 const loaded = *reinterpret_cast<int4 const*>(from);
      return {{loaded.x, loaded.y, loaded.z, loaded.w}};
    }
    return {{from[0], from[1], from[2], from[3]}};
  }
  //! Reads entries [first, first + 4). Entries at or past num_entries are not read: -1.
  __device__ entry_quad load_quad(std::uint32_t first, std::uint32_t num_entries) const {
    if (first + entry_quad::size <= num_entries) {
      return load_whole_quad(first);
    }
    entry_quad quad;
#pragma unroll
    for (std::uint32_t i = 0; i < entry_quad::size; ++i) {
      quad.entry[i] = first + i < num_entries ? entries_[first + i] : -1;
    }
    return quad;
  }

  //! Calls visit(position, bits) for each run of a quad. Holes and entries outside the window end no run.
  template <class Visit>
  static __device__ void visit_runs(entry_quad const& quad, row_window const& window,
                                    Visit const& visit) {
    if constexpr (has_pages) {
      visit_pages(quad, window, visit);
      return;
    }
    std::uint32_t page = 0;
    std::uint32_t bits = 0;
#pragma unroll
    for (std::int32_t const token : quad.entry) {
      // One comparison: a negative token becomes a number past every window.
      std::uint32_t const offset =
          static_cast<std::uint32_t>(token) - static_cast<std::uint32_t>(window.first_token);
      if (offset < window.num_tokens) {
        if (bits != 0 && offset / page_tokens != page) {
          visit(window.first_position + static_cast<std::int32_t>(page), bits);
          bits = 0;
        }
        page = offset / page_tokens;
        bits |= 1u << offset % page_tokens;
      }
    }
    if (bits != 0) {
      visit(window.first_position + static_cast<std::int32_t>(page), bits);
    }
  }

  //! visit_runs() of the usual quads, with fewer instructions: four tokens of a page that the window
  //! shows whole, four tokens outside the window, or pages, of which nothing is kept: a page table is
  //! small enough to be read twice. False, and nothing done, for any other quad.
  template <class Visit>
  static __device__ bool visit_usual_runs(entry_quad const& quad, row_window const& window,
                                          kept_quad& kept, Visit const& visit) {
    if constexpr (has_pages) {
      visit_pages(quad, window, visit);
      return true;
    }
    std::uint32_t offset[entry_quad::size];
    std::uint32_t apart = 0;
    std::uint32_t bits  = 0;
    bool is_outside     = true;
#pragma unroll
    for (std::uint32_t i = 0; i < entry_quad::size; ++i) {
      offset[i] = static_cast<std::uint32_t>(quad.entry[i]) -
                  static_cast<std::uint32_t>(window.first_token);
      apart |= offset[i] ^ offset[0];
      bits |= 1u << offset[i] % page_tokens;
      is_outside = is_outside && offset[i] >= window.num_tokens;
    }
    bool const is_page =
        apart < page_tokens && (offset[0] | (page_tokens - 1u)) < window.num_tokens;
    kept.position = kept_quad::none;
    if (is_page) {
      std::int32_t const position =
          window.first_position + static_cast<std::int32_t>(offset[0] / page_tokens);
      bool const is_kept = bits == whole_page<PageTokens> && position < kept_quad::again;
      kept.position      = is_kept ? static_cast<std::uint16_t>(position) : kept_quad::again;
      visit(position, bits);
    }
    return is_page || is_outside;
  }

  //! Calls visit(position, bits) for what a row has without naming it: with every page table comes the
  //! row's last page if it is partly visible. Windows end with whole pages, so that a part of a page is
  //! the row's last one.
  template <class Visit>
  static __device__ void visit_implied(row_window const& window, Visit const& visit) {
    if (has_pages && window.num_tokens % page_tokens != 0) {
      std::uint32_t const page = window.num_tokens / page_tokens;
      visit(window.first_position + static_cast<std::int32_t>(page), bits_of_page(page, window));
    }
  }

 private:
  //! The tokens of the window's page `page` that lie in the window, one bit each.
  static __device__ std::uint32_t bits_of_page(std::uint32_t page, row_window const& window) {
    std::uint32_t const left = window.num_tokens - page * page_tokens;
    return left >= page_tokens ? whole_page<PageTokens> : (1u << left) - 1u;
  }
  template <class Visit>
  static __device__ void visit_pages(entry_quad const& quad, row_window const& window,
                                     Visit const& visit) {
    std::uint32_t const first_page = static_cast<std::uint32_t>(window.first_token) / page_tokens;
    std::uint32_t const num_pages  = (window.num_tokens + page_tokens - 1) / page_tokens;
#pragma unroll
    for (std::int32_t const entry : quad.entry) {
      std::uint32_t const page = static_cast<std::uint32_t>(entry) - first_page;
      if (page < num_pages) {
        visit(window.first_position + static_cast<std::int32_t>(page), bits_of_page(page, window));
      }
    }
  }

  std::int32_t const* entries_;
};

//! Calls read(reader) with the reader of a row's table: its kind is asked here, outside of the loops.
template <int PageTokens, class Read>
__device__ void read_row(selection const& selected, std::int32_t row, Read const& read) {
  if (selected.kind == selection_kind::pages) {
    read(selection_reader<PageTokens, selection_kind::pages>(selected, row));
  } else {
    read(selection_reader<PageTokens, selection_kind::tokens>(selected, row));
  }
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
