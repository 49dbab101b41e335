// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The pages of a group that its rows chose, window by window, as a list in logical order
//! with a mask each, in shared memory and without a sort. Knows selections; not where pages lie.
#pragma once

#include <cub/block/block_scan.cuh>

#include <pageunion/detail/planner/group_facts.cuh>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Shared memory of a page_union.
template <class Shape, unsigned StorageBytes>
struct window_storage {
  using scan = CUB_NS_QUALIFIER::BlockScan<int, Shape::group_rows * sm70_limits::warp_threads,
                                           CUB_NS_QUALIFIER::BLOCK_SCAN_WARP_SCANS>;

  //! A map:     masks[map_pages] | positions[map_pages].
  //! A ranking: present[words] | rank[words] | kept[kept_quads][threads] | masks[list_pages] |
  //!            positions[list_pages], with as many words as the group's windows need: the list gets
  //!            the rest.
  alignas(16) unsigned char bytes[StorageBytes];
  std::int32_t first_position[Shape::group_rows];  //!< per request: position of its first page
  typename scan::TempStorage scan_storage;
};

//! A planning CTA's view of its group's page space, one warp per row. All threads call every
//! function. The space is looked at through windows, of one of two kinds:
//!
//! - a map (short contexts): a mask for every page, filled in one pass over the selections. The pages
//!   whose mask is not 0 are the list.
//! - a ranking (long contexts): a bit for every page, set in a first pass. The number of bits before a
//!   page's is its rank, its place in the list. A second pass fills the masks of the list; over tokens
//!   it mostly reads what the first one kept. A list that is longer than its memory is made in parts.
//!
//! @tparam Sizes as planner_sizes
template <class Shape, class Sizes>
class page_union {
 public:
  using mask_type              = typename Shape::mask_type;
  static constexpr int warps   = Shape::group_rows;
  static constexpr int lanes   = sm70_limits::warp_threads;
  static constexpr int threads = warps * lanes;

 private:
  static constexpr int page_tokens = Shape::page_tokens;
  static constexpr int word_bits   = 32;
  static constexpr int mask_words  = static_cast<int>(sizeof(mask_type) / sizeof(std::uint32_t));
  static constexpr int vector      = 4;  // words of a 16-byte access
  static constexpr std::uint32_t step_entries = lanes * entry_quad::size;  // a warp reads at once
  static constexpr int list_entry_bytes       = sizeof(mask_type) + sizeof(std::uint16_t);

  static constexpr std::uint32_t kept_quads = Sizes::kept_quads;  // of a lane, of a row of tokens

  static constexpr int round_down(int value, int multiple) { return value / multiple * multiple; }
  static __host__ __device__ constexpr int smaller(int a, int b) { return a < b ? a : b; }

  // A thread remembers which of its pages of a map have a mask: a bit each.
  static constexpr int map_pages =
      smaller(round_down(Sizes::storage_bytes / list_entry_bytes, word_bits), threads* word_bits);

  static constexpr int window_words  = Sizes::window_pages / word_bits;
  static constexpr int kept_bytes    = static_cast<int>(kept_quads * threads * sizeof(kept_quad));
  static constexpr int ranking_bytes = window_words * 6 + kept_bytes;
  static_assert(Sizes::window_pages <= 65536, "a window's positions must have 16 bits");
  static_assert(Sizes::window_pages % (8 * word_bits) == 0,
                "a window must have a multiple of 256 pages, so that 16-byte accesses fit");
  static_assert(Sizes::storage_bytes - ranking_bytes >= list_entry_bytes * word_bits,
                "storage_bytes must hold a ranking and a list of 32 pages");
  static_assert(kept_quads <= word_bits, "a thread remembers in a word which quads to read again");

  using scan = typename window_storage<Shape, Sizes::storage_bytes>::scan;

 public:
  using shared_storage = window_storage<Shape, Sizes::storage_bytes>;

