// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Attention of one CTA: some rows' heads of one KV head against a list of pages with masks.
//! Both attention routes are this class with their own source of pages.
#pragma once

#include <cuda_fp16.h>
#include <mma.h>

#include <cstdint>

#include <pageunion/detail/attention_output.cuh>
#include <pageunion/detail/fragments.cuh>
#include <pageunion/detail/online_softmax.cuh>
#include <pageunion/detail/slice.cuh>
#include <pageunion/detail/step_pages.cuh>
#include <pageunion/geometry.hpp>
#include <pageunion/kv_cache.hpp>
#include <pageunion/operands.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! The rows of one CTA, all heads of one KV head, in these phases:
//!
//!   load_queries | per step: score_tiles, select | weigh | accumulate | finish | store
//!
//! A bar is a CTA barrier. A step has warp_tiles tiles of 16 tokens per warp. In score_tiles, select and
//! weigh each warp owns its tiles' tokens, in accumulate each warp owns head_dim / warps elements of the
//! output, so that every element of K and V is staged by the one warp that multiplies it, and only
//! the weights cross warps.
//!
//! The barrier after select also says that all warps have finished accumulate of the step before, and
//! whether references must move (online_softmax).
//! Source: tiling, Dao et al., arXiv:2205.14135, algorithm 1.
//!
//! V is multiplied as it is, though 0 x NaN spoils rows that did not select the token. If an output
//! comes out Inf or NaN, the CTA does all steps again and keeps Inf and NaN of V out of the products,
//! adding them to the rows that selected them: the same sums in the same order.
//!
//! @tparam Pages has `int num_pages() const` and `page_entry<Geometry> load(int index) const` for
//!         0 <= index < num_pages(), called by any thread
template <class Geometry, class Pages>
class attention_cta {
  using G                     = Geometry;
  using softmax               = online_softmax<G>;
  using mask_type             = typename G::mask_type;
  using keys                  = slice<G::key_dims, G>;
  using values                = slice<G::value_dims, G>;
  static constexpr int m_edge = softmax::m_edge;

  static constexpr int query_pitch  = G::head_dim + 8;  // rows 4 banks apart
  static constexpr int weight_pitch = softmax::weight_pitch;
  static constexpr int key_slices   = G::head_dim / keys::num_dims;
  static constexpr int value_tiles  = values::num_tokens / edge;  // tiles of a value slice
  static constexpr int value_slices = G::step_tiles / value_tiles;
  static constexpr int slot_halves =
      keys::slot_halves > values::slot_halves ? keys::slot_halves : values::slot_halves;
  static_assert(keys::num_tokens == G::warp_tiles * edge, "a key slice must be a warp's tokens");
  static_assert(G::step_tiles % value_tiles == 0, "a step must be a whole number of value slices");

 public:
  //! WMMA operands start on 32-byte boundaries.
  struct shared_storage {
    alignas(32) __half query[m_edge * query_pitch];
    alignas(32) __half slot[G::warps][slot_halves];  // each warp's own
    typename softmax::shared_storage weights;
  };
  static_assert(sizeof(shared_storage) * G::ctas_per_sm <= sm70_limits::smem_bytes_per_sm,
                "the shared memory of ctas_per_sm CTAs must fit an SM: lower ctas_per_sm, or halve "
                "group_rows");

  //! @param first_row row of the batch that the CTA's row 0 is
  //! @param num_rows  rows of the CTA that exist
  __device__ attention_cta(attention_params const& params, Pages const& pages, shared_storage& smem,
                           std::int32_t first_row, int num_rows, std::int32_t kv_head)
      : params_(params),
        pages_(pages),
        smem_(smem),
        output_(params, first_row, num_rows, kv_head),
        warp_(static_cast<int>(threadIdx.x) / warp_threads),
        lane_(static_cast<int>(threadIdx.x) % warp_threads),
        slot_(smem.slot[warp_]),
        softmax_(smem.weights, params.scale_log2, reinterpret_cast<float*>(slot_)),
        keys_(params.operands.cache.k, params.operands.cache.k_strides, kv_head, 0),
        values_(params.operands.cache.v, params.operands.cache.v_strides, kv_head,
                warp_ * G::value_dims) {}

