// SPDX-License-Identifier: Apache-2.0
//! @file
//! Yardstick: a grouped attention kernel of the synchronous shape that is published for Volta, so that
//! the library's kernel can be compared with it on one GPU in one run. It reads the same plan.
//! It does not keep the library's rule about NaN and Inf outside a row's tokens: its inputs are finite.
#pragma once

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>

#include <pageunion/detail/host/launch.cuh>
#include <pageunion/kv_cache.hpp>
#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/status.hpp>
#include <pageunion/tuning.hpp>

namespace pageunion::bench {

//! Arguments of synchronous_tile_kernel.
template <class Policy>
struct synchronous_params {
  attention_operands operands;
  plan<plan_shape_of<Policy>> groups;
  std::int32_t num_rows;
};

//! One group and KV head for one CTA of `Warps` warps. A bar is a CTA barrier:
//!
//!   load_queries |
//!   per 32 tokens: stage K | score | soften | stage V | accumulate |
//!   store
//!
//! K and V take turns in one buffer, so nothing overlaps anything: that is the shape's weakness, and
//! what the library's kernel is measured against.
template <class Policy, int Warps>
class synchronous_tile {
  using G = plan_shape_of<Policy>;

  static constexpr int edge        = sm70_limits::mma_dim;
  static constexpr int warp_lanes  = sm70_limits::warp_threads;
  static constexpr int threads     = Warps * warp_lanes;
  static constexpr int tile_tokens = warp_lanes;  // softmax: one token per lane
  static constexpr int tile_pages  = tile_tokens / G::page_tokens;
  static constexpr int token_tiles = tile_tokens / edge;  // plan tiles taken at a time
  static constexpr int m_rows      = G::m_tiles * edge;   // padded
  static constexpr int dim_tiles   = Policy::head_dim / edge;

  // Eight halves of padding (four floats for scores) put neighbouring rows in other banks.
  static constexpr int row_pitch    = Policy::head_dim + 8;
  static constexpr int weight_pitch = tile_tokens + 8;
  static constexpr int score_pitch  = tile_tokens + 4;

  static constexpr int columns = dim_tiles / Warps;  // 16-wide output columns of a warp
  static_assert(dim_tiles % Warps == 0, "each warp must own whole output columns");

  template <class Layout>
  using a_fragment =
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_a, edge, edge, edge, __half, Layout>;
  template <class Layout>
  using b_fragment =
      nvcuda::wmma::fragment<nvcuda::wmma::matrix_b, edge, edge, edge, __half, Layout>;
  using accumulator = nvcuda::wmma::fragment<nvcuda::wmma::accumulator, edge, edge, edge, float>;
  using row_major   = nvcuda::wmma::row_major;
  using col_major   = nvcuda::wmma::col_major;

 public:
  //! WMMA operands start on 32-byte boundaries.
  struct shared_storage {
    alignas(32) __half q[m_rows * row_pitch];
    alignas(32) __half kv[tile_tokens * row_pitch];  // K, then V, of the current tile
    alignas(32) float score[m_rows * score_pitch];
    alignas(32) __half weight[m_rows * weight_pitch];
    typename G::mask_type mask[tile_pages];
    float row_max[m_rows];  // base 2
    float row_sum[m_rows];
    float row_scale[m_rows];  // what the current tile multiplies earlier sums by
    int category[token_tiles];
  };

  __device__ synchronous_tile(synchronous_params<Policy> const& params, shared_storage& smem)
      : params_(params),
        smem_(smem),
        warp_(static_cast<int>(threadIdx.x) / warp_lanes),
        lane_(static_cast<int>(threadIdx.x) % warp_lanes),
        group_(static_cast<int>(blockIdx.x)),
        kv_head_(static_cast<int>(blockIdx.y)),
        first_row_(group_ * G::group_rows) {}

  __device__ void run() {
    std::int32_t const num_pages = params_.groups.num_pages[group_];
    load_queries();
    find_fragment_rows();
    for (int page = 0; page < num_pages; page += tile_pages) {
      __syncthreads();
      stage(static_cast<__half const*>(params_.operands.cache.k), params_.operands.cache.k_strides,
            page, num_pages);
      stage_masks(page, num_pages);
      __syncthreads();
      score();
      __syncthreads();
      soften();
      __syncthreads();
      stage(static_cast<__half const*>(params_.operands.cache.v), params_.operands.cache.v_strides,
            page, num_pages);
      __syncthreads();
      accumulate();
    }
    __syncthreads();
    store();
  }

