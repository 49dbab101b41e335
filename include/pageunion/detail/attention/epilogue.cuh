// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. What becomes of a CTA's sums: normalised and stored with their lse, +0 and -inf for no token.
#pragma once

#include <pageunion/detail/attention/cta_rows.cuh>
#include <pageunion/detail/float_bits.hpp>
#include <pageunion/operands.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Where results go: the caller's arrays, or the partial results of partitions.
struct epilogue_params {
  output_view out;
  lse_view lse;
  std::int64_t out_partition_bytes  = 0;  //!< between two partitions' out
  std::int64_t lse_partition_stride = 0;  //!< between two partitions' lse
};

//! Stores the results of one CTA.
template <class Shape>
class store_epilogue {
  using mask_type = typename Shape::mask_type;

 public:
  using params = epilogue_params;

  __device__ store_epilogue(params const& to, cta_rows<Shape> const& rows, std::int32_t partition)
      : to_(to), rows_(rows), partition_(partition) {}

  //! Says which rows have a token: all masks of the CTA, OR-ed. Emptiness is read off these alone.
  __device__ void set_chosen(mask_type chosen) { chosen_ = chosen; }

  //! Stores the lse of an m-row.
  //! @param row_max what the row's weights are relative to, in base 2
  //! @param sum     of the row's weights
  //! @return what the row's outputs are to be multiplied by
  __device__ float finish_row(int m, float row_max, float sum) const {
    constexpr float ln2 = 0.693147180559945309f;
    lse_view const& lse = to_.lse;
    if (lse.data != nullptr && rows_.exists(m)) {
      float const value = row_max + log2f(sum);
      *lse_of(m) =
          !has_token(m) ? minus_infinity() : (lse.base == log_base::two ? value : value * ln2);
    }
    return 1.0f / sum;
  }

  //! The result of a partition without a token: merging reads its lse alone.
  __device__ void store_empty_partial() const {
    int const m = static_cast<int>(threadIdx.x);
    if (rows_.exists(m)) {
      *lse_of(m) = minus_infinity();
    }
  }

  //! Stores 8 elements of an m-row; an empty row is +0, whatever was computed for it.
  //! @param values [8], 16-byte aligned, normalised
  __device__ void store(int m, int dim, float const* values) const {
    if (!rows_.exists(m)) {
      return;
    }
    output_view const& out = to_.out;
    void* const data = static_cast<unsigned char*>(out.data) + partition_ * to_.out_partition_bytes;
    std::int64_t const offset =
        rows_.row(m) * out.row_stride + rows_.head(m) * out.head_stride + dim;
    float4 first  = *reinterpret_cast<float4 const*>(values);
    float4 second = *reinterpret_cast<float4 const*>(values + 4);
    if (!has_token(m)) {
      first  = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
      second = first;
    }
    if (out.type == element_type::f32) {
      auto* const to = reinterpret_cast<float4*>(static_cast<float*>(data) + offset);
      to[0]          = first;
      to[1]          = second;
      return;
    }
    alignas(uint4) __half2 const pairs[] = {
        __floats2half2_rn(first.x, first.y), __floats2half2_rn(first.z, first.w),
        __floats2half2_rn(second.x, second.y), __floats2half2_rn(second.z, second.w)};
    *reinterpret_cast<uint4*>(static_cast<__half*>(data) + offset) =
        *reinterpret_cast<uint4 const*>(pairs);
  }

 private:
  __device__ float* lse_of(int m) const {
    lse_view const& lse = to_.lse;
    return lse.data + partition_ * to_.lse_partition_stride + rows_.row(m) * lse.row_stride +
           rows_.head(m) * lse.head_stride;
  }
  __device__ bool has_token(int m) const {
    constexpr mask_type page_bits = (mask_type{1} << Shape::page_tokens) - 1;
    return (chosen_ >> (m / Shape::heads_per_kv * Shape::page_tokens) & page_bits) != 0;
  }

  params const& to_;
  cta_rows<Shape> const& rows_;
  std::int32_t const partition_;
  mask_type chosen_ = 0;
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
