// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The softmax of a CTA's m-rows, step by step: which scores count, the weights that come of
//! them, references and sums. Knows masks and accumulators; not where Q, K and V are.
#pragma once

#include <cuda_fp16.h>
#include <mma.h>

#include <cfloat>
#include <cstdint>

#include <pageunion/detail/attention_output.cuh>
#include <pageunion/detail/fragments.cuh>
#include <pageunion/detail/step_pages.cuh>
#include <pageunion/geometry.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! Scores of one warp's tiles of a step.
template <class Geometry>
struct score_fragments {
  sum_fragment tile[Geometry::warp_tiles][Geometry::m_tiles];
};

//! Online softmax in base 2. Every weight is relative to its row's reference, a maximum so far, which
//! moves only when a score exceeds it by more than rescale_threshold: exact, since outputs and sums
//! share the reference. A row's reference depends on the row's own scores alone.
//! Source: Milakov and Gimelshein, arXiv:1805.02867.
template <class Geometry>
class online_softmax {
  using G         = Geometry;
  using mask_type = typename G::mask_type;
  //! Sums of weights that a thread keeps of each m-tile; sum_row() says whose they are.
  static constexpr int lane_sums = 2;

 public:
  static constexpr int m_edge       = G::m_tiles * edge;   //!< m-rows, padded to whole tiles
  static constexpr int weight_pitch = G::step_tokens + 8;  //!< rows 4 banks apart

  //! Scores may exceed their row's reference by this much, in base 2, before it is moved. Weights
  //! then reach 2^8, which half holds with its full precision; sums are float.
  static constexpr float rescale_threshold = 8.0f;

  //! WMMA operands start on 32-byte boundaries.
  struct shared_storage {
    alignas(32) __half weight[m_edge * weight_pitch];  // at other times, values per warp and m-row
    alignas(32) float reference[m_edge];
    alignas(32) float factor[m_edge];
  };
  static_assert(sizeof(shared_storage::weight) >= sizeof(float) * G::warps * m_edge,
                "the weights' memory must hold one float per warp and m-row");

  //! @param scale_log2 makes scores of products, in base 2
  //! @param scratch    [256] shared memory of this warp alone, in use during calls only; a barrier must
  //!                   come between the constructor and whatever writes it next
  __device__ online_softmax(shared_storage& smem, float scale_log2, float* scratch)
      : smem_(smem),
        scale_log2_(scale_log2),
        scratch_(scratch),
        warp_(static_cast<int>(threadIdx.x) / warp_threads),
        lane_(static_cast<int>(threadIdx.x) % warp_threads) {
    map_.find(scratch);
  }

