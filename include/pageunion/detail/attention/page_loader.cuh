// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The pages of one step as a warp holds them: lane p has page p. Knows where their K and V
//! lie and which m-tiles need them; not what is done with them.
#pragma once

#include <pageunion/detail/attention/slice.cuh>
#include <pageunion/kv_cache.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! A page as a CTA meets it.
template <class Shape>
struct page_entry {
  std::int32_t block             = 0;  //!< physical cache block
  std::int32_t first_token       = 0;  //!< first token of the page in its cache block
  typename Shape::mask_type mask = 0;  //!< bit row * page_tokens + token; 0 for padding
};

//! Addresses of a lane's share of a slice.
template <unsigned LaneVectors>
struct lane_addresses {
  std::uint64_t of_vector[LaneVectors];
};

//! Issues a lane's loads, `offset` bytes further than the addresses say.
template <unsigned LaneVectors>
__device__ void load_slice(lane_share<LaneVectors>& share, lane_addresses<LaneVectors> const& from,
                           unsigned offset) {
#pragma unroll
  for (unsigned j = 0; j < LaneVectors; ++j) {
    share.vector[j] = __ldg(reinterpret_cast<uint4 const*>(from.of_vector[j] + offset));
  }
}

//! Where this warp's lanes read a step's pages in K or in V.
//! @tparam Slice what a warp loads at once
template <class Shape, class Slice>
class page_loader {
  static constexpr unsigned page_tokens       = Shape::page_tokens;
  static constexpr std::int64_t element_bytes = sizeof(typename Slice::codec::storage);

 public:
  __device__ page_loader(void const* data, kv_strides const& strides, std::int32_t kv_head,
                         int first_dim)
      : strides_(strides),
        // Not pointer arithmetic: a cache of no blocks may be null, and none of its pages is read.
        lane_data_(
            reinterpret_cast<std::uint64_t>(data) +
            static_cast<std::uint64_t>((kv_head * strides.head + first_dim + Slice::lane_dim() +
                                        Slice::lane_token() % page_tokens * strides.token) *
                                       element_bytes)) {
    hide_origin(lane_data_);
  }

  //! Takes the lane's page of the next step.
  __device__ void begin_step(page_entry<Shape> const& entry) {
    page_bytes_ = kv_offset(strides_, entry.block, entry.first_token, 0) * element_bytes;
  }

  //! Where the lane's loads of a slice start, whose tokens begin at the step's page `first_page`.
  __device__ void find(lane_addresses<Slice::lane_vectors>& addresses, unsigned first_page) const {
#pragma unroll
    for (unsigned j = 0; j < Slice::lane_vectors; ++j) {
      // Whichever of page_tokens and load_tokens is larger is a multiple of the other.
      unsigned const page_of_slice =
          j * Slice::load_tokens / page_tokens + Slice::lane_token() / page_tokens;
      std::int64_t const token_of_page = j * Slice::load_tokens % page_tokens;
      addresses.of_vector[j] =
          lane_data_ + static_cast<std::uint64_t>(
                           __shfl_sync(every_lane, page_bytes_, first_page + page_of_slice) +
                           token_of_page * strides_.token * element_bytes);
    }
  }

 private:
  kv_strides const& strides_;
  std::uint64_t lane_data_;      // what differs between lanes is in the base
  std::int64_t page_bytes_ = 0;  // of the lane's page
};

//! Masks of a step's pages and which products they call for.
template <class Shape>
class page_masks {
  using mask_type = typename Shape::mask_type;

 public:
  //! Takes the lane's page of the next step.
  __device__ void begin_step(mask_type mask) {
    mask_ = mask;
    chosen_ |= mask;
    active_ = 0;
#pragma unroll
    for (int t = 0; t < Shape::m_tiles; ++t) {
      active_ |= (mask & tile_rows(t)) != 0 ? 1u << t : 0u;
    }
#pragma unroll
    for (int distance = 1; distance < Shape::tile_pages; distance *= 2) {
      active_ |= __shfl_xor_sync(every_lane, active_, distance);
    }
  }

  //! Mask of page `page` of the step; all lanes must call it.
  __device__ mask_type mask_of(int page) const { return __shfl_sync(every_lane, mask_, page); }

  //! The m-tiles with a row that attends to a token of tile `tile`, one bit each; all lanes must call it.
  __device__ unsigned active_m_tiles(int tile) const {
    return __shfl_sync(every_lane, active_, tile * Shape::tile_pages);
  }

  //! Masks of all steps so far, OR-ed: which rows have a token. The same in all lanes of the warp.
  __device__ mask_type all_masks() const {
    mask_type chosen = chosen_;
#pragma unroll
    for (int distance = warp_threads / 2; distance > 0; distance /= 2) {
      chosen |= __shfl_xor_sync(every_lane, chosen, distance);
    }
    return chosen;
  }

 private:
  //! Mask bits of the rows that reach m-tile t.
  static __device__ constexpr mask_type tile_rows(int t) {
    mask_type bits = 0;
    for (int row = 0; row < Shape::group_rows; ++row) {
      if (row * Shape::heads_per_kv < (t + 1) * mma_dim &&
          (row + 1) * Shape::heads_per_kv > t * mma_dim) {
        bits |= ((mask_type{1} << Shape::page_tokens) - 1) << (row * Shape::page_tokens);
      }
    }
    return bits;
  }

  mask_type mask_   = 0;
  mask_type chosen_ = 0;
  unsigned active_  = 0;  // m-tiles that need the tile of the lane's page
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
