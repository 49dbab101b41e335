// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 7. Turns the selections of groups of rows into a plan. Knows tables and masks; nothing of
//! keys, values or how a plan is used.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <type_traits>

#include <cub/block/block_scan.cuh>

#include <pageunion/detail/argument_checks.hpp>
#include <pageunion/detail/launch.cuh>
#include <pageunion/detail/plan_tally.cuh>
#include <pageunion/detail/selected_runs.cuh>
#include <pageunion/geometry.hpp>
#include <pageunion/kv_cache.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/rules.hpp>
#include <pageunion/selection.hpp>
#include <pageunion/status.hpp>

namespace pageunion {

namespace detail {

struct planner_shape {
  static constexpr int threads       = 512;
  static constexpr int storage_bytes = 49152;
  static constexpr int window_pages  = 32768;
  static constexpr int kept_quads    = 4104;
  static constexpr int ctas_per_sm   = 2;
};

template <class Table>
struct planner_params {
  batch rows;
  Table table;
  block_table blocks;
  std::int32_t num_blocks           = 0;  //!< physical cache blocks
  std::int32_t pages_per_block      = 0;  //!< pages of a cache block
  std::int32_t table_tokens         = 0;  //!< tokens that the block table can map for a request
  std::int32_t page_limit           = 0;  //!< pages of a group that the plan has room for
  unsigned long long* over_capacity = nullptr;  //!< counts pages past the limit; may be null
};

template <class Geometry, class Table, class Shape = planner_shape>
class group_planner {
  using mask_type                     = typename Geometry::mask_type;
  static constexpr int page_tokens    = Geometry::page_tokens;
  static constexpr int group_rows     = Geometry::group_rows;
  static constexpr int num_bands      = Geometry::num_bands;
  static constexpr int num_categories = Geometry::num_categories;
  static constexpr int threads        = Shape::threads;
  static constexpr int warp_threads   = sm70_limits::warp_threads;
  static constexpr int warps          = threads / warp_threads;
  static constexpr unsigned all_lanes = 0xffffffffu;
  static constexpr int mask_words     = static_cast<int>(sizeof(mask_type) / sizeof(std::uint32_t));
  static constexpr int word_bits      = 32;
  static constexpr std::uint32_t row_threads = threads / group_rows;
  static constexpr bool keeps = std::is_same<Table, token_table>::value && Shape::kept_quads > 0;
  static constexpr int kept_quads = keeps ? Shape::kept_quads : 1;
  using scan                      = cub::BlockScan<int, threads, cub::BLOCK_SCAN_WARP_SCANS>;

  struct group_rows_facts {
    std::int64_t first_page[group_rows];
    std::int32_t end[group_rows];
    std::int32_t num_entries[group_rows];
    std::int64_t request_page[group_rows];
    std::int32_t request[group_rows];
    std::int64_t num_pages;
    std::int32_t num_requests;
  };
  static constexpr int overhead = static_cast<int>(
      sizeof(group_rows_facts) + sizeof(typename scan::TempStorage) + warps * 8 * 4 + 64);
  static constexpr int window_words = Shape::window_pages / word_bits;
  static constexpr int map_pages =
      (Shape::storage_bytes - overhead) / static_cast<int>(sizeof(mask_type)) / 32 * 32;
  static constexpr int list_pages =
      (Shape::storage_bytes - overhead - window_words * 6 - kept_quads * 4) /
      static_cast<int>(sizeof(mask_type) + 2) / 32 * 32;

  struct ranked_window {
    std::uint32_t present[window_words];
    std::uint16_t rank[window_words];
    std::uint16_t page[list_pages];
    std::uint32_t kept[kept_quads];
    std::uint32_t masks[list_pages * mask_words];
  };

 public:
  struct shared_storage {
    union {
      std::uint32_t masks[map_pages * mask_words];
      ranked_window ranked;
    } window;
    group_rows_facts facts;
    std::int32_t warp_counts[warps][num_categories + 1];
    typename scan::TempStorage scan_storage;
  };