 private:
  //! True if m-row `m` of the padded tile is a (row, head) pair of the call.
  __device__ bool is_used(int m) const {
    return m < G::m_rows && first_row_ + m / G::heads_per_kv < params_.num_rows;
  }

  //! The warp's 16 x 16 floats in kv, for fragments that are read element by element: before the
  //! first tile and after the last.
  __device__ float* exchange() const {
    static_assert(Warps * edge * edge * sizeof(float) <= sizeof(shared_storage::kv),
                  "kv must hold a fragment of every warp: take fewer warps");
    return reinterpret_cast<float*>(smem_.kv) + warp_ * edge * edge;
  }

  __device__ void load_queries() {
    constexpr int chunks = Policy::head_dim / 8;  // of 16 bytes
    query_view const& q  = params_.operands.q;
    for (int i = threadIdx.x; i < m_rows * chunks; i += threads) {
      int const m = i / chunks;
      int const d = i % chunks * 8;
      uint4 value = make_uint4(0, 0, 0, 0);
      if (is_used(m)) {
        std::int64_t const offset =
            (first_row_ + m / G::heads_per_kv) * q.row_stride +
            (kv_head_ * G::heads_per_kv + m % G::heads_per_kv) * q.head_stride + d;
        value = *reinterpret_cast<uint4 const*>(q.data + offset);
      }
      *reinterpret_cast<uint4*>(smem_.q + m * row_pitch + d) = value;
    }
    for (int m = threadIdx.x; m < m_rows; m += threads) {
      smem_.row_max[m]   = -INFINITY;
      smem_.row_sum[m]   = 0.0f;
      smem_.row_scale[m] = 1.0f;
    }
#pragma unroll
    for (int m = 0; m < G::m_tiles; ++m) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        nvcuda::wmma::fill_fragment(out_[m][c], 0.0f);
      }
    }
  }

  //! Which row of a 16 x 16 tile each accumulator element belongs to differs between GPUs, so it is
  //! read from a matrix that holds its own row numbers.
  __device__ void find_fragment_rows() {
    float* const numbers = exchange();
    for (int i = lane_; i < edge * edge; i += warp_lanes) {
      numbers[i] = static_cast<float>(i / edge);
    }
    __syncwarp();
    accumulator rows;
    nvcuda::wmma::load_matrix_sync(rows, numbers, edge, nvcuda::wmma::mem_row_major);
    for (int e = 0; e < accumulator::num_elements; ++e) {
      fragment_row_[e] = static_cast<int>(rows.x[e]);
    }
  }

  //! Copies the tile's tokens of one cache array to kv; tokens past the plan's end become 0.
  __device__ void stage(__half const* cache, kv_strides const& strides, int first_page,
                        int num_pages) {
    constexpr int chunks = Policy::head_dim / 8;
    page_address const* const addresses =
        params_.groups.addresses + static_cast<std::int64_t>(group_) * params_.groups.capacity;
#pragma unroll
    for (int i = threadIdx.x; i < tile_tokens * chunks; i += threads) {
      int const token = i / chunks;
      int const page  = first_page + token / G::page_tokens;
      int const d     = i % chunks * 8;
      uint4 value     = make_uint4(0, 0, 0, 0);
      if (page < num_pages) {
        page_address const at = addresses[page];
        std::int64_t const offset =
            kv_offset(strides, at.block, at.first_token + token % G::page_tokens, kv_head_);
        value = __ldg(reinterpret_cast<uint4 const*>(cache + offset + d));
      }
      *reinterpret_cast<uint4*>(smem_.kv + token * row_pitch + d) = value;
    }
  }

  //! The first threads bring the tile's masks and derive which m-tiles each 16 tokens concern.
  __device__ void stage_masks(int first_page, int num_pages) {
    if (warp_ != 0) {
      return;
    }
    typename G::mask_type mask = 0;
    int const page             = first_page + lane_;
    if (lane_ < tile_pages && page < num_pages) {
      mask =
          params_.groups.masks[static_cast<std::int64_t>(group_) * params_.groups.capacity + page];
    }
    typename G::mask_type any = mask;
    for (int step = 1; step < G::tile_pages; step *= 2) {
      any |= __shfl_xor_sync(0xffffffffu, any, step);
    }
    if (lane_ < tile_pages) {
      smem_.mask[lane_] = mask;
      if (lane_ % G::tile_pages == 0) {
        smem_.category[lane_ / G::tile_pages] = category_of<G>(any);
      }
    }
  }

  //! True if any token of the tile concerns m-tile `m`.
  __device__ bool is_active(int m) const {
    bool active = false;
    for (int t = 0; t < token_tiles; ++t) {
      active = active || is_active(m, t);
    }
    return active;
  }

  //! True if the 16 tokens of plan tile `t` concern m-tile `m`.
  __device__ bool is_active(int m, int t) const {
    return (smem_.category[t] >> (m * G::num_bands / G::m_tiles) & 1) != 0;
  }

  //! score = Q K^T: m_tiles x token_tiles products over head_dim, one per warp.
  __device__ void score() {
    for (int i = warp_; i < G::m_tiles * token_tiles; i += Warps) {
      int const m = i / token_tiles;
      int const t = i % token_tiles;
      if (!is_active(m, t)) {
        continue;
      }
      accumulator sum;
      nvcuda::wmma::fill_fragment(sum, 0.0f);
#pragma unroll
      for (int d = 0; d < Policy::head_dim; d += edge) {
        a_fragment<row_major> q;
        b_fragment<col_major> k;
        nvcuda::wmma::load_matrix_sync(q, smem_.q + m * edge * row_pitch + d, row_pitch);
        nvcuda::wmma::load_matrix_sync(k, smem_.kv + t * edge * row_pitch + d, row_pitch);
        nvcuda::wmma::mma_sync(sum, q, k, sum);
      }
      nvcuda::wmma::store_matrix_sync(smem_.score + m * edge * score_pitch + t * edge, sum,
                                      score_pitch, nvcuda::wmma::mem_row_major);
    }
  }

  //! Online softmax: one warp per m-row, one token per lane.
  __device__ void soften() {
    constexpr float log2_e = 1.4426950408889634f;
    float const scale      = params_.operands.scale * log2_e;
    auto const page_mask   = smem_.mask[lane_ / G::page_tokens];
    for (int m = warp_; m < m_rows; m += Warps) {
      if (!is_active(m / edge)) {
        continue;
      }
      int const bit       = m / G::heads_per_kv * G::page_tokens + lane_ % G::page_tokens;
      bool const selected = m < G::m_rows && (page_mask >> bit & 1) != 0;
      float const x       = selected ? smem_.score[m * score_pitch + lane_] * scale : -INFINITY;
      float tile_max      = x;
      for (int step = warp_lanes / 2; step > 0; step /= 2) {
        tile_max = fmaxf(tile_max, __shfl_xor_sync(0xffffffffu, tile_max, step));
      }
      float const old_max = smem_.row_max[m];
      float const new_max = fmaxf(old_max, tile_max);
      // Both maxima are -inf while a row has met no token: their difference would be NaN.
      float const keep = old_max == new_max ? 1.0f : exp2f(old_max - new_max);
      float const p    = selected ? exp2f(x - new_max) : 0.0f;
      float sum        = p;
      for (int step = warp_lanes / 2; step > 0; step /= 2) {
        sum += __shfl_xor_sync(0xffffffffu, sum, step);
      }
      smem_.weight[m * weight_pitch + lane_] = __float2half_rn(p);
      __syncwarp();
      if (lane_ == 0) {
        smem_.row_max[m]   = new_max;
        smem_.row_sum[m]   = smem_.row_sum[m] * keep + sum;
        smem_.row_scale[m] = keep;
      }
    }
  }

  //! out = out * row_scale + weight V.
  __device__ void accumulate() {
#pragma unroll
    for (int m = 0; m < G::m_tiles; ++m) {
      if (!is_active(m)) {
        continue;
      }
      float keep[accumulator::num_elements];
      for (int e = 0; e < accumulator::num_elements; ++e) {
        keep[e] = smem_.row_scale[m * edge + fragment_row_[e]];
      }
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        for (int e = 0; e < accumulator::num_elements; ++e) {
          out_[m][c].x[e] *= keep[e];
        }
        int const column = (warp_ + c * Warps) * edge;
#pragma unroll
        for (int t = 0; t < token_tiles; ++t) {
          if (is_active(m, t)) {
            a_fragment<row_major> weight;
            b_fragment<row_major> v;
            nvcuda::wmma::load_matrix_sync(
                weight, smem_.weight + m * edge * weight_pitch + t * edge, weight_pitch);
            nvcuda::wmma::load_matrix_sync(v, smem_.kv + t * edge * row_pitch + column, row_pitch);
            nvcuda::wmma::mma_sync(out_[m][c], weight, v, out_[m][c]);
          }
        }
      }
    }
  }

  __device__ void store() {
    float* const values     = exchange();
    output_view const& view = params_.operands.out;
#pragma unroll
    for (int m = 0; m < G::m_tiles; ++m) {
#pragma unroll
      for (int c = 0; c < columns; ++c) {
        __syncwarp();
        nvcuda::wmma::store_matrix_sync(values, out_[m][c], edge, nvcuda::wmma::mem_row_major);
        __syncwarp();
        for (int i = lane_; i < edge * edge; i += warp_lanes) {
          int const m_row = m * edge + i / edge;
          if (!is_used(m_row)) {
            continue;
          }
          float const sum   = smem_.row_sum[m_row];
          float const value = sum == 0.0f ? 0.0f : values[i] / sum;
          std::int64_t const offset =
              (first_row_ + m_row / G::heads_per_kv) * view.row_stride +
              (kv_head_ * G::heads_per_kv + m_row % G::heads_per_kv) * view.head_stride +
              (warp_ + c * Warps) * edge + i % edge;
          if (view.type == element_type::f16) {
            static_cast<__half*>(view.data)[offset] = __float2half_rn(value);
          } else {
            static_cast<float*>(view.data)[offset] = value;
          }
        }
      }
    }
    store_lse();
  }

  __device__ void store_lse() {
    lse_view const& view = params_.operands.lse;
    for (int m = threadIdx.x; view.data != nullptr && m < m_rows; m += threads) {
      if (is_used(m)) {
        float const sum   = smem_.row_sum[m];
        float const base2 = sum == 0.0f ? -INFINITY : smem_.row_max[m] + log2f(sum);
        float const unit  = view.base == log_base::two ? 1.0f : 0.6931471805599453f;
        view.data[(first_row_ + m / G::heads_per_kv) * view.row_stride +
                  (kv_head_ * G::heads_per_kv + m % G::heads_per_kv) * view.head_stride] =
            base2 * unit;
      }
    }
  }

  synchronous_params<Policy> const& params_;
  shared_storage& smem_;
  int warp_;
  int lane_;
  int group_;
  int kv_head_;
  int first_row_;
  int fragment_row_[accumulator::num_elements];
  accumulator out_[G::m_tiles][columns];
};