  //! @param facts filled, and a barrier passed
  __device__ page_union(selection const& selected, std::int32_t first_row,
                        group_facts<Shape> const& facts, shared_storage& smem)
      : selected_(selected),
        facts_(facts),
        smem_(smem),
        warp_(static_cast<int>(threadIdx.x) / lanes),
        lane_(static_cast<int>(threadIdx.x) % lanes),
        row_(first_row + warp_),
        is_map_(Sizes::can_map && facts.num_pages <= map_pages) {
    if (!is_map_) {
      int const shown = facts.num_pages < Sizes::window_pages ? static_cast<int>(facts.num_pages)
                                                              : Sizes::window_pages;
      words_          = (shown + 8 * word_bits - 1) / (8 * word_bits) * 8;
      int const bytes = words_ * 6 + (num_kept() > 0 ? kept_bytes : 0);
      first_mask_     = bytes / static_cast<int>(sizeof(std::uint32_t));
      list_pages_     = (Sizes::storage_bytes - bytes) / list_entry_bytes / word_bits * word_bits;
    }
  }

  //! True if the window is a map: it shows the whole page space and has one list, made by open().
  __device__ bool is_map() const { return is_map_; }
  //! Pages that a window shows.
  __device__ int width() const { return is_map_ ? map_pages : Sizes::window_pages; }
  //! Pages of a list at most.
  __device__ int list_pages() const { return list_pages_; }

  //! Shows the pages [begin, begin + width()) of the page space. Begins with a CTA barrier; of a map also
  //! ends with one. What a ranking's open() wrote is read after the barrier that list() begins with.
  //! @return pages that were chosen among them
  __device__ int open(std::int64_t begin) {
    std::int64_t const left = facts_.num_pages - begin;
    int const num_positions = left < width() ? static_cast<int>(left) : width();
    __syncthreads();
    show_row(begin, num_positions);
    show_requests(begin);
    if (is_map_) {
      set_zero(masks(), (num_positions + vector - 1) / vector * vector * mask_words);
      __syncthreads();
      visit_row([this](std::int32_t position, std::uint32_t bits) { add_bits(position, bits); },
                [](std::uint32_t, kept_quad) {});
      if (__syncthreads_or(hidden_bits() != 0) != 0) {
        hide_bits(shown_.first_position, num_positions);
      }
      return list_map(num_positions);
    }
    set_zero(present(), words_);
    __syncthreads();
    visit_row(
        [this](std::int32_t position, std::uint32_t) {
          atomicOr(present() + position / word_bits, 1u << position % word_bits);
        },
        [this](std::uint32_t i, kept_quad quad) {
          if (i < num_kept()) {
            kept(i) = quad;
          }
        });
    __syncthreads();
    return rank_pages();
  }

  //! Lists the pages of ranks [first, first + num_pages) of a ranking; num_pages is at most
  //! list_pages(). Begins and ends with a CTA barrier.
  __device__ void list(int first, int num_pages) {
    __syncthreads();
    set_zero(masks(), num_pages * mask_words);
    list_positions(first, num_pages);
    __syncthreads();
    revisit_row([this, first, num_pages](std::int32_t position, std::uint32_t bits) {
      int const index = rank_of(position) - first;
      if (static_cast<unsigned>(index) < static_cast<unsigned>(num_pages)) {
        add_bits(index, bits);
      }
    });
    if (__syncthreads_or(hidden_bits() != 0) != 0) {
      hide_bits(rank_of(shown_.first_position) - first, num_pages);
    }
  }

  //! Position of a page of the list: its place in the window.
  __device__ int position(int index) const { return positions()[index]; }
  //! Mask of a page of the list; 0 if the rows chose hidden tokens of it alone.
  //! @param position position(index)
  __device__ mask_type mask(int index, int position) const {
    std::uint32_t const* const word = masks() + (is_map_ ? position : index) * mask_words;
    mask_type mask                  = word[0];
    if constexpr (mask_words == 2) {
      mask |= mask_type{word[1]} << word_bits;
    }
    return mask;
  }
  //! Request of a position, by the order in which the group meets its requests.
  __device__ int request_of(int position) const {
    int request = 0;
    while (request + 1 < facts_.num_requests && position >= smem_.first_position[request + 1]) {
      ++request;
    }
    return request;
  }
  //! Page number of a position in its request.
  __device__ std::uint32_t page_of(int position, int request) const {
    return static_cast<std::uint32_t>(position - smem_.first_position[request]);
  }