  __device__ group_planner(planner_params<Table> const& params, plan<Geometry> const& planned,
                           std::int32_t group, shared_storage& smem)
      : params_(params),
        smem_(smem),
        addresses_(planned.addresses + std::int64_t{group} * planned.capacity),
        masks_(planned.masks + std::int64_t{group} * planned.capacity),
        num_pages_(planned.num_pages + group),
        first_row_(group * group_rows),
        warp_(static_cast<int>(threadIdx.x) / warp_threads),
        lane_(static_cast<int>(threadIdx.x) % warp_threads) {}

  __device__ void run() {
    read_rows();
    __syncthreads();
    row_             = static_cast<int>(threadIdx.x / row_threads);
    is_mapped_       = smem_.facts.num_pages <= map_pages;
    int const window = is_mapped_ ? map_pages : Shape::window_pages;
    int totals       = 0;
    int num_lists    = 0;
    for (int sweep = 0; sweep < 2; ++sweep) {
      for (std::int64_t begin = 0; begin < smem_.facts.num_pages; begin += window) {
        bool const is_whole = sweep == 1 && num_lists == 1 && smem_.facts.num_pages <= window;
        if (!is_whole) {
          open_window(begin, window);
        }
        for (int first = 0; first < num_in_window_; first += list_pages) {
          if (!is_whole) {
            if (!is_mapped_) {
              list_window(first);
            }
            count_pages();
          }
          if (sweep == 0) {
            ++num_lists;
            totals += list_count_;
          } else {
            place_pages();
          }
          if (is_mapped_) {
            break;
          }
        }
      }
      if (sweep == 0) {
        assign_places(totals);
      }
    }
  }

 private:
  __device__ void read_rows() {
    if (warp_ != 0) {
      return;
    }
    std::int32_t request = -1;
    std::int32_t end     = 0;
    int const r          = lane_;
    if (r < group_rows && first_row_ + r < params_.rows.num_rows) {
      std::int32_t const row = first_row_ + r;
      request                = params_.rows.row_request[row];
      if (is_request(request, params_.blocks.num_requests)) {
        end = visible_end(params_.rows.row_position[row], params_.rows.sequence_length[request]);
        end = end < params_.table_tokens ? end : params_.table_tokens;
      } else {
        request = -1;
      }
      smem_.facts.num_entries[r] = end > 0 ? num_row_entries(params_.table, row) : 0;
    }
    std::int32_t const pages = (end + page_tokens - 1) / page_tokens;
    int leader               = r;
    std::int32_t extent      = 0;
#pragma unroll
    for (int other = group_rows - 1; other >= 0; --other) {
      std::int32_t const other_request = __shfl_sync(all_lanes, request, other);
      std::int32_t const other_pages   = __shfl_sync(all_lanes, pages, other);
      if (other_request == request) {
        leader = other < leader ? other : leader;
        extent = other_pages > extent ? other_pages : extent;
      }
    }
    extent                 = leader == r && r < group_rows && request >= 0 ? extent : 0;
    std::int64_t base      = 0;
    std::int64_t num_pages = 0;
#pragma unroll
    for (int other = 0; other < group_rows; ++other) {
      std::int32_t const other_extent = __shfl_sync(all_lanes, extent, other);
      base += other < leader ? other_extent : 0;
      num_pages += other_extent;
    }
    unsigned const leaders = __ballot_sync(all_lanes, extent > 0);
    if (r < group_rows) {
      smem_.facts.first_page[r] = base;
      smem_.facts.end[r]        = end;
      if (extent > 0) {
        int const index                 = __popc(leaders & ((1u << r) - 1u));
        smem_.facts.request_page[index] = base;
        smem_.facts.request[index]      = request;
      }
    }
    if (r == 0) {
      smem_.facts.num_pages    = num_pages;
      smem_.facts.num_requests = __popc(leaders);
    }
  }