//! One CTA per (group, KV head). `CtasPerSm` bounds the registers for the sake of GPUs with more shared
//! memory than Volta; 0 leaves them to the compiler.
template <class Policy, int Warps, int CtasPerSm>
__global__ void __launch_bounds__(Warps* sm70_limits::warp_threads, CtasPerSm)
    synchronous_tile_kernel(synchronous_params<Policy> const params) {
  using tile = synchronous_tile<Policy, Warps>;
  tile{params, detail::dynamic_smem<typename tile::shared_storage>()}.run();
}

//! Enqueues the yardstick on `stream`. Arguments as grouped_attention(), unchecked.
template <class Policy, int Warps, int CtasPerSm = 0>
[[nodiscard]] status synchronous_attention(std::int32_t num_rows,
                                           attention_operands const& operands,
                                           plan<plan_shape_of<Policy>> const& groups,
                                           cudaStream_t stream) noexcept {
  using tile = synchronous_tile<Policy, Warps>;
  synchronous_params<Policy> const params{operands, groups, num_rows};
  return detail::launch(&synchronous_tile_kernel<Policy, Warps, CtasPerSm>,
                        static_cast<std::uint32_t>(groups.num_groups),
                        static_cast<std::uint32_t>(operands.cache.num_kv_heads),
                        Warps * sm70_limits::warp_threads, sizeof(typename tile::shared_storage),
                        stream, params);
}

}  // namespace pageunion::bench
