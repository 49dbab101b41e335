// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Writes the plan of one group: finds where its pages lie and puts them in order of category.
//! Knows masks and addresses; not how the masks were found.
#pragma once

#include <pageunion/detail/host/launch.cuh>
#include <pageunion/detail/planner/page_divider.hpp>
#include <pageunion/detail/planner/page_union.cuh>
#include <pageunion/plan.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Sizes of a planning CTA, one warp per row; chosen by bench/planner_designs.md, on an H200, 2026-11-30.
template <class Shape>
struct planner_sizes {
  //! Bytes of windows and lists. With 31 KiB, three CTAs of eight rows share a V100's SM.
  static constexpr int storage_bytes = Shape::group_rows > 8 ? 63488 : 31744;
  static constexpr int window_pages  = 65536;  //!< pages of a ranking: 262,144 tokens of QSA
  static constexpr int kept_quads    = 16;     //!< of a lane: 2,048 tokens of a row
  static constexpr int batch_quads   = 4;      //!< 16-byte loads of a lane in flight
  static constexpr int batch_pages   = 4;      //!< block table loads of a lane in flight
  static constexpr bool can_map      = true;   //!< false: windows are rankings
  static constexpr int ctas_per_sm   = Shape::group_rows > 8 ? 2 : 4;  //!< bounds registers: 64
};

//! What the planner's kernel needs.
template <class Shape>
struct planner_params {
  selected_entries from;
  page_divider pages_per_block;  //!< pages of a cache block
  std::int32_t page_limit = 0;   //!< pages of a group at most
  plan<Shape> planned;
  unsigned long long* over_capacity = nullptr;  //!< counts pages past the limit; may be null
};

//! The same sizes with fewer registers, for groups that are planned in parts.
template <class Sizes>
struct frugal_sizes : Sizes {
  static constexpr bool can_map    = false;  //!< a map is planned at once
  static constexpr int batch_quads = 1;
  static constexpr int batch_pages = 1;
};

//! Shared memory of a planning CTA.
template <class Shape, unsigned StorageBytes>
struct planner_storage {
  window_storage<Shape, StorageBytes> open_window;
  group_facts<Shape> facts;
  std::int32_t warp_counts[Shape::group_rows][Shape::num_categories + 1];
};

//! One CTA's work for one group, after read_group_facts():
//!
//!   per list of pages: count its categories | assign places | per list: place its pages
//!
//! A bar is one CTA barrier or more. If shared memory holds all pages at once, as it usually does, they
//! are listed once; else every list is made twice, since a page's place depends on the counts of all
//! lists. Lane c of every warp counts category c.
template <class Shape, class Sizes>
class group_planner {
  using window                         = page_union<Shape, Sizes>;
  using mask_type                      = typename Shape::mask_type;
  static constexpr auto num_bands      = Shape::num_bands;
  static constexpr int num_categories  = Shape::num_categories;
  static constexpr int tile_pages      = Shape::tile_pages;
  static constexpr int warps           = window::warps;
  static constexpr int lanes           = window::lanes;
  static constexpr auto batch          = Sizes::batch_pages;
  static constexpr unsigned every_lane = 0xffffffffu;
  static_assert(num_categories < 8, "places are summed over eight lanes, one per category");

 public:
  static constexpr int threads = window::threads;

  using shared_storage = planner_storage<Shape, Sizes::storage_bytes>;

  __device__ group_planner(planner_params<Shape> const& params, std::int32_t group,
                           shared_storage& smem)
      : params_(params),
        smem_(smem),
        group_(group),
        warp_(static_cast<int>(threadIdx.x) / lanes),
        lane_(static_cast<int>(threadIdx.x) % lanes),
        window_(params.from.selected, group * Shape::group_rows, smem.facts, smem.open_window) {}

  //! Plans a group whose pages shared memory can list at once; if it cannot: false, and nothing written.
  __device__ bool plan_at_once() {
    if (smem_.facts.num_pages > window_.width()) {
      return false;
    }
    int const num_chosen = window_.open(0);
    if (num_chosen > window_.list_pages()) {
      return false;
    }
    make_list(0, num_chosen);
    assign_places(count_of_warps(warps));
    place_list();
    return true;
  }