  __device__ void open_window(std::int64_t begin, int pages) {
    window_begin_           = begin;
    std::int64_t const left = smem_.facts.num_pages - begin;
    int const num_pages     = left < pages ? static_cast<int>(left) : pages;
    // Token range
    {
      std::int64_t const base      = smem_.facts.first_page[row_];
      std::int32_t const end       = smem_.facts.end[row_];
      std::int64_t const row_pages = (end + page_tokens - 1) / page_tokens;
      std::int64_t first = begin - base, last = begin + num_pages - base;
      first  = first > 0 ? first : 0;
      last   = last < row_pages ? last : row_pages;
      shown_ = row_window{};
      if (first < last) {
        std::int64_t const last_token = last * page_tokens < end ? last * page_tokens : end;
        shown_.first_token            = static_cast<std::int32_t>(first * page_tokens);
        shown_.num_tokens = static_cast<std::uint32_t>(last_token - first * page_tokens);
        shown_.first_slot = static_cast<std::int32_t>(base + first - begin);
      }
    }
    __syncthreads();
    if (is_mapped_) {
      set_zero(smem_.window.masks, num_pages * mask_words);
      __syncthreads();
      auto const add = [this](std::int32_t slot, std::uint32_t bits) {
        add_bits(smem_.window.masks, slot, bits);
      };
      visit_row(add);
      num_in_window_ = num_pages;
      list_size_     = num_pages;
      __syncthreads();
    } else {
      int const words = (num_pages + word_bits - 1) / word_bits;
      set_zero(smem_.window.ranked.present, words);
      __syncthreads();
      mark_window();
      __syncthreads();
      rank_window(words);
    }
  }

  __device__ void set_zero(std::uint32_t* words, int count) {
    for (int i = static_cast<int>(threadIdx.x); i < count; i += threads) {
      words[i] = 0;
    }
  }

  __device__ void add_bits(std::uint32_t* masks, std::int32_t slot, std::uint32_t bits) {
    int const first_bit       = row_ * page_tokens;
    std::uint32_t* const word = masks + slot * mask_words + first_bit / word_bits;
    atomicOr(word, bits << first_bit % word_bits);
  }

  __device__ mask_type mask_of(std::uint32_t const* masks, int slot) {
    mask_type mask = masks[slot * mask_words];
    if constexpr (mask_words == 2) {
      mask |= mask_type{masks[slot * mask_words + 1]} << word_bits;
    }
    return mask;
  }

  template <class Use>
  __device__ void visit_quads(Use const& use) {
    constexpr std::uint32_t batch = 4;
    constexpr std::uint32_t step  = row_threads * entry_quad::size;
    if (shown_.num_tokens == 0) return;
    std::int32_t const* const entries = row_entries(params_.table, first_row_ + row_);
    std::uint32_t const count         = static_cast<std::uint32_t>(smem_.facts.num_entries[row_]);
    for (std::uint32_t first = threadIdx.x % row_threads * entry_quad::size; first < count;
         first += batch * step) {
      entry_quad quads[batch];
#pragma unroll
      for (std::uint32_t i = 0; i < batch; ++i) {
        quads[i] = load_quad(entries, first + i * step, count);
      }
#pragma unroll
      for (std::uint32_t i = 0; i < batch; ++i) {
        use(first + i * step, quads[i]);
      }
    }
  }

  template <class Visit>
  __device__ void visit_row(Visit const& visit) {
    visit_quads([&](std::uint32_t, entry_quad const& quad) {
      visit_runs<page_tokens>(params_.table, quad, shown_, visit);
    });
    if (threadIdx.x % row_threads == 0) {
      visit_implied<page_tokens>(params_.table, shown_, visit);
    }
  }

  static constexpr std::uint32_t kept_many = 0xffffffffu;

