// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The softmax of a CTA's m-rows, step by step: which scores count, the weights that come of
//! them, maxima and sums. Knows masks and what a loop says of its tiles; not where Q, K and V are.
#pragma once

#include <cfloat>

#include <pageunion/detail/attention/page_loader.cuh>
#include <pageunion/detail/float_bits.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Scores of one warp's tiles of a step.
template <class Shape, class Tiles>
struct score_tiles {
  typename Tiles::accumulator tile[Shape::warp_tiles][Shape::m_tiles];
};

//! Online softmax in base 2. Every weight is relative to the row_max of its m-row, a maximum so far,
//! which is raised only when a score exceeds it by more than raise_threshold: exact, since outputs and
//! sums share it. It depends on the m-row's own scores alone.
//! Source: Milakov and Gimelshein, arXiv:1805.02867.
//! @tparam Tiles which elements of a 16 x 16 tile of sums a thread holds, as wmma_tiles says of WMMA's
template <class Shape, class Tiles>
class online_softmax {
  using mask_type        = typename Shape::mask_type;
  using accumulator      = typename Tiles::accumulator;
  using regular_elements = typename Tiles::regular_elements;
  using lone_elements    = typename Tiles::lone_elements;
  using scores           = score_tiles<Shape, Tiles>;

 public:
  static constexpr auto padded_m_rows = Shape::padded_m_rows;
  static constexpr int weight_pitch   = Shape::step_tokens + 8;  //!< rows 4 banks apart

  //! Scores may exceed row_max by this much, in base 2, before it is raised. Weights then reach 2^8,
  //! which half holds with its full precision; sums are float.
  static constexpr float raise_threshold = 8.0f;

  //! Operands of the matrix product start on 32-byte boundaries.
  struct shared_storage {
    alignas(32) __half weight[padded_m_rows * weight_pitch];  // or values per warp and m-row
    alignas(32) float row_max[padded_m_rows];
    alignas(32) float factor[padded_m_rows];
  };
  static_assert(sizeof(shared_storage::weight) >= sizeof(float) * Shape::warps * padded_m_rows,
                "the weights' memory must hold one float per warp and m-row");

  //! @param scale_log2 factor from products q . k to scores of base 2
  //! @param scratch    [256] shared memory of this warp alone, in use during calls only; a barrier must
  //!                   come between the constructor and whatever writes it next
  __device__ online_softmax(shared_storage& smem, float scale_log2, float* scratch)
      : smem_(smem),
        scale_log2_(scale_log2),
        scratch_(scratch),
        warp_(static_cast<int>(threadIdx.x) / warp_threads),
        lane_(static_cast<int>(threadIdx.x) % warp_threads) {
    tiles_.find(scratch);
  }

  //! Forgets all steps. A CTA barrier must follow.
  __device__ void reset() {
#pragma unroll
    for (int t = 0; t < Shape::m_tiles; ++t) {
#pragma unroll
      for (float& sum : sum_[t]) {
        sum = 0.0f;
      }
    }
    for (int m = static_cast<int>(threadIdx.x); m < padded_m_rows; m += Shape::threads) {
      // A score of -FLT_MAX is legal and still right with this start: it has weight 1.
      smem_.row_max[m] = -FLT_MAX;
    }
  }

  //! Where a thread's elements of a tile lie.
  __device__ Tiles& tiles() { return tiles_; }

  //! Row of element i of m-tile t. m-rows of the padding follow the last row; nothing of them is stored.
  __device__ int row_in_cta(int t, int i) const {
    int const m = t * mma_dim + tiles_.row(i);
    return m < Shape::m_rows ? m / Shape::heads_per_kv : Shape::group_rows - 1;
  }

