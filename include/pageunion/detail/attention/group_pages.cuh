// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The pages of a group, straight from its plan. Knows the plan alone.
#pragma once

#include <pageunion/detail/attention/cta_rows.cuh>
#include <pageunion/detail/attention/page_loader.cuh>
#include <pageunion/plan.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! The pages of one group: CTA (x, y) has group num_groups - 1 - x and KV head y. Later rows see more
//! tokens, so that the CTAs that start last are the short ones. Where the pages lie is found anew for
//! every step: in the attention's loop every register counts.
template <class Shape>
class group_pages {
 public:
  struct params {
    plan<typename Shape::plan_shape_type> planned;
    std::int32_t num_rows = 0;  //!< rows of the call
  };
  struct list_storage {};     //!< nothing is listed
  struct scratch_storage {};  //!< nor found

  __device__ group_pages(params const& from, list_storage&, scratch_storage&)
      : from_(from),
        group_(from.planned.num_groups - 1 - static_cast<std::int32_t>(blockIdx.x)),
        num_pages_(from.planned.num_pages[group_]) {}

  __device__ cta_rows<Shape> rows() const {
    std::int32_t const first = group_ * Shape::group_rows;
    std::int32_t const left  = from_.num_rows - first;
    return {first, left < Shape::group_rows ? left : Shape::group_rows,
            static_cast<std::int32_t>(blockIdx.y)};
  }
  static __device__ constexpr std::int32_t partition() { return 0; }
  static __device__ constexpr bool is_idle() { return false; }

  __device__ int num_pages() const { return num_pages_; }
  __device__ page_entry<Shape> load(int index) const {
    std::int64_t const entry   = std::int64_t{group_} * from_.planned.capacity + index;
    page_address const address = from_.planned.addresses[entry];
    return {address.block, address.first_token, from_.planned.masks[entry]};
  }

 private:
  params const& from_;
  std::int32_t const group_;
  int const num_pages_;
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