  __device__ std::uint32_t kept_index(std::uint32_t first) const {
    if constexpr (keeps) {
      std::uint32_t const per_row = (static_cast<std::uint32_t>(params_.table.width) + 3) / 4;
      return row_ * per_row + first / 4;
    } else {
      return first;
    }
  }

  __device__ void mark_window() {
    std::uint32_t* const present = smem_.window.ranked.present;
    auto const mark              = [present](std::int32_t slot) {
      atomicOr(present + slot / word_bits, 1u << slot % word_bits);
    };
    if constexpr (keeps) {
      visit_quads([&](std::uint32_t first, entry_quad const& quad) {
        std::uint32_t kept = 0;
        visit_runs<page_tokens>(
            params_.table, quad, shown_, [&](std::int32_t slot, std::uint32_t bits) {
              mark(slot);
              kept =
                  kept == 0 ? (static_cast<std::uint32_t>(slot) << page_tokens | bits) : kept_many;
            });
        std::uint32_t const index = kept_index(first);
        if (index < kept_quads &&
            first < static_cast<std::uint32_t>(smem_.facts.num_entries[row_])) {
          smem_.window.ranked.kept[index] = kept;
        }
      });
    } else {
      visit_row([&](std::int32_t slot, std::uint32_t) { mark(slot); });
    }
  }

  __device__ void rank_window(int words) {
    int const per_thread = (words + threads - 1) / threads;
    int const begin      = static_cast<int>(threadIdx.x) * per_thread;
    int count            = 0;
    for (int i = begin; i < begin + per_thread && i < words; ++i) {
      count += __popc(smem_.window.ranked.present[i]);
    }
    int rank = 0;
    scan(smem_.scan_storage).ExclusiveSum(count, rank, num_in_window_);
    for (int i = begin; i < begin + per_thread && i < words; ++i) {
      smem_.window.ranked.rank[i] = static_cast<std::uint16_t>(rank);
      rank += __popc(smem_.window.ranked.present[i]);
    }
    window_words_ = words;
  }

  __device__ void list_window(int first_rank) {
    ranked_window& w = smem_.window.ranked;
    int const left   = num_in_window_ - first_rank;
    list_size_       = left < list_pages ? left : list_pages;
    __syncthreads();
    set_zero(w.masks, list_size_ * mask_words);
    int const per_thread = (window_words_ + threads - 1) / threads;
    int const begin      = static_cast<int>(threadIdx.x) * per_thread;
    for (int i = begin; i < begin + per_thread && i < window_words_; ++i) {
      int index = w.rank[i] - first_rank;
      for (std::uint32_t bits = w.present[i]; bits != 0; bits &= bits - 1) {
        if (index >= 0 && index < list_size_) {
          w.page[index] =
              static_cast<std::uint16_t>(i * word_bits + __ffs(static_cast<int>(bits)) - 1);
        }
        ++index;
      }
    }
    __syncthreads();
    auto const add = [&](std::int32_t slot, std::uint32_t bits) {
      std::uint32_t const word = w.present[slot / word_bits];
      int const before         = __popc(word & ((1u << slot % word_bits) - 1u));
      int const index          = w.rank[slot / word_bits] + before - first_rank;
      if (index >= 0 && index < list_size_) {
        add_bits(w.masks, index, bits);
      }
    };
    if constexpr (keeps) {
      std::uint32_t const count         = static_cast<std::uint32_t>(smem_.facts.num_entries[row_]);
      std::int32_t const* const entries = row_entries(params_.table, first_row_ + row_);
      if (shown_.num_tokens > 0) {
#pragma unroll 4
        for (std::uint32_t first = threadIdx.x % row_threads * entry_quad::size; first < count;
             first += row_threads * entry_quad::size) {
          std::uint32_t const index = kept_index(first);
          std::uint32_t const kept  = index < kept_quads ? w.kept[index] : kept_many;
          if (kept == kept_many) {
            visit_runs<page_tokens>(params_.table, load_quad(entries, first, count), shown_, add);
          } else if (kept != 0) {
            add(static_cast<std::int32_t>(kept >> page_tokens), kept & ((1u << page_tokens) - 1u));
          }
        }
      }
    } else {
      visit_row(add);
    }
    __syncthreads();
  }

