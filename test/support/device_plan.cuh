// SPDX-License-Identifier: Apache-2.0
//! @file
//! The arrays of a plan in device memory, poisoned, and their contents.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <pageunion/plan.hpp>

#include "device_array.cuh"
#include "problem.hpp"

namespace pageunion::test {

//! A plan's arrays between guard bytes.
template <class Shape>
class device_plan {
 public:
  using mask_type = typename Shape::mask_type;

  //! Room for the worst case of a problem.
  explicit device_plan(host_problem const& p)
      : num_groups_(pageunion::num_groups<Shape>(p.num_rows)),
        capacity_(static_cast<std::int32_t>(group_capacity<Shape>(most_pages_per_row(p)))),
        addresses_(num_entries() * sizeof(page_address)),
        masks_(num_entries() * sizeof(mask_type)),
        num_pages_(static_cast<std::size_t>(num_groups_) * sizeof(std::int32_t)) {}

  plan<Shape> view() const {
    plan<Shape> p;
    p.addresses  = addresses_.template as<page_address>();
    p.masks      = masks_.template as<mask_type>();
    p.num_pages  = num_pages_.template as<std::int32_t>();
    p.num_groups = num_groups_;
    p.capacity   = capacity_;
    return p;
  }

  //! Replaces the contents by those of host arrays of the same sizes.
  void upload(std::vector<page_address> const& addresses, std::vector<mask_type> const& masks,
              std::vector<std::int32_t> const& num_pages) {
    addresses_.upload(addresses);
    masks_.upload(masks);
    num_pages_.upload(num_pages);
  }

  std::vector<page_address> addresses() const {
    return addresses_.template download<page_address>();
  }
  std::vector<mask_type> masks() const { return masks_.template download<mask_type>(); }
  std::vector<std::int32_t> num_pages() const {
    return num_pages_.template download<std::int32_t>();
  }

  //! True if nothing wrote outside the arrays.
  bool is_guarded() const {
    return addresses_.is_guarded() && masks_.is_guarded() && num_pages_.is_guarded();
  }

 private:
  std::size_t num_entries() const {
    return static_cast<std::size_t>(num_groups_) * static_cast<std::size_t>(capacity_);
  }

  std::int32_t num_groups_;
  std::int32_t capacity_;
  device_array addresses_;  //!< page_address [num_groups, capacity]
  device_array masks_;      //!< mask_type [num_groups, capacity]
  device_array num_pages_;  //!< int32 [num_groups]
};

}  // namespace pageunion::test