 private:
  // The arrays of shared_storage::bytes. Offsets and not pointers: they take one register each.
  __device__ std::uint32_t* present() const {
    return reinterpret_cast<std::uint32_t*>(smem_.bytes);
  }
  __device__ std::uint16_t* rank() const {
    return reinterpret_cast<std::uint16_t*>(present() + words_);
  }
  __device__ kept_quad& kept(std::uint32_t i) const {
    return reinterpret_cast<kept_quad*>(smem_.bytes + words_ * 6)[i * threads + threadIdx.x];
  }
  __device__ std::uint32_t* masks() const { return present() + first_mask_; }
  __device__ std::uint16_t* positions() const {
    return reinterpret_cast<std::uint16_t*>(masks() + list_pages_ * mask_words);
  }

  //! Finds the row's part in a window.
  __device__ void show_row(std::int64_t begin, int num_positions) {
    std::int64_t const base        = facts_.first_page[warp_];
    token_range const tokens       = facts_.tokens[warp_];
    std::int64_t const row_page    = tokens.begin / page_tokens;
    std::int64_t const first_page  = begin - base > row_page ? begin - base : row_page;
    std::int64_t const first_token = first_page * page_tokens;
    std::int64_t const pages_end   = (begin + num_positions - base) * page_tokens;
    std::int64_t const tokens_end  = pages_end < tokens.end ? pages_end : tokens.end;
    shown_                         = row_window{};
    if (first_token < tokens_end) {
      shown_.first_token    = static_cast<std::int32_t>(first_token);
      shown_.num_tokens     = static_cast<std::uint32_t>(tokens_end - first_token);
      shown_.first_position = static_cast<std::int32_t>(base + first_page - begin);
    }
  }

  //! Finds the requests' places in a window. Those that end before it or begin behind it only have
  //! to keep their order: a request has fewer than 2^29 pages.
  __device__ void show_requests(std::int64_t begin) {
    constexpr std::int64_t far_before = -(std::int64_t{1} << 30);
    if (static_cast<int>(threadIdx.x) < facts_.num_requests) {
      std::int64_t position = facts_.request_first_page[threadIdx.x] - begin;
      position              = position > far_before ? position : far_before;
      position              = position < Sizes::window_pages ? position : Sizes::window_pages;
      smem_.first_position[threadIdx.x] = static_cast<std::int32_t>(position);
    }
  }

  //! Marked pages before a position: the rank of its page if that is marked.
  __device__ int rank_of(int position) const {
    int const word = position / word_bits;
    return rank()[word] + __popc(present()[word] & ((1u << position % word_bits) - 1u));
  }

  // Whole 16-byte vectors: the arrays are that long.
  __device__ void set_zero(std::uint32_t* first, int count) {
    auto* const vectors = reinterpret_cast<uint4*>(first);
#pragma unroll 1
    for (int i = static_cast<int>(threadIdx.x); i < (count + vector - 1) / vector; i += threads) {
      vectors[i] = make_uint4(0, 0, 0, 0);
    }
  }

  // The bits of a row lie in one word of a mask. OR does not depend on the order of the threads.
  __device__ void add_bits(int index, std::uint32_t bits) const {
    int const first_bit = warp_ * page_tokens;
    atomicOr(masks() + index * mask_words + first_bit / word_bits, bits << first_bit % word_bits);
  }