  __device__ void run() {
    load_queries();
#pragma unroll 2  // the first pass then knows that it is not the careful one
    do {
      attend();
    } while (needs_care());
    output_.set_chosen(masks_.all_masks());
    softmax_.finish(output_);
    store();
  }

 private:
  //! Queries of the CTA's m-rows; padding is 0, so that no stray bits enter a product.
  __device__ void load_queries() {
    constexpr int vector_halves = 8;
    constexpr int row_vectors   = G::head_dim / vector_halves;
    query_view const& q         = params_.operands.q;
    for (int v = static_cast<int>(threadIdx.x); v < m_edge * row_vectors; v += G::threads) {
      int const m   = v / row_vectors;
      int const dim = v % row_vectors * vector_halves;
      uint4 vector  = make_uint4(0, 0, 0, 0);
      if (output_.exists(m)) {
        vector = __ldg(reinterpret_cast<uint4 const*>(q.data + output_.row(m) * q.row_stride +
                                                      output_.head(m) * q.head_stride + dim));
      }
      *reinterpret_cast<uint4*>(smem_.query + m * query_pitch + dim) = vector;
    }
  }

  //! All steps, from nothing.
  __device__ void attend() {
    reset();
    int const num_steps = (pages_.num_pages() + G::step_pages - 1) / G::step_pages;
    if (num_steps > 0) {
      begin_step(load_entry(0), 0);
    }
    __syncthreads();
    for (int step = 0; step < num_steps; ++step) {
      score_fragments<G> score;
      score_tiles(score);
      if (__syncthreads_or(softmax_.select(score, masks_)) != 0) {
        softmax_.move_references(score, masks_);
        rescale();
      }
      softmax_.weigh(score, masks_);
      __syncthreads();
      accumulate(step + 1);
    }
  }
  __device__ void reset() {
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
#pragma unroll
      for (int c = 0; c < G::value_columns; ++c) {
        nvcuda::wmma::fill_fragment(out_[t][c], 0.0f);
      }
    }
    softmax_.reset();
  }
  //! True, once, if any output sum of the CTA is Inf or NaN.
  __device__ bool needs_care() {
    bool const was_careful = is_careful_;
    is_careful_            = __syncthreads_or(has_special_output()) != 0;
    return is_careful_ && !was_careful;
  }
  //! True if an output sum of this thread is Inf or NaN.
  __device__ bool has_special_output() const {
    float sum = 0.0f;
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
#pragma unroll
      for (int c = 0; c < G::value_columns; ++c) {
#pragma unroll
        for (int i = 0; i < accumulator_map::num_elements; ++i) {
          sum = fmaf(out_[t][c].x[i], 0.0f, sum);
        }
      }
    }
    return isnan(sum);
  }

  //! This lane's page of a step: lane p holds page p. Past the end, the last page, so that what is
  //! loaded for it exists.
  __device__ page_entry<G> load_entry(int step) const {
    int const index = step * G::step_pages + lane_;
    int const last  = pages_.num_pages() - 1;
    return pages_.load(index < last ? index : last);
  }

  //! Makes `entry` the lane's page of step `step` and issues the loads of the step's first keys.
  //! Only here is the entry looked at: its load may still be under way until now.
  __device__ void begin_step(page_entry<G> entry, int step) {
    hide_origin(entry.block);
    hide_origin(entry.first_token);
    keys_.begin_step(entry);
    keys_.find(addresses_, warp_ * G::warp_tiles * G::tile_pages);
    load_keys(0);
    values_.begin_step(entry);
    bool const exists = lane_ < G::step_pages && step * G::step_pages + lane_ < pages_.num_pages();
    masks_.begin_step(exists ? entry.mask : mask_type{0});
  }
  __device__ void load_keys(int key_slice) {
    load_slice(staged_, addresses_, key_slice * keys::num_dims);
  }
  __device__ void load_values(int value_slice) {
    lane_addresses<G::lane_vectors> addresses;
    values_.find(addresses, value_slice * value_tiles * G::tile_pages);
    load_slice(staged_, addresses, 0);
  }

  //! The m-tiles that a product is done for: all of them, known at compile time.
  struct every_m_tile {
    __device__ constexpr bool operator()(int) const { return true; }
  };
  //! The m-tiles that a product is done for: those with a bit.
  struct some_m_tiles {
    unsigned active;
    __device__ bool operator()(int t) const { return (active >> t & 1u) != 0; }
  };
  static constexpr unsigned every_m_tile_bits = (1u << G::m_tiles) - 1u;

  //! score = Q K^T for this warp's tiles of tokens.
  __device__ void score_tiles(score_fragments<G>& score) {
    unsigned active = 0;
#pragma unroll
    for (int n = 0; n < G::warp_tiles; ++n) {
      active |= masks_.active_m_tiles(warp_ * G::warp_tiles + n);
#pragma unroll
      for (sum_fragment& fragment : score.tile[n]) {
        nvcuda::wmma::fill_fragment(fragment, 0.0f);
      }
    }
#pragma unroll 2
    for (int s = 0; s < key_slices; ++s) {
      store_slice<keys>(staged_, slot_);
      __syncwarp();
      if (s + 1 < key_slices) {
        load_keys(s + 1);
      } else {
        load_values(0);
      }
      if (active == every_m_tile_bits) {
        multiply_keys(score, s, every_m_tile{});
      } else if (active != 0) {
        multiply_keys(score, s, some_m_tiles{active});
      }
      __syncwarp();
    }
  }
  template <class MTiles>
  __device__ void multiply_keys(score_fragments<G>& score, int s, MTiles is_wanted) {
#pragma unroll
    for (int d = 0; d < keys::num_dims; d += edge) {
      key_fragment key[G::warp_tiles];
#pragma unroll
      for (int n = 0; n < G::warp_tiles; ++n) {
        nvcuda::wmma::load_matrix_sync(key[n], slot_ + n * edge * keys::pitch + d, keys::pitch);
      }
#pragma unroll
      for (int t = 0; t < G::m_tiles; ++t) {
        if (is_wanted(t)) {
          row_fragment query;
          nvcuda::wmma::load_matrix_sync(
              query, smem_.query + t * edge * query_pitch + s * keys::num_dims + d, query_pitch);
#pragma unroll
          for (int n = 0; n < G::warp_tiles; ++n) {
            nvcuda::wmma::mma_sync(score.tile[n][t], query, key[n], score.tile[n][t]);
          }
        }
      }
    }
  }

  //! Brings the outputs to the references that moved.
  __device__ void rescale() {
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
      sum_fragment factor;
      softmax_.load_factor(factor, t);
#pragma unroll
      for (int i = 0; i < accumulator_map::num_elements; ++i) {
#pragma unroll
        for (int c = 0; c < G::value_columns; ++c) {
          // An infinite sum stays infinite, also where the factor is 0 for want of exponent range.
          float& out = out_[t][c].x[i];
          out        = isinf(out) ? out : out * factor.x[i];
        }
      }
    }
  }

  //! out += weight V for this warp's elements of head_dim.
  //! Ends by beginning step `next` and so issuing the loads of its first keys.
  __device__ void accumulate(int next) {
    page_entry<G> const entry = load_entry(next);
#pragma unroll 2
    for (int s = 0; s < value_slices; ++s) {
      unsigned active[value_tiles];
#pragma unroll
      for (int i = 0; i < value_tiles; ++i) {
        active[i] = masks_.active_m_tiles(s * value_tiles + i);
      }
      if (is_careful_ && __any_sync(every_lane, has_specials(staged_)) != 0) {
        add_specials(s);
        remove_specials(staged_);
      }
      store_slice<values>(staged_, slot_);
      __syncwarp();
      if (s + 1 < value_slices) {
        load_values(s + 1);
      } else {
        begin_step(entry, next);
      }
#pragma unroll
      for (int i = 0; i < value_tiles; ++i) {
        __half const* const weight = smem_.weights.weight + (s * value_tiles + i) * edge;
        __half const* const value  = slot_ + i * edge * values::pitch;
        if (active[i] == every_m_tile_bits) {
          multiply_values(weight, value, every_m_tile{});
        } else if (active[i] != 0) {
          multiply_values(weight, value, some_m_tiles{active[i]});
        }
      }
      __syncwarp();
    }
  }
  template <class MTiles>
  __device__ void multiply_values(__half const* weights_of_tile, __half const* values_of_tile,
                                  MTiles is_wanted) {
    value_fragment value[G::value_columns];
#pragma unroll
    for (int c = 0; c < G::value_columns; ++c) {
      nvcuda::wmma::load_matrix_sync(value[c], values_of_tile + c * edge, values::pitch);
    }
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
      if (is_wanted(t)) {
        row_fragment weight;
        nvcuda::wmma::load_matrix_sync(weight, weights_of_tile + t * edge * weight_pitch,
                                       weight_pitch);
#pragma unroll
        for (int c = 0; c < G::value_columns; ++c) {
          nvcuda::wmma::mma_sync(out_[t][c], weight, value[c], out_[t][c]);
        }
      }
    }
  }

  //! Adds the Inf and NaN of the staged values to the outputs of the rows that selected their tokens,
  //! and to no other: in the product, 0 x NaN would reach every row. A weight is never 0 in exact
  //! arithmetic, so the value itself is what it contributes. Rare and slow.
  __device__ void add_specials(int s) {
    accumulator_map& map = softmax_.map();
    map.hide_origin();
    store_slice<values>(staged_, slot_);
    __syncwarp();
#pragma unroll 2
    for (int token = 0; token < values::num_tokens; ++token) {
      mask_type const mask = masks_.mask_of((s * values::num_tokens + token) / G::page_tokens) >>
                             (token % G::page_tokens);
#pragma unroll
      for (int i = 0; i < accumulator_map::num_elements; ++i) {
#pragma unroll
        for (int c = 0; c < G::value_columns; ++c) {
          __half const value  = slot_[token * values::pitch + c * edge + map.column(i)];
          float const special = is_special(value) ? __half2float(value) : 0.0f;
#pragma unroll
          for (int t = 0; t < G::m_tiles; ++t) {
            bool const selected = (mask >> (softmax_.row_in_cta(t, i) * G::page_tokens) & 1u) != 0;
            out_[t][c].x[i] += selected ? special : 0.0f;
          }
        }
      }
    }
    __syncwarp();
  }

  //! Divides by the sums and writes this warp's elements of every row, 16 columns at a time through
  //! the warp's slot.
  __device__ void store() {
    auto* const scratch = reinterpret_cast<float*>(slot_);
    int const row       = lane_ / 2;
    int const column    = lane_ % 2 * (edge / 2);
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
      sum_fragment factor;
      softmax_.load_factor(factor, t);
#pragma unroll
      for (int c = 0; c < G::value_columns; ++c) {
#pragma unroll
        for (int i = 0; i < accumulator_map::num_elements; ++i) {
          out_[t][c].x[i] *= factor.x[i];
        }
        nvcuda::wmma::store_matrix_sync(scratch, out_[t][c], edge, nvcuda::wmma::mem_row_major);
        __syncwarp();
        output_.store(t * edge + row, warp_ * G::value_dims + c * edge + column,
                      scratch + row * edge + column);
        __syncwarp();
      }
    }
  }

  attention_params const& params_;
  Pages const& pages_;
  shared_storage& smem_;
  attention_output<G> output_;
  int const warp_;
  int const lane_;
  __half* const slot_;

  softmax softmax_;
  bool is_careful_ = false;  // keeps Inf and NaN of V out of the products
  page_reader<G, keys> keys_;
  page_reader<G, values> values_;
  page_masks<G> masks_;
  lane_addresses<G::lane_vectors> addresses_;  // of the step's keys
  lane_share<G::lane_vectors> staged_;         // the slice in flight
  sum_fragment out_[G::m_tiles][G::value_columns];
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