  struct located_page {
    page_address address;
    bool is_mapped;
  };

  __device__ std::uint32_t* list_masks() {
    return is_mapped_ ? smem_.window.masks : smem_.window.ranked.masks;
  }

  __device__ located_page locate(int index) const {
    int const slot        = is_mapped_ ? index : smem_.window.ranked.page[index];
    std::int64_t const at = window_begin_ + slot;
    int request           = 0;
    while (request + 1 < smem_.facts.num_requests && at >= smem_.facts.request_page[request + 1]) {
      ++request;
    }
    auto const page      = static_cast<std::uint32_t>(at - smem_.facts.request_page[request]);
    auto const per_block = static_cast<std::uint32_t>(params_.pages_per_block);
    std::uint32_t const logical_block = page / per_block;
    std::int32_t const block =
        params_.blocks
            .table[smem_.facts.request[request] * params_.blocks.row_stride + logical_block];
    located_page found;
    found.address.block = block;
    found.address.first_token =
        static_cast<std::int32_t>((page - logical_block * per_block) * page_tokens);
    found.is_mapped = is_mapped(block, params_.num_blocks);
    return found;
  }

  // Bits of the rows that reach a band.
  static __host__ __device__ constexpr mask_type band_mask(int band) {
    mask_type mask = 0;
    for (int row = 0; row < group_rows; ++row) {
      mask_type const bits = ((mask_type{1} << page_tokens) - 1) << (row * page_tokens);
      if (category_of<Geometry>(bits) >> band & 1) {
        mask |= bits;
      }
    }
    return mask;
  }

  struct band_votes {
    unsigned lanes[num_bands];
    __device__ unsigned of(int category) const {
      unsigned same = all_lanes;
#pragma unroll
      for (int band = 0; band < num_bands; ++band) {
        same &= (category >> band & 1) != 0 ? lanes[band] : ~lanes[band];
      }
      return same;
    }
  };

  template <int Band = 0>
  __device__ void vote(mask_type mask, band_votes& votes, int& category) const {
    constexpr mask_type bits = band_mask(Band);
    bool const reaches       = (mask & bits) != 0;
    votes.lanes[Band]        = __ballot_sync(all_lanes, reaches);
    category |= reaches ? 1 << Band : 0;
    if constexpr (Band + 1 < num_bands) {
      vote<Band + 1>(mask, votes, category);
    }
  }

  __device__ void warp_range(int& begin, int& end) const {
    int const steps = (list_size_ + threads - 1) / threads;
    begin           = warp_ * steps * warp_threads;
    end             = begin + steps * warp_threads;
    end             = end < list_size_ ? end : list_size_;
  }

  static constexpr int batch_steps = 4;

  __device__ void count_pages() {
    int begin, end;
    warp_range(begin, end);
    std::uint32_t* const masks = list_masks();
    int count                  = 0;
    for (int first = begin; first < end; first += batch_steps * warp_threads) {
      mask_type mask[batch_steps];
      bool mapped[batch_steps];
#pragma unroll
      for (int i = 0; i < batch_steps; ++i) {
        int const index = first + i * warp_threads + lane_;
        mask[i]         = index < end ? mask_of(masks, index) : 0;
        mapped[i]       = true;
        if (mask[i] != 0) {
          mapped[i] = locate(index).is_mapped;
        }
      }
#pragma unroll
      for (int i = 0; i < batch_steps; ++i) {
        if (!mapped[i]) {
          int const index = first + i * warp_threads + lane_;
          mask[i]         = 0;
#pragma unroll
          for (int word = 0; word < mask_words; ++word) {
            masks[index * mask_words + word] = 0;
          }
        }
        int category = 0;
        band_votes votes;
        vote(mask[i], votes, category);
        count += __popc(votes.of(lane_));
      }
    }
    if (lane_ >= 1 && lane_ <= num_categories) {
      smem_.warp_counts[warp_][lane_] = count;
    }
    __syncthreads();
    list_count_ = 0;
    before_     = 0;
    if (lane_ >= 1 && lane_ <= num_categories) {
#pragma unroll
      for (int warp = 0; warp < warps; ++warp) {
        int const other = smem_.warp_counts[warp][lane_];
        before_ += warp < warp_ ? other : 0;
        list_count_ += other;
      }
    }
  }