  //! Tokens of the row's first page in the window that come before those that the row may see.
  __device__ std::uint32_t hidden_bits() const {
    std::int32_t const num_hidden = facts_.tokens[warp_].begin - shown_.first_token;
    return num_hidden > 0 && shown_.num_tokens > 0 ? (1u << num_hidden) - 1u : 0u;
  }
  //! Takes the hidden tokens out of a mask. Ends with a CTA barrier.
  //! @param index of the row's first page in the masks; one outside [0, size) has no mask there, and a
  //!              page that no row chose has the rank of the next one
  __device__ void hide_bits(int index, int size) const {
    if (lane_ == 0 && static_cast<unsigned>(index) < static_cast<unsigned>(size) &&
        (is_map_ || position(index) == shown_.first_position)) {
      int const first_bit = warp_ * page_tokens;
      atomicAnd(masks() + index * mask_words + first_bit / word_bits,
                ~(hidden_bits() << first_bit % word_bits));
    }
    __syncthreads();
  }

  //! Quads that a lane keeps: a page table is small enough to be read twice.
  __device__ std::uint32_t num_kept() const {
    return selected_.kind == selection_kind::tokens ? kept_quads : 0u;
  }

  //! Entries of the row; none if the window shows none of its tokens.
  __device__ std::uint32_t num_shown_entries() const {
    return shown_.num_tokens == 0 ? 0u : static_cast<std::uint32_t>(facts_.num_entries[warp_]);
  }
  //! First entry of this lane's i-th quad.
  __device__ std::uint32_t first_entry(std::uint32_t i) const {
    return i * step_entries + static_cast<std::uint32_t>(lane_) * entry_quad::size;
  }

  //! Calls visit(position, bits) for all runs of the row, and for a lane's i-th quad keep(i, kept_quad).
  template <class Visit, class Keep>
  __device__ void visit_row(Visit const& visit, Keep const& keep) const {
    constexpr std::uint32_t batch   = Sizes::batch_quads;
    std::uint32_t const num_entries = num_shown_entries();
    read_row<page_tokens>(selected_, row_, [&](auto const& row) {
#pragma unroll 1
      for (std::uint32_t i = 0; i * step_entries < num_entries; i += batch) {
        unsigned others = 0;  // bit j: quad i + j is not a usual one, or at the end of the row
        if ((i + batch) * step_entries <= num_entries) {
          entry_quad quads[batch];  // all in flight before the first is used
#pragma unroll
          for (std::uint32_t j = 0; j < batch; ++j) {
            quads[j] = row.load_whole_quad(this->first_entry(i + j));
          }
#pragma unroll
          for (std::uint32_t j = 0; j < batch; ++j) {
            kept_quad whole;
            others |= row.visit_usual_runs(quads[j], shown_, whole, visit) ? 0u : 1u << j;
            keep(i + j, whole);
          }
        } else {
#pragma unroll
          for (std::uint32_t j = 0; j < batch; ++j) {
            others |= this->first_entry(i + j) < num_entries ? 1u << j : 0u;
          }
        }
        // Rare, so that the code is here once and reads the quad again.
#pragma unroll 1
        for (; others != 0; others &= others - 1) {
          std::uint32_t const j = static_cast<std::uint32_t>(__ffs(static_cast<int>(others))) - 1;
          row.visit_runs(row.load_quad(this->first_entry(i + j), num_entries), shown_, visit);
          keep(i + j, {kept_quad::again});
        }
      }
      if (lane_ == 0) {
        row.visit_implied(shown_, visit);
      }
    });
  }

  //! visit_row() once more in a ranking, over tokens mostly from what the first pass kept.
  template <class Visit>
  __device__ void revisit_row(Visit const& visit) const {
    std::uint32_t const num_entries = num_shown_entries();
    unsigned others                 = 0;  // bit i: quad i
#pragma unroll(Sizes::batch_quads)
    for (std::uint32_t i = 0; i < kept_quads; ++i) {
      if (i < num_kept() && first_entry(i) < num_entries) {
        std::uint16_t const position = kept(i).position;
        if (position < kept_quad::again) {
          visit(position, whole_page<page_tokens>);
        }
        others |= position == kept_quad::again ? 1u << i : 0u;
      }
    }
    std::uint32_t next = num_kept();
    read_row<page_tokens>(selected_, row_, [&](auto const& row) {
#pragma unroll 1
      while (others != 0 || this->first_entry(next) < num_entries) {
        std::uint32_t const i =
            others != 0 ? static_cast<std::uint32_t>(__ffs(static_cast<int>(others))) - 1 : next++;
        others &= others - 1;
        row.visit_runs(row.load_quad(this->first_entry(i), num_entries), shown_, visit);
      }
      if (lane_ == 0) {
        row.visit_implied(shown_, visit);
      }
    });
  }

