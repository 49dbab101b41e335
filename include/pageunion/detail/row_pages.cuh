// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The pages that one row attends to, listed by one CTA in shared memory, and the share of them
//! that a partition takes. Knows tables and masks; nothing of keys, values or other rows.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include <cub/block/block_scan.cuh>

#include <pageunion/detail/selected_runs.cuh>
#include <pageunion/detail/step_pages.cuh>
#include <pageunion/geometry.hpp>
#include <pageunion/kv_cache.hpp>
#include <pageunion/rules.hpp>
#include <pageunion/selection.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Ranks [begin, end) of a row's pages in logical order.
struct rank_range {
  int begin = 0;
  int end   = 0;
};

//! A partition's share of a row with `num_pages` pages: as few partitions as can hold them take equal
//! shares, but for the rounding to whole steps. It follows from the row's own pages alone, not from
//! the shapes of the call. Empty for the partitions that are not needed.
template <class Geometry>
__host__ __device__ constexpr rank_range share_of(int num_pages, int partition) {
  constexpr int most   = Geometry::partition_pages;
  constexpr int step   = Geometry::step_pages;
  int const num_shares = (num_pages + most - 1) / most;
  if (partition >= num_shares) {
    return {};
  }
  int const equal = (num_pages + num_shares - 1) / num_shares;
  int const share = (equal + step - 1) / step * step;
  int const begin = partition * share < num_pages ? partition * share : num_pages;
  return {begin, num_pages - begin < share ? num_pages : begin + share};
}

//! A partition's pages in shared memory. Their number stays there too: in the attention's loop every
//! register counts.
template <class Geometry>
class row_pages {
 public:
  struct shared_storage {
    page_entry<Geometry> entries[Geometry::partition_pages];
    int num_pages;
  };

  __device__ explicit row_pages(shared_storage const& smem) : smem_(smem) {}

  __device__ int num_pages() const { return smem_.num_pages; }
  __device__ page_entry<Geometry> load(int index) const { return smem_.entries[index]; }

 private:
  shared_storage const& smem_;
};

//! Lists a row's pages in these phases:
//!
//!   per window of tokens: clear | mark | rank | list | resolve
//!
//! A bar is a CTA barrier. A window is a bitmap of tokens. mark sets the bits of S(row), by which
//! repeated entries and the order of columns are forgotten; rank numbers the pages that have a bit.
//! Windows come twice if there are several: how many pages a share has is known after the last.
//! @tparam Table token_table or page_table
template <class Geometry, class Table>
class row_lister {
  using G                             = Geometry;
  static constexpr int page_tokens    = G::page_tokens;
  static constexpr int word_tokens    = 32;
  static constexpr int word_pages     = word_tokens / page_tokens;
  static constexpr int window_words   = 4096;
  static constexpr int window_tokens  = window_words * word_tokens;
  static constexpr unsigned page_bits = (1u << page_tokens) - 1u;
  using scan =
      CUB_NS_QUALIFIER::BlockScan<int, G::threads, CUB_NS_QUALIFIER::BLOCK_SCAN_WARP_SCANS>;

 public:
  struct shared_storage {
    std::uint32_t words[window_words];  // bit t of word w: token w * word_tokens + t of the window
    typename scan::TempStorage scan_storage;
  };

  //! @param page_limit pages that a row may have; more are dropped, the last first
  __device__ row_lister(selected_entries<Table> const& selected, int page_limit, std::int32_t row,
                        shared_storage& smem)
      : selected_(selected), page_limit_(page_limit), row_(row), smem_(smem) {
    batch const& rows          = selected.rows;
    block_table const& blocks  = selected.blocks;
    std::int32_t const request = rows.row_request[row];
    if (is_request(request, blocks.num_requests)) {
      std::int32_t const mapped = blocks.width * selected.block_tokens;
      end_         = visible_end(rows.row_position[row], rows.sequence_length[request]);
      end_         = end_ < mapped ? end_ : mapped;
      num_entries_ = end_ > 0 ? num_row_entries(selected.table, row) : 0;
      row_blocks_  = blocks.table + request * blocks.row_stride;
    }
  }