  //! Plans a group of any size: every list is made once to be counted and once more to be placed. One
  //! loop and not three, one inside another: the compiler keeps ten registers less alive.
  __device__ void plan_in_parts() {
    bool const has_one_window = smem_.facts.num_pages <= window_.width();
    bool is_counting          = true;
    int totals                = 0;  // lane c: pages of category c in all lists
    int next_window           = 0;
    int first                 = 0;  // rank of the next list's first page
    int num_chosen            = 0;  // pages chosen in the open window
#pragma unroll 1
    while (true) {
      if (first < num_chosen) {
        make_list(first, num_chosen);
        first += window_.list_pages();
        if (is_counting) {
          totals += count_of_warps(warps);
        } else {
          place_list();
        }
        continue;
      }
      std::int64_t begin = std::int64_t{next_window} * window_.width();
      if (begin >= smem_.facts.num_pages) {
        if (!is_counting) {
          return;
        }
        is_counting = false;
        next_window = 0;
        begin       = 0;
        assign_places(totals);
      }
      if (is_counting || !has_one_window) {
        num_chosen = window_.open(begin);
      }
      first = 0;
      ++next_window;
    }
  }

 private:
  //! Bits of the rows whose m-rows reach a band.
  static __host__ __device__ constexpr mask_type band_mask(int band) {
    mask_type mask = 0;
    for (int row = 0; row < Shape::group_rows; ++row) {
      mask_type const bits = mask_type{whole_page<Shape::page_tokens>}
                             << (row * Shape::page_tokens);
      mask |= (category_of<Shape>(bits) >> band & 1) != 0 ? bits : mask_type{0};
    }
    return mask;
  }

  //! Which lanes' pages reach each band.
  struct band_votes {
    unsigned lanes[num_bands];
    //! Lanes whose pages are of a category.
    __device__ unsigned of(int category) const {
      unsigned same = every_lane;
#pragma unroll
      for (int band = 0; band < num_bands; ++band) {
        same &= lanes[band] ^ ((category >> band & 1) != 0 ? 0u : every_lane);
      }
      return same;
    }
  };

  //! Votes over a warp, one page per lane: whose pages reach each band, and this lane's category.
  template <int Band = 0>
  static __device__ void vote(mask_type mask, band_votes& votes, int& category) {
    constexpr mask_type bits = band_mask(Band);
    bool const reaches       = (mask & bits) != 0;
    votes.lanes[Band]        = __ballot_sync(every_lane, reaches);
    category |= reaches ? 1 << Band : 0;
    if constexpr (Band + 1 < num_bands) {
      vote<Band + 1>(mask, votes, category);
    }
  }

  //! A page's entry of the block table and its place in the block.
  struct location {
    std::int32_t const* block;
    std::int32_t first_token;
  };
  __device__ location locate(int position) const {
    int const request         = window_.request_of(position);
    std::uint32_t const page  = window_.page_of(position, request);
    page_divider const& pages = params_.pages_per_block;
    std::uint32_t const block = pages.divide(page);
    return {params_.from.blocks.table + smem_.facts.request_blocks[request] + block,
            static_cast<std::int32_t>((page - block * pages.divisor) * Shape::page_tokens)};
  }

  //! Reads the physical cache blocks of this lane's pages of a batch, indices first to end - 1.
  __device__ void load_blocks(int first, int end) {
#pragma unroll
    for (int i = 0; i < batch; ++i) {
      int const index = first + i * lanes + lane_;
      blocks_[i]      = index < end ? *locate(window_.position(index)).block : -1;
    }
  }

  //! Mask of a page of the batch; 0 for pages that are not mapped and past the end.
  __device__ mask_type mapped_mask(int i, int index, int position) const {
    return is_mapped(blocks_[i], params_.from.num_blocks) ? window_.mask(index, position)
                                                          : mask_type{0};
  }

  //! Lists the pages of ranks [first, num_chosen), as many as a list can have, and counts them.
  __device__ void make_list(int first, int num_chosen) {
    int const left  = num_chosen - first;
    int const pages = left < window_.list_pages() ? left : window_.list_pages();
    if (!window_.is_map()) {
      window_.list(first, pages);
    }
    int const steps = (pages + warps * lanes - 1) / (warps * lanes);
    int const begin = warp_ * steps * lanes;
    share_begin_    = begin < pages ? begin : pages;
    share_end_      = begin + steps * lanes < pages ? begin + steps * lanes : pages;
    count_list();
  }

  //! Calls use(i, position, mask, category, votes) for this lane's pages, in order; blocks_[i] is the page's.
  //! @param has_blocks true if the share is one batch whose blocks have been read
  template <class Use>
  __device__ void visit_share(bool has_blocks, Use const& use) {
#pragma unroll 1
    for (int first = share_begin_; first < share_end_; first += batch * lanes) {
      if (!has_blocks) {
        load_blocks(first, share_end_);
      }
#pragma unroll
      for (int i = 0; i < batch; ++i) {
        if (first + i * lanes < share_end_) {
          int const index      = first + i * lanes + lane_;
          int const position   = index < share_end_ ? window_.position(index) : 0;
          mask_type const mask = mapped_mask(i, index, position);
          int category         = 0;
          band_votes votes;
          vote(mask, votes, category);
          use(i, position, mask, category, votes);
        }
      }
    }
  }