  __device__ void assign_places(int totals) {
    int first = 0, begin = 0;
#pragma unroll
    for (int category = num_categories; category >= 1; --category) {
      int const total = __shfl_sync(all_lanes, totals, category);
      int const room  = params_.page_limit - first;
      int const kept  = total < room ? total : (room > 0 ? room : 0);
      if (lane_ == category) {
        next_ = begin;
        end_  = begin + kept;
      }
      first += total;
      begin += (kept + Geometry::tile_pages - 1) / Geometry::tile_pages * Geometry::tile_pages;
    }
    if (threadIdx.x == 0) {
      *num_pages_ = begin;
      if (first > params_.page_limit && params_.over_capacity != nullptr) {
        atomicAdd(params_.over_capacity,
                  static_cast<unsigned long long>(first - params_.page_limit));
      }
    }
  }

  __device__ void place_pages() {
    int begin, end;
    warp_range(begin, end);
    std::uint32_t const* const masks = list_masks();
    int next                         = next_ + before_;
    for (int first = begin; first < end; first += batch_steps * warp_threads) {
      mask_type mask[batch_steps];
      page_address address[batch_steps];
#pragma unroll
      for (int i = 0; i < batch_steps; ++i) {
        int const index = first + i * warp_threads + lane_;
        mask[i]         = index < end ? mask_of(masks, index) : 0;
        if (mask[i] != 0) {
          address[i] = locate(index).address;
        }
      }
#pragma unroll
      for (int i = 0; i < batch_steps; ++i) {
        int category = 0;
        band_votes votes;
        vote(mask[i], votes, category);
        int const place = __shfl_sync(all_lanes, next, category) +
                          __popc(votes.of(category) & ((1u << lane_) - 1u));
        int const places_end = __shfl_sync(all_lanes, end_, category);
        next += __popc(votes.of(lane_));
        if (mask[i] != 0 && place < places_end) {
          masks_[place]     = mask[i];
          addresses_[place] = address[i];
          if (place == places_end - 1) {
            for (int pad = place + 1; pad % Geometry::tile_pages != 0; ++pad) {
              masks_[pad]     = 0;
              addresses_[pad] = address[i];
            }
          }
        }
      }
    }
    next_ += list_count_;
  }

  planner_params<Table> const& params_;
  shared_storage& smem_;
  page_address* addresses_;
  mask_type* masks_;
  std::int32_t* num_pages_;
  std::int32_t first_row_;
  int warp_;
  int lane_;

