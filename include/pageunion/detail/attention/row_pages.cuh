// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The pages of a partition of a row, in shared memory. Knows the row, no plan.
#pragma once

#include <pageunion/detail/attention/cta_rows.cuh>
#include <pageunion/detail/attention/page_loader.cuh>
#include <pageunion/detail/selection/row_lister.cuh>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! A partition's share of a row with `num_pages` pages: as few partitions as can hold them take equal
//! shares, but for the rounding to whole steps. It follows from the row's own pages alone, not from the
//! shapes of the call. Empty for the partitions that are not needed.
template <class Shape>
__host__ __device__ constexpr rank_range share_of(int num_pages, int partition) {
  constexpr int most   = Shape::tuning::partition_tokens / Shape::page_tokens;
  int const num_shares = (num_pages + most - 1) / most;
  if (partition >= num_shares) {
    return {};
  }
  int const equal = (num_pages + num_shares - 1) / num_shares;
  int const share = (equal + Shape::step_pages - 1) / Shape::step_pages * Shape::step_pages;
  int const begin = partition * share < num_pages ? partition * share : num_pages;
  return {begin, num_pages - begin < share ? num_pages : begin + share};
}

//! The pages of one partition: CTA (x, y) has partition x % num_partitions of row x / num_partitions, and
//! KV head y. Their number stays in shared memory too: in the attention's loop every register counts.
//! @tparam Shape attention_shape of a row_tuning
template <class Shape>
class row_pages {
  using lister                          = row_lister<Shape::page_tokens, Shape::threads>;
  static constexpr int partition_tokens = Shape::tuning::partition_tokens;
  static constexpr auto partition_pages = partition_tokens / Shape::page_tokens;
  static_assert(partition_tokens > 0 && partition_tokens % Shape::step_tokens == 0,
                "partition_tokens must be a positive multiple of the tokens of a row's step, "
                "16 * warps * warp_tiles");

 public:
  struct params {
    selected_entries from;
    std::int32_t page_limit = 0;  //!< pages that a row may have; more are dropped, the last first
    std::uint32_t num_partitions = 0;
  };
  struct list_storage {
    page_entry<Shape> entries[partition_pages];
    int num_pages;
  };
  using scratch_storage = typename lister::shared_storage;

  //! Lists the pages; a barrier follows the last access to the scratch.
  __device__ row_pages(params const& from, list_storage& smem, scratch_storage& scratch)
      : smem_(smem),
        row_(static_cast<std::int32_t>(blockIdx.x / from.num_partitions)),
        partition_(static_cast<std::int32_t>(blockIdx.x % from.num_partitions)) {
    lister row(from.from, row_, scratch);
    rank_range share;
    int const most = row.most_pages();
    if (partition_ * partition_pages < (most < from.page_limit ? most : from.page_limit)) {
      int const num_pages = row.count();
      share =
          share_of<Shape>(num_pages < from.page_limit ? num_pages : from.page_limit, partition_);
    }
    row.list(share, [&smem](int index, std::int32_t page, std::uint32_t bits) {
      smem.entries[index].block = page;  // its number, for now
      smem.entries[index].mask  = bits;
    });
    int const size = share.end - share.begin;
    is_idle_       = size == 0 && from.num_partitions > 1;
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < size; i += Shape::threads) {
      page_entry<Shape>& entry = smem.entries[i];
      std::int32_t const page  = entry.block;
      entry.block              = row.block_of(page);
      entry.first_token        = page * Shape::page_tokens % from.from.block_tokens;
    }
    if (threadIdx.x == 0) {
      smem.num_pages = size;
    }
    __syncthreads();
  }

  __device__ cta_rows<Shape> rows() const {
    return {row_, 1, static_cast<std::int32_t>(blockIdx.y)};
  }
  __device__ std::int32_t partition() const { return partition_; }
  //! True if none of the row's pages falls to this one of several partitions.
  __device__ bool is_idle() const { return is_idle_; }

  __device__ int num_pages() const { return smem_.num_pages; }
  __device__ page_entry<Shape> load(int index) const { return smem_.entries[index]; }

 private:
  list_storage const& smem_;
  std::int32_t const row_;
  std::int32_t const partition_;
  bool is_idle_;
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