  //! Which of the map's pages [position, position + 4) have a mask, one bit each.
  __device__ unsigned masked_pages(int position) const {
    auto const* const vectors = reinterpret_cast<uint4 const*>(masks() + position * mask_words);
    uint4 any                 = vectors[0];
    if constexpr (mask_words == 2) {
      uint4 const low  = any;
      uint4 const high = vectors[1];
      any              = make_uint4(low.x | low.y, low.z | low.w, high.x | high.y, high.z | high.w);
    }
    return (any.x != 0 ? 1u : 0u) | (any.y != 0 ? 2u : 0u) | (any.z != 0 ? 4u : 0u) |
           (any.w != 0 ? 8u : 0u);
  }

  //! Lists the pages of a map. Each thread has a run of positions. Ends with a CTA barrier.
  __device__ int list_map(int num_positions) {
    int const run   = (num_positions + vector * threads - 1) / (vector * threads) * vector;
    int const begin = static_cast<int>(threadIdx.x) * run;
    unsigned chosen = 0;  // bit i: position begin + i
    for (int i = 0; i < run && begin + i < num_positions; i += vector) {
      chosen |= masked_pages(begin + i) << i;
    }
    int index = 0, total = 0;
    scan(smem_.scan_storage).ExclusiveSum(__popc(chosen), index, total);
#pragma unroll 1
    for (; chosen != 0; chosen &= chosen - 1) {
      positions()[index++] =
          static_cast<std::uint16_t>(begin + __ffs(static_cast<int>(chosen)) - 1);
    }
    __syncthreads();
    return total;
  }

  //! Words of a ranking that a thread ranks: a run of whole vectors.
  __device__ int run_of_words() const {
    return (words_ + vector * threads - 1) / (vector * threads) * vector;
  }

  //! Ranks the pages of a ranking. A CTA barrier must come before the ranks are read.
  __device__ int rank_pages() {
    int const begin = smaller(static_cast<int>(threadIdx.x) * run_of_words(), words_);
    int const end   = smaller(begin + run_of_words(), words_);
    int count       = 0;
    for (int i = begin; i < end; i += vector) {
      uint4 const four = *reinterpret_cast<uint4 const*>(present() + i);
      count += __popc(four.x) + __popc(four.y) + __popc(four.z) + __popc(four.w);
    }
    int before = 0, total = 0;
    scan(smem_.scan_storage).ExclusiveSum(count, before, total);
    for (int i = begin; i < end; ++i) {
      rank()[i] = static_cast<std::uint16_t>(before);
      before += __popc(present()[i]);
    }
    return total;
  }

  //! Writes the positions of this thread's pages that are in the list.
  __device__ void list_positions(int first, int num_pages) const {
    int const begin = smaller(static_cast<int>(threadIdx.x) * run_of_words(), words_);
    int const end   = smaller(begin + run_of_words(), words_);
    int index       = begin < end ? rank()[begin] - first : 0;
#pragma unroll 1
    for (int i = begin; i < end; ++i) {
#pragma unroll 1
      for (std::uint32_t bits = present()[i]; bits != 0; bits &= bits - 1) {
        if (static_cast<unsigned>(index) < static_cast<unsigned>(num_pages)) {
          positions()[index] =
              static_cast<std::uint16_t>(i * word_bits + __ffs(static_cast<int>(bits)) - 1);
        }
        ++index;
      }
    }
  }

  selection const& selected_;
  group_facts<Shape> const& facts_;
  shared_storage& smem_;
  int const warp_;
  int const lane_;
  std::int32_t const row_;
  bool const is_map_;
  int list_pages_ = map_pages;
  int first_mask_ = 0;  // words before the masks
  int words_      = 0;  // of a ranking
  row_window shown_;    // the row's part of the open window
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