  int row_        = 0;
  bool is_mapped_ = false;
  row_window shown_;
  std::int64_t window_begin_ = 0;
  int num_in_window_         = 0;
  int window_words_          = 0;
  int list_size_             = 0;
  int list_count_            = 0;
  int before_                = 0;
  int next_                  = 0;
  int end_                   = 0;
};

template <class Geometry, class Table>
struct planner_kernel_params {
  planner_params<Table> planner;
  plan<Geometry> planned;
};

template <class Geometry, class Table, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::ctas_per_sm)
    planner_kernel(planner_kernel_params<Geometry, Table> const params) {
  using planner = group_planner<Geometry, Table, Shape>;
  planner(params.planner, params.planned, static_cast<std::int32_t>(blockIdx.x),
          dynamic_smem<typename planner::shared_storage>())
      .run();
}

template <class Geometry, class Shape, class Table>
[[nodiscard]] status launch_planner(batch const& rows, Table const& table, std::int64_t max_pages,
                                    kv_cache const& cache, plan<Geometry> const& planned,
                                    plan_report* report, cudaStream_t stream) noexcept {
  planner_kernel_params<Geometry, Table> params;
  params.planner.rows            = rows;
  params.planner.table           = table;
  params.planner.blocks          = cache.blocks;
  params.planner.num_blocks      = cache.num_blocks;
  params.planner.pages_per_block = cache.block_tokens / Geometry::page_tokens;
  params.planner.table_tokens    = cache.blocks.width * cache.block_tokens;
  params.planner.page_limit      = static_cast<std::int32_t>(max_pages * Geometry::group_rows);
  params.planner.over_capacity   = report != nullptr ? &report->over_capacity : nullptr;
  params.planned                 = planned;
  using planner                  = group_planner<Geometry, Table, Shape>;
  status const launched          = launch(&planner_kernel<Geometry, Table, Shape>,
                                          static_cast<std::uint32_t>(planned.num_groups), 1, Shape::threads,
                                          sizeof(typename planner::shared_storage), stream, params);
  if (launched != status::ok || report == nullptr) return launched;
  using tallier = group_tallier<Geometry, Table>;
  return launch(
      &tally_kernel<Geometry, Table>, static_cast<std::uint32_t>(planned.num_groups), 1,
      tallier::threads, sizeof(typename tallier::shared_storage), stream,
      tally_params<Geometry, Table>{
          {rows, table, cache.blocks, cache.num_blocks, cache.block_tokens}, planned, report});
}

template <class Geometry, class Shape = planner_shape>
[[nodiscard]] status enqueue_plan(batch const& rows, selection const& selected,
                                  kv_cache const& cache, plan<Geometry> const& planned,
                                  plan_report* report, cudaStream_t stream) noexcept {
  std::int64_t const max_pages =
      max_pages_per_row(selected, Geometry::page_tokens, cache.block_tokens, cache.blocks.width);
  if (planned.num_groups == 0) return status::ok;
  if (selected.kind == selection_kind::tokens) {
    return launch_planner<Geometry, Shape>(rows, selected.tokens, max_pages, cache, planned, report,
                                           stream);
  }
  return launch_planner<Geometry, Shape>(rows, selected.pages, max_pages, cache, planned, report,
                                         stream);
}
}  // namespace detail
//! Plans the pages of every group of rows.
template <class Geometry>
[[nodiscard]] status make_plan(batch const& rows, selection const& selected, kv_cache const& cache,
                               plan<Geometry> const& planned, plan_report* report,
                               cudaStream_t stream) noexcept {
  status const checks[] = {detail::check_batch(rows, cache.blocks.num_requests),
                           detail::check_selection(selected, rows.num_rows),
                           cache.num_blocks < 0 ? status::invalid_num_blocks : status::ok,
                           cache.block_tokens < 1 || cache.block_tokens % Geometry::page_tokens != 0
                               ? status::invalid_block_tokens
                               : status::ok};
  for (status const checked : checks) {
    if (checked != status::ok) {
      return checked;
    }
  }
  status checked = detail::check_block_table(cache.blocks, cache.block_tokens, rows.num_rows);
  if (checked == status::ok) {
    checked = detail::check_plan_size<Geometry>(rows.num_rows, selected, cache);
  }
  if (checked == status::ok) {
    checked = detail::check_plan(planned, rows.num_rows);
  }
  if (checked == status::ok) {
    checked = detail::check_report(report);
  }
  return checked == status::ok
             ? detail::enqueue_plan<Geometry>(rows, selected, cache, planned, report, stream)
             : checked;
}

}  // namespace pageunion