  //! Lists the pages of a partition's share; barriers follow the last access to the shared storage.
  //! @return their number, the same in all threads
  __device__ int list(int partition, typename row_pages<G>::shared_storage& listed) {
    rank_range share;
    if (partition * G::partition_pages < most_pages()) {
      int const num_pages = count();
      share = share_of<G>(num_pages < page_limit_ ? num_pages : page_limit_, partition);
    }
    int const size = share.end - share.begin;
    int first_rank = 0;
    // 64 bits: the window after the last may begin past 2^31 - 1.
    for (std::int64_t begin = 0; begin < end_ && first_rank < share.end; begin += window_tokens) {
      if (end_ > window_tokens) {
        open(static_cast<std::int32_t>(begin));
      }
      list_window(share, first_rank, listed.entries);
      first_rank += num_in_window_;
    }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < size; i += G::threads) {
      resolve(listed.entries[i]);
    }
    if (threadIdx.x == 0) {
      listed.num_pages = size;
    }
    __syncthreads();
    return size;
  }

  //! The pages in which the row has a token, whatever the limit; the same in all threads.
  __device__ int count() {
    int num_pages = 0;
    for (std::int64_t begin = 0; begin < end_; begin += window_tokens) {
      open(static_cast<std::int32_t>(begin));
      num_pages += num_in_window_;
    }
    return num_pages;
  }

 private:
  //! An upper bound of the pages to list that needs no look at the selection.
  __device__ int most_pages() const {
    int const visible = end_ / page_tokens + (end_ % page_tokens != 0 ? 1 : 0);
    int const most =
        num_entries_ < visible ? num_entries_ + most_implied(selected_.table) : visible;
    return most < page_limit_ ? most : page_limit_;
  }
  static __device__ constexpr int most_implied(token_table const&) { return 0; }
  static __device__ constexpr int most_implied(page_table const&) { return 1; }

  //! Marks and ranks the window that begins with this token.
  __device__ void open(std::int32_t begin) {
    std::int32_t const tokens_left = end_ - begin;
    window_.first_token            = begin;
    window_.num_tokens =
        static_cast<std::uint32_t>(tokens_left < window_tokens ? tokens_left : window_tokens);
    num_words_ = (static_cast<int>(window_.num_tokens) + word_tokens - 1) / word_tokens;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < num_words_; i += G::threads) {
      smem_.words[i] = 0;
    }
    __syncthreads();
    mark();
    __syncthreads();
    rank();
  }

  //! Sets the bits of the row's tokens in the window that are mapped.
  __device__ void mark() {
    constexpr std::uint32_t quads = 4;  // read before the first is used
    constexpr std::uint32_t step  = G::threads * entry_quad::size;
    auto const num_entries        = static_cast<std::uint32_t>(num_entries_);
    std::int32_t const* const row = row_entries(selected_.table, row_);
    auto const mark_run           = [this](std::int32_t slot, std::uint32_t bits) {
      if (is_mapped(block_of(window_.first_token / page_tokens + slot), selected_.num_blocks)) {
        atomicOr(smem_.words + slot / word_pages, bits << (slot % word_pages * page_tokens));
      }
    };
    for (std::uint32_t first = threadIdx.x * entry_quad::size; first < num_entries;
         first += quads * step) {
      entry_quad quad[quads];
#pragma unroll
      for (std::uint32_t i = 0; i < quads; ++i) {
        quad[i] = load_quad(row, first + i * step, num_entries);
      }
#pragma unroll
      for (std::uint32_t i = 0; i < quads; ++i) {
        visit_runs<page_tokens>(selected_.table, quad[i], window_, mark_run);
      }
    }
    if (threadIdx.x == 0) {
      visit_implied<page_tokens>(selected_.table, window_, mark_run);
    }
  }

  //! Physical cache block of a page of the row.
  __device__ std::int32_t block_of(std::int32_t page) const {
    return __ldg(row_blocks_ + page * page_tokens / selected_.block_tokens);
  }

  //! One bit for each page of a word that has a token: the page's lowest.
  static __device__ std::uint32_t pages_of(std::uint32_t word) {
#pragma unroll
    for (int shift = 1; shift < page_tokens; shift *= 2) {
      word |= word >> shift;
    }
    return word & 0xffffffffu / page_bits;
  }

  //! Numbers the window's pages. Each thread has a run of words; an odd number of them, so that the
  //! threads of a warp read from different banks.
  __device__ void rank() {
    int const words = (num_words_ + G::threads - 1) / G::threads | 1;
    words_begin_    = static_cast<int>(threadIdx.x) * words;
    words_end_      = words_begin_ + words < num_words_ ? words_begin_ + words : num_words_;
    int num_pages   = 0;
    for (int i = words_begin_; i < words_end_; ++i) {
      num_pages += __popc(pages_of(smem_.words[i]));
    }
    scan(smem_.scan_storage).ExclusiveSum(num_pages, rank_, num_in_window_);
  }

  //! Writes this thread's pages that are in the share, block being the page's number for now.
  //! @param first_rank rank of the window's first page
  __device__ void list_window(rank_range share, int first_rank, page_entry<G>* entries) const {
    int rank = first_rank + rank_;
    for (int i = words_begin_; i < words_end_ && rank < share.end; ++i) {
      std::uint32_t const word = smem_.words[i];
      for (std::uint32_t pages = pages_of(word); pages != 0; pages &= pages - 1) {
        int const bit = __ffs(static_cast<int>(pages)) - 1;
        if (rank >= share.begin && rank < share.end) {
          page_entry<G>& entry = entries[rank - share.begin];
          entry.block          = (window_.first_token + i * word_tokens + bit) / page_tokens;
          entry.mask           = word >> bit & page_bits;
        }
        ++rank;
      }
    }
  }

  //! Replaces a page's number by its address.
  __device__ void resolve(page_entry<G>& entry) const {
    std::int32_t const page = entry.block;
    entry.block             = block_of(page);
    entry.first_token       = page * page_tokens % selected_.block_tokens;
  }

  selected_entries<Table> const& selected_;
  int const page_limit_;
  std::int32_t const row_;
  shared_storage& smem_;
  std::int32_t end_               = 0;        // tokens [0, end) are visible and in the block table
  std::int32_t num_entries_       = 0;        // of the row that may be read
  std::int32_t const* row_blocks_ = nullptr;  // the request's row of the block table

  // The open window.
  row_window window_;
  int num_words_     = 0;
  int num_in_window_ = 0;  // pages of the window
  int words_begin_   = 0;  // words [begin, end) are this thread's
  int words_end_     = 0;
  int rank_          = 0;  // of the first page in them
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