  //! Counts the categories of this warp's share, of all warps' shares and of those before it. Has one
  //! barrier; a later window_.open() or list() separates it from the next use of the counts.
  __device__ void count_list() {
    int count = 0;
    visit_share(false, [&](int, int, mask_type, int, band_votes const& votes) {
      count += __popc(votes.of(lane_));
    });
    if (lane_ <= num_categories) {
      smem_.warp_counts[warp_][lane_] = count;
    }
    __syncthreads();
  }

  //! Pages of this lane's category in the shares of the first warps.
  __device__ int count_of_warps(int end) const {
    int count = 0;
    if (lane_ <= num_categories) {
#pragma unroll
      for (int warp = 0; warp < warps; ++warp) {
        count += warp < end ? smem_.warp_counts[warp][lane_] : 0;
      }
    }
    return count;
  }

  //! Sum of the values of the lanes above this one; lanes past the categories have 0.
  static __device__ int sum_above(int value) {
    int sum = value;
#pragma unroll
    for (int distance = 1; distance < 8; distance *= 2) {
      sum += __shfl_down_sync(every_lane, sum, distance);
    }
    return sum - value;
  }

  //! Gives each category its places in the plan: the highest, which reaches all bands, comes first.
  //! Pages past the limit are those of the last places.
  __device__ void assign_places(int totals) {
    totals               = lane_ == 0 || lane_ > num_categories ? 0 : totals;
    int const num_before = sum_above(totals);
    int const room       = params_.page_limit > num_before ? params_.page_limit - num_before : 0;
    int const num_kept   = totals < room ? totals : room;
    next_place_          = sum_above((num_kept + tile_pages - 1) / tile_pages * tile_pages);
    places_end_          = next_place_ + num_kept;
    if (threadIdx.x == 0) {
      params_.planned.num_pages[group_] = next_place_;
      if (num_before > params_.page_limit && params_.over_capacity != nullptr) {
        atomicAdd(params_.over_capacity,
                  static_cast<unsigned long long>(num_before - params_.page_limit));
      }
    }
  }

  //! Writes the pages of this warp's share to their places.
  __device__ void place_list() {
    bool const has_blocks = share_end_ - share_begin_ <= batch * lanes;  // still in registers
    int next              = next_place_ + count_of_warps(warp_);
    visit_share(has_blocks, [&](int i, int position, mask_type mask, int category,
                                band_votes const& votes) {
      int const place = __shfl_sync(every_lane, next, category) +
                        __popc(votes.of(category) & ((1u << lane_) - 1u));
      int const places_end = __shfl_sync(every_lane, places_end_, category);
      next += __popc(votes.of(lane_));
      if (mask != 0 && place < places_end) {
        write(place, mask, {blocks_[i], locate(position).first_token}, place == places_end - 1);
      }
    });
    next_place_ += count_of_warps(warps);
  }

  //! Writes a page, and after the last of its category the padding of the tile: no mask, and the
  //! address of a page that may be read.
  __device__ void write(int place, mask_type mask, page_address address, bool is_last) const {
    std::int64_t const first      = std::int64_t{group_} * params_.planned.capacity;
    page_address* const addresses = params_.planned.addresses + first;
    mask_type* const masks        = params_.planned.masks + first;
    addresses[place]              = address;
    masks[place]                  = mask;
    if (is_last) {
#pragma unroll 1
      for (int padding = place + 1; padding % tile_pages != 0; ++padding) {
        addresses[padding] = address;
        masks[padding]     = 0;
      }
    }
  }

  planner_params<Shape> const& params_;
  shared_storage& smem_;
  std::int32_t const group_;
  int const warp_;
  int const lane_;
  window window_;
  int share_begin_ = 0;  // this warp's pages of the list
  int share_end_   = 0;
  std::int32_t blocks_[batch];  // physical cache blocks of this lane's pages of a batch
  // Lane c, of category c:
  int next_place_ = 0;  // place of the list's first page
  int places_end_ = 0;  // behind the last place
};

//! Entry of the device code: one CTA per group.
template <class Shape, class Sizes>
__global__ void __launch_bounds__(group_planner<Shape, Sizes>::threads, Sizes::ctas_per_sm)
    planner_kernel(planner_params<Shape> const params) {
  using planner    = group_planner<Shape, Sizes>;
  auto& smem       = dynamic_smem<typename planner::shared_storage>();
  auto const group = static_cast<std::int32_t>(blockIdx.x);
  if (threadIdx.x < sm70_limits::warp_threads) {
    read_group_facts<Shape>(params.from, group * Shape::group_rows, smem.facts);
  }
  __syncthreads();
  if (!planner(params, group, smem).plan_at_once()) {
    group_planner<Shape, frugal_sizes<Sizes>>(params, group, smem).plan_in_parts();
  }
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
