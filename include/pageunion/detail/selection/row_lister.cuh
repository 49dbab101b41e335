// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The pages that one row attends to, found by one CTA in shared memory. Knows tables and
//! tokens; nothing of keys, values or other rows.
#pragma once

#include <cub/block/block_scan.cuh>

#include <pageunion/detail/selection/selection_reader.cuh>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Ranks [begin, end) of a row's pages in logical order.
struct rank_range {
  int begin = 0;
  int end   = 0;
};

//! Finds a row's pages in these phases:
//!
//!   per window of tokens: clear | mark | rank, list
//!
//! A bar is a CTA barrier. A window is a bitmap of tokens. mark sets the bits of S(row), by which
//! repeated entries and the order of columns are forgotten; rank numbers the pages that have a bit.
//! @tparam Threads threads of the CTA, all of which call every function
template <int PageTokens, int Threads>
class row_lister {
  static constexpr int page_tokens    = PageTokens;
  static constexpr int word_tokens    = 32;
  static constexpr int word_pages     = word_tokens / page_tokens;
  static constexpr int window_words   = 4096;
  static constexpr int window_tokens  = window_words * word_tokens;
  static constexpr unsigned page_bits = whole_page<PageTokens>;
  using scan = CUB_NS_QUALIFIER::BlockScan<int, Threads, CUB_NS_QUALIFIER::BLOCK_SCAN_WARP_SCANS>;

 public:
  struct shared_storage {
    std::uint32_t words[window_words];  // bit t of word w: token w * word_tokens + t of the window
    typename scan::TempStorage scan_storage;
  };

  __device__ row_lister(selected_entries const& from, std::int32_t row, shared_storage& smem)
      : from_(from), row_(row), smem_(smem), tokens_(admitted_tokens(from, row)) {
    if (tokens_.end > 0) {
      num_entries_ = num_row_entries(from.selected, row);
      row_blocks_  = from.blocks.table + from.rows.row_request[row] * from.blocks.row_stride;
    }
  }

  //! An upper bound of the row's pages that needs no look at the selection.
  __device__ int most_pages() const {
    int const visible = tokens_.end / page_tokens + (tokens_.end % page_tokens != 0 ? 1 : 0);
    int const implied = from_.selected.kind == selection_kind::pages ? 1 : 0;
    return num_entries_ < visible ? num_entries_ + implied : visible;
  }

  //! The pages in which the row has a token; the same in all threads.
  __device__ int count() {
    int num_pages = 0;
    for (std::int64_t begin = first_window(); begin < tokens_.end; begin += window_tokens) {
      open(static_cast<std::int32_t>(begin));
      num_pages += num_in_window_;
    }
    return num_pages;
  }

  //! Calls place(rank - share.begin, page, bits) for each page of a share, where bits are the tokens of
  //! the page that the row attends to. After count(), which leaves its last window open: a row of
  //! several windows has all of them opened again, since the ranks of a share follow from the count.
  template <class Place>
  __device__ void list(rank_range share, Place const& place) {
    int first_rank = 0;
    // 64 bits: the window after the last may begin past 2^31 - 1.
    for (std::int64_t begin = first_window(); begin < tokens_.end && first_rank < share.end;
         begin += window_tokens) {
      if (tokens_.end - first_window() > window_tokens) {
        open(static_cast<std::int32_t>(begin));
      }
      list_window(share, first_rank, place);
      first_rank += num_in_window_;
    }
  }

  //! Physical cache block of a page of the row.
  __device__ std::int32_t block_of(std::int32_t page) const {
    return __ldg(row_blocks_ + page * page_tokens / from_.block_tokens);
  }

 private:
  __device__ std::int32_t first_window() const { return tokens_.begin / word_tokens * word_tokens; }

  //! Marks and ranks the window that begins with this token.
  __device__ void open(std::int32_t begin) {
    std::int32_t const tokens_left = tokens_.end - begin;
    window_.first_token            = begin;
    window_.num_tokens =
        static_cast<std::uint32_t>(tokens_left < window_tokens ? tokens_left : window_tokens);
    num_words_ = (static_cast<int>(window_.num_tokens) + word_tokens - 1) / word_tokens;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < num_words_; i += Threads) {
      smem_.words[i] = 0;
    }
    __syncthreads();
    mark();
    __syncthreads();
    // No barrier: thread 0 alone reads the first word, in rank() and in list_window().
    if (begin < tokens_.begin && threadIdx.x == 0) {
      smem_.words[0] &= ~0u << (tokens_.begin - begin);
    }
    rank();
  }

  //! Sets the bits of the row's tokens in the window that are mapped.
  __device__ void mark() {
    constexpr std::uint32_t quads = 4;  // read before the first is used
    constexpr std::uint32_t step  = Threads * entry_quad::size;
    auto const num_entries        = static_cast<std::uint32_t>(num_entries_);
    auto const mark_run           = [this](std::int32_t position, std::uint32_t bits) {
      if (is_mapped(block_of(window_.first_token / page_tokens + position), from_.num_blocks)) {
        atomicOr(smem_.words + position / word_pages,
                           bits << (position % word_pages * page_tokens));
      }
    };
    read_row<PageTokens>(from_.selected, row_, [&](auto const& row) {
      for (std::uint32_t first = threadIdx.x * entry_quad::size; first < num_entries;
           first += quads * step) {
        entry_quad quad[quads];
#pragma unroll
        for (std::uint32_t i = 0; i < quads; ++i) {
          quad[i] = row.load_quad(first + i * step, num_entries);
        }
#pragma unroll
        for (std::uint32_t i = 0; i < quads; ++i) {
          row.visit_runs(quad[i], window_, mark_run);
        }
      }
      if (threadIdx.x == 0) {
        row.visit_implied(window_, mark_run);
      }
    });
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
    int const words = (num_words_ + Threads - 1) / Threads | 1;
    words_begin_    = static_cast<int>(threadIdx.x) * words;
    words_end_      = words_begin_ + words < num_words_ ? words_begin_ + words : num_words_;
    int num_pages   = 0;
    for (int i = words_begin_; i < words_end_; ++i) {
      num_pages += __popc(pages_of(smem_.words[i]));
    }
    scan(smem_.scan_storage).ExclusiveSum(num_pages, rank_, num_in_window_);
  }

  //! Places this thread's pages that are in the share.
  //! @param first_rank rank of the window's first page
  template <class Place>
  __device__ void list_window(rank_range share, int first_rank, Place const& place) const {
    int rank = first_rank + rank_;
    for (int i = words_begin_; i < words_end_ && rank < share.end; ++i) {
      std::uint32_t const word = smem_.words[i];
      for (std::uint32_t pages = pages_of(word); pages != 0; pages &= pages - 1) {
        int const bit = __ffs(static_cast<int>(pages)) - 1;
        if (rank >= share.begin && rank < share.end) {
          place(rank - share.begin, (window_.first_token + i * word_tokens + bit) / page_tokens,
                word >> bit & page_bits);
        }
        ++rank;
      }
    }
  }

  selected_entries const& from_;
  std::int32_t const row_;
  shared_storage& smem_;
  token_range const tokens_;                  // visible and in the block table
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