  //! Nothing seen yet. A CTA barrier must follow.
  __device__ void reset() {
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
#pragma unroll
      for (float& sum : sum_[t]) {
        sum = 0.0f;
      }
    }
    for (int m = static_cast<int>(threadIdx.x); m < m_edge; m += G::threads) {
      // A score of -FLT_MAX is legal and still right with this start: it has weight 1.
      smem_.reference[m] = -FLT_MAX;
    }
  }

  //! Where a thread's accumulator elements lie.
  __device__ accumulator_map& map() { return map_; }

  //! Row of element i of m-tile t. m-rows of the padding follow the last row; nothing of them is stored.
  __device__ int row_in_cta(int t, int i) const {
    int const m = t * edge + map_.row(i);
    return m < G::m_rows ? m / G::heads_per_kv : G::group_rows - 1;
  }

  //! score = scale * score where selected, else -inf, in base 2: which also ends NaN scores of other
  //! rows' tokens.
  //! @return true if a selected score exceeds its reference by more than rescale_threshold
  __device__ bool select(score_fragments<G>& score, page_masks<G> const& masks) {
    map_.hide_origin();
    float growth = 0.0f;
#pragma unroll
    for (int n = 0; n < G::warp_tiles; ++n) {
      growth = fmaxf(growth, map_.is_regular() ? select_tile<regular_elements>(score, masks, n)
                                               : select_tile<lone_elements>(score, masks, n));
    }
    return growth > rescale_threshold;
  }
  //! weight = exp2(score - reference), and the sums of the weights.
  __device__ void weigh(score_fragments<G> const& score, page_masks<G> const& masks) {
    map_.hide_origin();
#pragma unroll
    for (int n = 0; n < G::warp_tiles; ++n) {
      if (map_.is_regular()) {
        weigh_tile<regular_elements>(score, masks, n);
      } else {
        weigh_tile<lone_elements>(score, masks, n);
      }
    }
  }
  //! Moves the references of those rows that a selected score of this step outgrew to the row's
  //! maximum, and brings the sums of these rows, and of no other, to the new reference. Called by all
  //! threads of the CTA; load_factor() then gives what brings outputs there.
  __device__ void move_references(score_fragments<G> const& score, page_masks<G> const& masks) {
    find_row_maxima(score, masks, warp_values() + warp_ * m_edge);
    __syncthreads();
    for (int m = static_cast<int>(threadIdx.x); m < m_edge; m += G::threads) {
      float maximum = -FLT_MAX;
#pragma unroll
      for (int w = 0; w < G::warps; ++w) {
        maximum = fmaxf(maximum, warp_values()[w * m_edge + m]);
      }
      float const old     = smem_.reference[m];
      bool const outgrown = maximum - old > rescale_threshold;
      smem_.factor[m]     = outgrown ? exp2_flushed(old - maximum) : 1.0f;
      smem_.reference[m]  = outgrown ? maximum : old;
    }
    __syncthreads();
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
#pragma unroll
      for (int k = 0; k < lane_sums; ++k) {
        sum_[t][k] *= smem_.factor[t * edge + sum_row(k)];
      }
    }
  }

  //! What the outputs of m-tile t are to be multiplied by, each row's in all of its columns.
  __device__ void load_factor(sum_fragment& factor, int t) const {
    load_row_values(factor, smem_.factor + t * edge);
  }

  //! Sums each m-row over all lanes and warps, in a fixed order, and stores its lse. load_factor() then gives
  //! what normalises the outputs. Called by all threads of the CTA after the last step and a CTA
  //! barrier.
  __device__ void finish(attention_output<G> const& output) {
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
      // Each lane's sums go where only this lane has elements; a row is then summed by one lane.
      sum_fragment partial;
      nvcuda::wmma::fill_fragment(partial, 0.0f);
      if (map_.is_regular()) {
        partial.x[0] = sum_[t][0];
        partial.x[2] = sum_[t][1];
        nvcuda::wmma::store_matrix_sync(scratch_, partial, edge, nvcuda::wmma::mem_row_major);
      } else {
        scratch_[lane_ * (edge / 2)] = sum_[t][0];
#pragma unroll
        for (int i = 1; i < edge / 2; ++i) {
          scratch_[lane_ * (edge / 2) + i] = 0.0f;
        }
      }
      __syncwarp();
      if (lane_ < edge) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < edge; ++i) {
          sum += scratch_[lane_ * edge + i];
        }
        warp_values()[warp_ * m_edge + t * edge + lane_] = sum;
      }
      __syncwarp();
    }
    __syncthreads();
    for (int m = static_cast<int>(threadIdx.x); m < m_edge; m += G::threads) {
      float total = 0.0f;
#pragma unroll
      for (int w = 0; w < G::warps; ++w) {
        total += warp_values()[w * m_edge + m];
      }
      smem_.factor[m] = 1.0f / total;
      output.store_lse(m, smem_.reference[m] + log2f(total));
    }
    __syncthreads();
  }

 private:
  //! For each pair leader, the mask of the page that holds its token of tile `tile`, shifted so that
  //! bit row * page_tokens is the element's.
  template <class Elements>
  __device__ void load_masks(page_masks<G> const& masks,
                             mask_type (&words)[accumulator_map::num_elements], int tile) const {
#pragma unroll
    for (int i = 0; i < accumulator_map::num_elements; ++i) {
      if (Elements::pair_leader(i) == i) {
        auto const column = static_cast<unsigned>(map_.column(i));
        words[i]          = masks.mask_of(tile * G::tile_pages + column / G::page_tokens) >>
                   (column % G::page_tokens);
      }
    }
  }
  //! True if the row of element i of m-tile t attends to the element's token.
  template <class Elements>
  __device__ bool is_selected(mask_type const (&words)[accumulator_map::num_elements], int t,
                              int i) const {
    int const shift = row_in_cta(t, Elements::row_leader(i)) * G::page_tokens;
    return (words[Elements::pair_leader(i)] >> shift &
            (mask_type{1} << Elements::column_step(i))) != 0;
  }

  //! @return the largest excess of a selected score over its reference, at least 0
  template <class Elements>
  __device__ float select_tile(score_fragments<G>& score, page_masks<G> const& masks, int n) {
    int const tile = warp_ * G::warp_tiles + n;
    mask_type words[accumulator_map::num_elements];
    load_masks<Elements>(masks, words, tile);
    unsigned const active = masks.active_m_tiles(tile);
    float growth          = 0.0f;
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
      if ((active >> t & 1u) != 0) {
#pragma unroll
        for (int i = 0; i < accumulator_map::num_elements; ++i) {
          float& element        = score.tile[n][t].x[i];
          float const reference = smem_.reference[t * edge + map_.row(Elements::row_leader(i))];
          element = is_selected<Elements>(words, t, i) ? element * scale_log2_ : -INFINITY;
          growth  = fmaxf(growth, element - reference);
        }
      }
    }
    return growth;
  }

  template <class Elements>
  __device__ void weigh_tile(score_fragments<G> const& score, page_masks<G> const& masks, int n) {
    int const tile        = warp_ * G::warp_tiles + n;
    unsigned const active = masks.active_m_tiles(tile);
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
      if ((active >> t & 1u) != 0) {
        sum_fragment weight;
#pragma unroll
        for (int i = 0; i < accumulator_map::num_elements; ++i) {
          float const reference = smem_.reference[t * edge + map_.row(Elements::row_leader(i))];
          weight.x[i]           = exp2_flushed(score.tile[n][t].x[i] - reference);
        }
        sum_elements(Elements{}, weight, sum_[t]);
        store_as_half(Elements{}, map_, weight,
                      smem_.weight + t * edge * weight_pitch + tile * edge, weight_pitch);
      }
    }
  }

  //! Sums of a fragment's elements by row, each lane its share: of the rows of its own elements, or,
  //! if those are anywhere, of half of row lane / 2, through the warp's slot.
  __device__ void sum_elements(regular_elements, sum_fragment const& weight,
                               float (&sums)[lane_sums]) const {
#pragma unroll
    for (int i = 0; i < accumulator_map::num_elements; ++i) {
      sums[regular_elements::row_leader(i) / 2] += weight.x[i];
    }
  }
  __device__ void sum_elements(lone_elements, sum_fragment const& weight,
                               float (&sums)[lane_sums]) const {
    nvcuda::wmma::store_matrix_sync(scratch_, weight, edge, nvcuda::wmma::mem_row_major);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < edge / 2; ++i) {
      sums[0] += scratch_[lane_ * (edge / 2) + i];
    }
    __syncwarp();
  }
  //! The row, within its m-tile, of a lane's sum k.
  __device__ int sum_row(int k) const { return map_.is_regular() ? map_.row(2 * k) : lane_ / 2; }

  //! A value per warp and m-row, [warps, m_edge], where the weights are while there are none.
  __device__ float* warp_values() const { return reinterpret_cast<float*>(smem_.weight); }

  //! Largest selected score of each m-row in this warp's tiles, -FLT_MAX where there is none.
  //! @param maxima [m_edge], this warp's
  __device__ void find_row_maxima(score_fragments<G> const& score, page_masks<G> const& masks,
                                  float* maxima) {
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
      float maximum = -FLT_MAX;
#pragma unroll
      for (int n = 0; n < G::warp_tiles; ++n) {
        if ((masks.active_m_tiles(warp_ * G::warp_tiles + n) >> t & 1u) != 0) {
          nvcuda::wmma::store_matrix_sync(scratch_, score.tile[n][t], edge,
                                          nvcuda::wmma::mem_row_major);
          __syncwarp();
#pragma unroll
          for (int i = 0; i < edge / 2; ++i) {
            maximum = fmaxf(maximum, scratch_[lane_ * (edge / 2) + i]);
          }
          __syncwarp();
        }
      }
      maximum = fmaxf(maximum, __shfl_xor_sync(every_lane, maximum, 1));
      if (lane_ % 2 == 0) {
        maxima[t * edge + lane_ / 2] = maximum;
      }
    }
  }

  shared_storage& smem_;
  float const scale_log2_;
  float* const scratch_;
  int const warp_;
  int const lane_;

  accumulator_map map_;
  float sum_[G::m_tiles][lane_sums];
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
