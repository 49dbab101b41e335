// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The kernel that merges partial results by their lse. Knows arrays of numbers alone.
#pragma once

#include <pageunion/detail/float_bits.hpp>
#include <pageunion/detail/host/launch.cuh>
#include <pageunion/operands.hpp>
#include <pageunion/tuning.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

struct merge_params {
  partial_view partials;
  output_view out;
  lse_view lse;
  std::int32_t num_partials = 0;
  std::int32_t num_heads    = 0;
  std::uint32_t num_items   = 0;  //!< rows x heads
};

//! One (row, head) for some lanes of a warp, 4 or 8 elements each: memory is all that counts here, so
//! that every lane finds maximum and sum for itself. Partials come in their order, so that bits repeat.
template <int HeadDim>
class partial_merger {
 public:
  static constexpr int threads       = 128;
  static constexpr int vector_floats = 4;
  static constexpr int lanes         = HeadDim < sm70_limits::warp_threads * vector_floats
                                           ? HeadDim / vector_floats
                                           : sm70_limits::warp_threads;  //!< of an item
  static constexpr int vectors       = HeadDim / vector_floats / lanes;  //!< of a lane
  static constexpr int cta_items     = threads / lanes;

  __device__ partial_merger(merge_params const& params, std::uint32_t item)
      : params_(params),
        row_(item / static_cast<std::uint32_t>(params.num_heads)),
        head_(item % static_cast<std::uint32_t>(params.num_heads)),
        lane_(static_cast<int>(threadIdx.x) % lanes) {}

  __device__ void run() {
    find_sum();
    lane_sums sums = {};
    for (std::int32_t i = 0; i < params_.num_partials; ++i) {
      float const lse = load_lse(i);
      if (!is_empty(lse)) {
        add(i, weight_of(lse) / sum_, sums);
      }
    }
    store(sums);
    if (lane_ == 0 && params_.lse.data != nullptr) {
      params_.lse.data[row_ * params_.lse.row_stride + head_ * params_.lse.head_stride] = lse();
    }
  }

 private:
  using lane_sums = float[static_cast<std::size_t>(vectors)][vector_floats];

  static constexpr float ln2    = 0.693147180559945309f;
  static constexpr float log2_e = 1.44269504088896341f;

  //! A partial without a token. NaN is not one.
  static __device__ bool is_empty(float lse) { return bits_of(lse) == minus_infinity_bits; }

  //! What a difference of lse is multiplied by to be one of base 2.
  __device__ float to_base_two() const {
    return params_.partials.base == log_base::two ? 1.0f : log2_e;
  }

  //! A partial's weight before the division by the sum: 1 for the largest. The difference is taken
  //! first, so that no rounding of a change of base enters it. Never asked of an empty partial, and
  //! so never -inf minus -inf.
  __device__ float weight_of(float lse) const { return exp2f((lse - maximum_) * to_base_two()); }

  //! The largest lse and the sum of the weights. larger() ignores NaN, the sum does not.
  __device__ void find_sum() {
    for (std::int32_t i = 0; i < params_.num_partials; ++i) {
      maximum_ = larger(maximum_, load_lse(i));
    }
    for (std::int32_t i = 0; i < params_.num_partials; ++i) {
      float const lse = load_lse(i);
      if (!is_empty(lse)) {
        sum_ += weight_of(lse);
      }
    }
  }

  __device__ float load_lse(std::int32_t partial) const {
    partial_view const& from = params_.partials;
    return __ldg(from.lse + partial * from.lse_partial_stride + row_ * from.lse_row_stride +
                 head_ * from.lse_head_stride);
  }

  //! Adds a partial's elements of this lane. In exact arithmetic no weight is 0, so that an Inf or NaN
  //! stays what it is however small its weight.
  __device__ void add(std::int32_t partial, float weight, lane_sums& sums) const {
    partial_view const& from = params_.partials;
    float const* const data  = from.out + partial * from.out_partial_stride +
                              row_ * from.out_row_stride + head_ * from.out_head_stride;
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      float4 const vector  = __ldg(reinterpret_cast<float4 const*>(data + dim_of(v)));
      float const values[] = {vector.x, vector.y, vector.z, vector.w};
#pragma unroll
      for (int i = 0; i < vector_floats; ++i) {
        bool const is_finite = !is_nonfinite(values[i]);
        sums[v][i] =
            fmaf(weight, is_finite ? values[i] : 0.0f, sums[v][i]) + (is_finite ? 0.0f : values[i]);
      }
    }
  }

  //! First element of a lane's vector.
  __device__ int dim_of(int v) const { return (v * lanes + lane_) * vector_floats; }

  //! The logarithm of the sum over all partials, in the base of the output.
  __device__ float lse() const {
    if (bits_of(sum_) == 0) {
      return minus_infinity();  // only empties
    }
    bool const is_base_two = params_.partials.base == log_base::two;
    float const value      = maximum_ + log2f(sum_) * (is_base_two ? 1.0f : ln2);
    if (params_.partials.base == params_.lse.base) {
      return value;
    }
    return value * (is_base_two ? ln2 : log2_e);
  }

  __device__ void store(lane_sums const& sums) const {
    output_view const& out   = params_.out;
    std::int64_t const first = row_ * out.row_stride + head_ * out.head_stride;
#pragma unroll
    for (int v = 0; v < vectors; ++v) {
      std::int64_t const offset = first + dim_of(v);
      if (out.type == element_type::f32) {
        *reinterpret_cast<float4*>(static_cast<float*>(out.data) + offset) =
            make_float4(sums[v][0], sums[v][1], sums[v][2], sums[v][3]);
      } else {
        alignas(uint2) __half2 const pairs[] = {__floats2half2_rn(sums[v][0], sums[v][1]),
                                                __floats2half2_rn(sums[v][2], sums[v][3])};
        *reinterpret_cast<uint2*>(static_cast<__half*>(out.data) + offset) =
            *reinterpret_cast<uint2 const*>(pairs);
      }
    }
  }

  merge_params const& params_;
  std::int64_t const row_;
  std::int64_t const head_;
  int const lane_;
  float maximum_ = minus_infinity();  // of the lse
  float sum_     = 0.0f;              // of the weights
};

//! Entry of the device code: cta_items items per CTA.
template <int HeadDim>
__global__ void __launch_bounds__(partial_merger<HeadDim>::threads)
    merge_kernel(merge_params const params) {
  using merger = partial_merger<HeadDim>;
  std::uint32_t const item =
      blockIdx.x * static_cast<std::uint32_t>(merger::cta_items) + threadIdx.x / merger::lanes;
  if (item < params.num_items) {
    merger(params, item).run();
  }
}

//! merge_partials() without its checks.
template <int HeadDim>
[[nodiscard]] status enqueue_merge(partial_view const& partials, std::int32_t num_partials,
                                   std::int32_t num_rows, std::int32_t num_heads,
                                   output_view const& out, lse_view const& lse,
                                   cudaStream_t stream) noexcept {
  using merger = partial_merger<HeadDim>;
  auto const num_items =
      static_cast<std::uint32_t>(num_rows) * static_cast<std::uint32_t>(num_heads);
  return launch(&merge_kernel<HeadDim>, (num_items + merger::cta_items - 1) / merger::cta_items, 1,
                merger::threads, 0, stream,
                merge_params{partials, out, lse, num_partials, num_heads, num_items});
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