  //! score = scale * score, in base 2, where the row selected the token; else -inf, NaN scores too.
  //! @return true if a selected score exceeds its row_max by more than raise_threshold
  __device__ bool mask_scores(scores& score, page_masks<Shape> const& masks) {
    tiles_.hide_origin();
    float growth = 0.0f;
#pragma unroll
    for (int n = 0; n < Shape::warp_tiles; ++n) {
      growth = larger(growth, tiles_.is_regular() ? mask_tile<regular_elements>(score, masks, n)
                                                  : mask_tile<lone_elements>(score, masks, n));
    }
    return growth > raise_threshold;
  }
  //! weight = exp2(score - row_max), and the sums of the weights.
  __device__ void exponentiate(scores const& score, page_masks<Shape> const& masks) {
    tiles_.hide_origin();
#pragma unroll
    for (int n = 0; n < Shape::warp_tiles; ++n) {
      if (tiles_.is_regular()) {
        exponentiate_tile<regular_elements>(score, masks, n);
      } else {
        exponentiate_tile<lone_elements>(score, masks, n);
      }
    }
  }
  //! Raises the row_max of those m-rows that a selected score of this step outgrew to the m-row's
  //! maximum, and brings the sums of these m-rows, and of no other, to it. Called by all threads of the
  //! CTA; load_factor() then gives what brings outputs there.
  __device__ void raise_row_max(scores const& score, page_masks<Shape> const& masks) {
    find_row_maxima(score, masks, warp_values() + warp_ * padded_m_rows);
    __syncthreads();
    for (int m = static_cast<int>(threadIdx.x); m < padded_m_rows; m += Shape::threads) {
      float maximum = -FLT_MAX;
#pragma unroll
      for (int w = 0; w < Shape::warps; ++w) {
        maximum = larger(maximum, warp_values()[w * padded_m_rows + m]);
      }
      float const old     = smem_.row_max[m];
      bool const outgrown = maximum - old > raise_threshold;
      smem_.factor[m]     = outgrown ? exp2_flushed(old - maximum) : 1.0f;
      smem_.row_max[m]    = outgrown ? maximum : old;
    }
    __syncthreads();
#pragma unroll
    for (int t = 0; t < Shape::m_tiles; ++t) {
#pragma unroll
      for (int k = 0; k < Tiles::lane_sums; ++k) {
        sum_[t][k] *= smem_.factor[t * mma_dim + tiles_.sum_row(k)];
      }
    }
  }

  //! Loads what the outputs of m-tile t must be multiplied by: a row's factor in all of its columns.
  __device__ void load_factor(accumulator& factor, int t) const {
    Tiles::load_row_values(factor, smem_.factor + t * mma_dim);
  }

