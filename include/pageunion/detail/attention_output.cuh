// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Where the results of a CTA's m-rows go: which of them exist, which are empty, and the
//! stores. Knows nothing of how they were computed.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include <pageunion/geometry.hpp>
#include <pageunion/operands.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! What every CTA of an attention kernel reads and writes.
struct attention_params {
  attention_operands operands;   //!< as the caller gave them
  float scale_log2      = 0.0f;  //!< operands.scale * log2(e): makes scores of base 2
  std::int32_t num_rows = 0;     //!< rows of the call
};

//! The m-rows of one CTA as places in the outputs.
template <class Geometry>
class attention_output {
  using G         = Geometry;
  using mask_type = typename G::mask_type;

 public:
  //! @param first_row row of the batch that the CTA's row 0 is
  //! @param num_rows  rows of the CTA that exist
  __device__ attention_output(attention_params const& params, std::int32_t first_row, int num_rows,
                              std::int32_t kv_head)
      : operands_(params.operands),
        first_row_(first_row),
        num_m_rows_(num_rows * G::heads_per_kv),
        kv_head_(kv_head) {}

  //! True if m-row m stands for a row and head of the call.
  __device__ bool exists(int m) const { return m < num_m_rows_; }
  //! Row of the batch of m-row m.
  __device__ std::int64_t row(int m) const {
    return first_row_ + static_cast<std::int64_t>(m / G::heads_per_kv);
  }
  //! Query head of m-row m.
  __device__ std::int64_t head(int m) const {
    return static_cast<std::int64_t>(kv_head_) * G::heads_per_kv + m % G::heads_per_kv;
  }

  //! Says which rows have a token: all masks of the CTA, OR-ed. Emptiness is read off these alone.
  __device__ void set_chosen(mask_type chosen) { chosen_ = chosen; }

  //! Writes the logarithm of an m-row's sum. @param value in base 2
  __device__ void store_lse(int m, float value) const {
    constexpr float ln2 = 0.693147180559945309f;
    lse_view const& lse = operands_.lse;
    if (lse.data != nullptr && exists(m)) {
      lse.data[row(m) * lse.row_stride + head(m) * lse.head_stride] =
          !has_token(m) ? -INFINITY : (lse.base == log_base::two ? value : value * ln2);
    }
  }

  //! Writes 8 elements of an m-row; an empty row is +0, whatever was computed for it.
  //! @param values [8], 16-byte aligned
  __device__ void store(int m, int dim, float const* values) const {
    if (!exists(m)) {
      return;
    }
    output_view const& out    = operands_.out;
    std::int64_t const offset = row(m) * out.row_stride + head(m) * out.head_stride + dim;
    float4 first              = *reinterpret_cast<float4 const*>(values);
    float4 second             = *reinterpret_cast<float4 const*>(values + 4);
    if (!has_token(m)) {
      first  = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      second = first;
    }
    if (out.type == element_type::f32) {
      auto* const to = reinterpret_cast<float4*>(static_cast<float*>(out.data) + offset);
      to[0]          = first;
      to[1]          = second;
      return;
    }
    alignas(uint4) __half2 const pairs[] = {
        __floats2half2_rn(first.x, first.y), __floats2half2_rn(first.z, first.w),
        __floats2half2_rn(second.x, second.y), __floats2half2_rn(second.z, second.w)};
    *reinterpret_cast<uint4*>(static_cast<__half*>(out.data) + offset) =
        *reinterpret_cast<uint4 const*>(pairs);
  }

 private:
  __device__ bool has_token(int m) const {
    constexpr mask_type page_bits = (mask_type{1} << G::page_tokens) - 1;
    return (chosen_ >> (m / G::heads_per_kv * G::page_tokens) & page_bits) != 0;
  }

  attention_operands const& operands_;
  std::int32_t const first_row_;
  int const num_m_rows_;
  std::int32_t const kv_head_;
  mask_type chosen_ = 0;
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
