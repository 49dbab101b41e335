// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The rows and heads that a CTA attends for. Knows indices alone.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include <pageunion/version.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! The m-rows of a CTA: all heads of one KV head, of some adjacent rows of the batch.
//! @tparam Shape gives heads_per_kv
template <class Shape>
struct cta_rows {
  std::int32_t first_row;  //!< row of the batch that the CTA's row 0 is
  std::int32_t num_rows;   //!< rows of the CTA that exist
  std::int32_t kv_head;

  //! True if m-row m stands for a row and head of the call.
  __device__ bool exists(int m) const { return m < num_rows * Shape::heads_per_kv; }
  //! Row of the batch of m-row m.
  __device__ std::int64_t row(int m) const {
    return first_row + static_cast<std::int64_t>(m / Shape::heads_per_kv);
  }
  //! Query head of m-row m.
  __device__ std::int64_t head(int m) const {
    return static_cast<std::int64_t>(kv_head) * Shape::heads_per_kv + m % Shape::heads_per_kv;
  }
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