  //! Sums each m-row over all lanes and warps, in a fixed order, and gives the sums to the epilogue.
  //! load_factor() then gives what normalises the outputs. Called by all threads of the CTA after the
  //! last step and a CTA barrier.
  template <class Epilogue>
  __device__ void finish(Epilogue const& epilogue) {
#pragma unroll
    for (int t = 0; t < Shape::m_tiles; ++t) {
      tiles_.store_sums(sum_[t], scratch_);
      __syncwarp();
      if (lane_ < mma_dim) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < mma_dim; ++i) {
          sum += scratch_[lane_ * mma_dim + i];
        }
        warp_values()[warp_ * padded_m_rows + t * mma_dim + lane_] = sum;
      }
      __syncwarp();
    }
    __syncthreads();
    for (int m = static_cast<int>(threadIdx.x); m < padded_m_rows; m += Shape::threads) {
      float total = 0.0f;
#pragma unroll
      for (int w = 0; w < Shape::warps; ++w) {
        total += warp_values()[w * padded_m_rows + m];
      }
      smem_.factor[m] = epilogue.finish_row(m, smem_.row_max[m], total);
    }
    __syncthreads();
  }

 private:
  //! For each pair leader, the mask of the page that holds its token of tile `tile`, shifted so that
  //! bit row * page_tokens is the element's.
  template <class Elements>
  __device__ void load_masks(page_masks<Shape> const& masks,
                             mask_type (&words)[Tiles::num_elements], int tile) const {
#pragma unroll
    for (int i = 0; i < Tiles::num_elements; ++i) {
      if (Elements::pair_leader(i) == i) {
        auto const column = static_cast<unsigned>(tiles_.column(i));
        words[i]          = masks.mask_of(tile * Shape::tile_pages + column / Shape::page_tokens) >>
                   (column % Shape::page_tokens);
      }
    }
  }
  //! True if the row of element i of m-tile t attends to the element's token.
  template <class Elements>
  __device__ bool is_selected(mask_type const (&words)[Tiles::num_elements], int t, int i) const {
    int const shift = row_in_cta(t, Elements::row_leader(i)) * Shape::page_tokens;
    return (words[Elements::pair_leader(i)] >> shift &
            (mask_type{1} << Elements::column_step(i))) != 0;
  }

  //! @return the largest excess of a selected score over its row_max, at least 0
  template <class Elements>
  __device__ float mask_tile(scores& score, page_masks<Shape> const& masks, int n) {
    int const tile = warp_ * Shape::warp_tiles + n;
    mask_type words[Tiles::num_elements];
    load_masks<Elements>(masks, words, tile);
    unsigned const active = masks.active_m_tiles(tile);
    float growth          = 0.0f;
#pragma unroll
    for (int t = 0; t < Shape::m_tiles; ++t) {
      if ((active >> t & 1u) != 0) {
#pragma unroll
        for (int i = 0; i < Tiles::num_elements; ++i) {
          float& element      = score.tile[n][t].x[i];
          float const row_max = smem_.row_max[t * mma_dim + tiles_.row(Elements::row_leader(i))];
          element = is_selected<Elements>(words, t, i) ? element * scale_log2_ : minus_infinity();
          growth  = larger(growth, element - row_max);
        }
      }
    }
    return growth;
  }

  template <class Elements>
  __device__ void exponentiate_tile(scores const& score, page_masks<Shape> const& masks, int n) {
    int const tile        = warp_ * Shape::warp_tiles + n;
    unsigned const active = masks.active_m_tiles(tile);
#pragma unroll
    for (int t = 0; t < Shape::m_tiles; ++t) {
      if ((active >> t & 1u) != 0) {
        accumulator weight;
#pragma unroll
        for (int i = 0; i < Tiles::num_elements; ++i) {
          float const row_max = smem_.row_max[t * mma_dim + tiles_.row(Elements::row_leader(i))];
          weight.x[i]         = exp2_flushed(score.tile[n][t].x[i] - row_max);
        }
        tiles_.add_to_sums(Elements{}, weight, sum_[t], scratch_);
        tiles_.store_as_half(Elements{}, weight,
                             smem_.weight + t * mma_dim * weight_pitch + tile * mma_dim,
                             weight_pitch);
      }
    }
  }

  //! [warps, padded_m_rows], a value per warp and m-row, in the memory of weights that nobody needs.
  __device__ float* warp_values() const { return reinterpret_cast<float*>(smem_.weight); }

  //! Largest selected score of each m-row in this warp's tiles, -FLT_MAX where there is none.
  //! @param maxima [padded_m_rows], this warp's
  __device__ void find_row_maxima(scores const& score, page_masks<Shape> const& masks,
                                  float* maxima) {
#pragma unroll
    for (int t = 0; t < Shape::m_tiles; ++t) {
      float maximum = -FLT_MAX;
#pragma unroll
      for (int n = 0; n < Shape::warp_tiles; ++n) {
        if ((masks.active_m_tiles(warp_ * Shape::warp_tiles + n) >> t & 1u) != 0) {
          Tiles::store(scratch_, score.tile[n][t]);
          __syncwarp();
#pragma unroll
          for (int i = 0; i < mma_dim / 2; ++i) {
            maximum = larger(maximum, scratch_[lane_ * (mma_dim / 2) + i]);
          }
          __syncwarp();
        }
      }
      maximum = larger(maximum, __shfl_xor_sync(every_lane, maximum, 1));
      if (lane_ % 2 == 0) {
        maxima[t * mma_dim + lane_ / 2] = maximum;
      }
    }
  }

  shared_storage& smem_;
  float const scale_log2_;
  float* const scratch_;
  int const warp_;
  int const lane_;

  Tiles tiles_;
  float sum_[Shape::m_tiles][Tiles::lane_sums];
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
