// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The loop of a CTA over its pages by WMMA: some rows' heads of one KV head against a list of
//! pages with masks. Both attention routes are this loop with their own list.
#pragma once

#include <pageunion/detail/attention/cta_rows.cuh>
#include <pageunion/detail/attention/online_softmax.cuh>
#include <pageunion/detail/attention/sm70/wmma_tiles.cuh>
#include <pageunion/operands.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! The phases of a CTA:
//!
//!   load_queries | per step: multiply_keys, mask_scores | exponentiate | accumulate | finish, store
//!
//! A bar is a CTA barrier. A step has warp_tiles tiles of 16 tokens per warp. Until the weights are made
//! each warp owns its tiles' tokens, in accumulate each warp owns head_dim / warps elements of the
//! output, so that every element of K and V is staged by the one warp that multiplies it, and only
//! the weights cross warps.
//!
//! The barrier after mask_scores also says that all warps have finished accumulate of the step before,
//! and whether a row_max must be raised (online_softmax).
//! Source: tiling, Dao et al., arXiv:2205.14135, algorithm 1.
//!
//! V is multiplied as it is, though 0 x NaN spoils rows that did not select the token. If an output
//! comes out Inf or NaN, the CTA does all steps again and keeps Inf and NaN of V out of the products,
//! adding them to the rows that selected them: the same sums in the same order.
//!
//! @tparam Shape attention_shape
template <class Shape>
class wmma_loop {
  using softmax     = online_softmax<Shape, wmma_tiles>;
  using accumulator = wmma_tiles::accumulator;
  using scores      = score_tiles<Shape, wmma_tiles>;
  using mask_type   = typename Shape::mask_type;
  using codec       = typename Shape::codec;
  using keys        = slice<Shape::key_dims, Shape>;
  using values      = slice<Shape::value_dims, Shape>;

  static constexpr int query_pitch  = Shape::head_dim + 8;  // rows 4 banks apart
  static constexpr int weight_pitch = softmax::weight_pitch;
  static constexpr int key_slices   = Shape::head_dim / keys::num_dims;
  static constexpr int value_tiles  = values::num_tokens / mma_dim;  // tiles of a value slice
  static constexpr int value_slices = Shape::step_tiles / value_tiles;
  static constexpr auto stage_halves =
      keys::stage_halves > values::stage_halves ? keys::stage_halves : values::stage_halves;
  static_assert(Shape::step_tiles % value_tiles == 0,
                "a step must be a whole number of value slices");

 public:
  using shape = Shape;

  //! Operands of WMMA start on 32-byte boundaries.
  struct shared_storage {
    alignas(32) __half query[Shape::padded_m_rows * query_pitch];
    alignas(32) __half stage[Shape::warps][stage_halves];  // each warp's own
    typename softmax::shared_storage weights;
  };

  //! @param scale_log2 factor from products q . k to scores of base 2
  __device__ wmma_loop(query_view const& q, kv_cache const& cache, float scale_log2,
                       cta_rows<Shape> const& rows, shared_storage& smem)
      : q_(q),
        rows_(rows),
        smem_(smem),
        warp_(static_cast<int>(threadIdx.x) / warp_threads),
        lane_(static_cast<int>(threadIdx.x) % warp_threads),
        stage_(smem.stage[warp_]),
        softmax_(smem.weights, scale_log2, reinterpret_cast<float*>(stage_)),
        keys_(cache.k, cache.k_strides, rows.kv_head, 0),
        values_(cache.v, cache.v_strides, rows.kv_head, warp_ * Shape::value_dims) {}

  //! Attends to all pages and gives the results to the epilogue.
  //! @tparam Pages has `int num_pages() const` and `page_entry<Shape> load(int index) const` for
  //!         0 <= index < num_pages(), called by any thread
  template <class Pages, class Epilogue>
  __device__ void run(Pages const& pages, Epilogue& epilogue) {
    load_queries();
#pragma unroll 2  // the first pass then knows that it is the first
    do {
      attend(pages);
    } while (must_exclude_nonfinite());
    epilogue.set_chosen(masks_.all_masks());
    softmax_.finish(epilogue);
    store(epilogue);
  }

 private:
  //! Stores the queries of the CTA's m-rows; padding is 0, so that no stray bits enter a product.
  __device__ void load_queries() {
    constexpr int vector_halves = 8;
    constexpr int row_vectors   = Shape::head_dim / vector_halves;
    for (int v = static_cast<int>(threadIdx.x); v < Shape::padded_m_rows * row_vectors;
         v += Shape::threads) {
      int const m   = v / row_vectors;
      int const dim = v % row_vectors * vector_halves;
      uint4 vector  = make_uint4(0, 0, 0, 0);
      if (rows_.exists(m)) {
        vector = __ldg(reinterpret_cast<uint4 const*>(q_.data + rows_.row(m) * q_.row_stride +
                                                      rows_.head(m) * q_.head_stride + dim));
      }
      *reinterpret_cast<uint4*>(smem_.query + m * query_pitch + dim) = vector;
    }
  }

  //! Does all steps, beginning with empty sums.
  template <class Pages>
  __device__ void attend(Pages const& pages) {
    reset();
    int const num_steps = (pages.num_pages() + Shape::step_pages - 1) / Shape::step_pages;
    if (num_steps > 0) {
      begin_step(pages, load_entry(pages, 0), 0);
    }
    __syncthreads();
    for (int step = 0; step < num_steps; ++step) {
      scores score;
      multiply_queries(score);
      if (__syncthreads_or(softmax_.mask_scores(score, masks_)) != 0) {
        softmax_.raise_row_max(score, masks_);
        rescale();
      }
      softmax_.exponentiate(score, masks_);
      __syncthreads();
      accumulate(pages, step + 1);
    }
  }
  __device__ void reset() {
#pragma unroll
    for (int t = 0; t < Shape::m_tiles; ++t) {
#pragma unroll
      for (int c = 0; c < Shape::value_columns; ++c) {
        nvcuda::wmma::fill_fragment(out_[t][c], 0.0f);
      }
    }
    softmax_.reset();
  }
  //! True, once, if any output sum of the CTA is Inf or NaN.
  __device__ bool must_exclude_nonfinite() {
    bool const did_exclude = excludes_nonfinite_;
    excludes_nonfinite_    = __syncthreads_or(has_nonfinite_output()) != 0;
    return excludes_nonfinite_ && !did_exclude;
  }
  //! True if an output sum of this thread is Inf or NaN.
  __device__ bool has_nonfinite_output() const {
    bool found = false;
#pragma unroll
    for (int t = 0; t < Shape::m_tiles; ++t) {
#pragma unroll
      for (int c = 0; c < Shape::value_columns; ++c) {
#pragma unroll
        for (int i = 0; i < wmma_tiles::num_elements; ++i) {
          found |= is_nonfinite(out_[t][c].x[i]);
        }
      }
    }
    return found;
  }

  //! Loads page p of a step in lane p; past the end the last page, so that what a lane reads exists.
  template <class Pages>
  __device__ page_entry<Shape> load_entry(Pages const& pages, int step) const {
    int const index = step * Shape::step_pages + lane_;
    int const last  = pages.num_pages() - 1;
    return pages.load(index < last ? index : last);
  }

  //! Makes `entry` the lane's page of step `step` and issues the loads of the step's first keys.
  //! Only here is the entry looked at: its load may still be under way until now.
  template <class Pages>
  __device__ void begin_step(Pages const& pages, page_entry<Shape> entry, int step) {
    hide_origin(entry.block);
    hide_origin(entry.first_token);
    keys_.begin_step(entry);
    keys_.find(addresses_, warp_ * Shape::warp_tiles * Shape::tile_pages);
    load_keys(0);
    values_.begin_step(entry);
    bool const exists =
        lane_ < Shape::step_pages && step * Shape::step_pages + lane_ < pages.num_pages();
    masks_.begin_step(exists ? entry.mask : mask_type{0});
  }
  __device__ void load_keys(int key_slice) {
    load_slice(staged_, addresses_, key_slice * keys::num_dims * sizeof(typename codec::storage));
  }
  __device__ void load_values(int value_slice) {
    lane_addresses<Shape::lane_vectors> addresses;
    values_.find(addresses, value_slice * value_tiles * Shape::tile_pages);
    load_slice(staged_, addresses, 0);
  }

  //! Calls multiply(has_bit), where has_bit(t) says if m-tile t has a bit: a constant if all have one.
  template <class Multiply>
  static __device__ void for_m_tiles(unsigned active, Multiply const& multiply) {
    if (active == (1u << Shape::m_tiles) - 1u) {
      multiply([](int) { return true; });
    } else if (active != 0) {
      multiply([active](int t) { return (active >> t & 1u) != 0; });
    }
  }

  //! score = Q K^T for this warp's tiles of tokens.
  __device__ void multiply_queries(scores& score) {
    unsigned active = 0;
#pragma unroll
    for (int n = 0; n < Shape::warp_tiles; ++n) {
      active |= masks_.active_m_tiles(warp_ * Shape::warp_tiles + n);
#pragma unroll
      for (accumulator& tile : score.tile[n]) {
        nvcuda::wmma::fill_fragment(tile, 0.0f);
      }
    }
#pragma unroll 2
    for (int s = 0; s < key_slices; ++s) {
      store_slice<keys>(staged_, stage_);
      __syncwarp();
      if (s + 1 < key_slices) {
        load_keys(s + 1);
      } else {
        load_values(0);
      }
      for_m_tiles(active, [&](auto has_bit) { this->multiply_keys(score, s, has_bit); });
      __syncwarp();
    }
  }
  template <class HasBit>
  __device__ void multiply_keys(scores& score, int s, HasBit has_bit) {
#pragma unroll
    for (int d = 0; d < keys::num_dims; d += mma_dim) {
      key_fragment key[Shape::warp_tiles];
#pragma unroll
      for (int n = 0; n < Shape::warp_tiles; ++n) {
        nvcuda::wmma::load_matrix_sync(key[n], stage_ + n * mma_dim * keys::pitch + d, keys::pitch);
      }
#pragma unroll
      for (int t = 0; t < Shape::m_tiles; ++t) {
        if (has_bit(t)) {
          row_fragment query;
          nvcuda::wmma::load_matrix_sync(
              query, smem_.query + t * mma_dim * query_pitch + s * keys::num_dims + d, query_pitch);
#pragma unroll
          for (int n = 0; n < Shape::warp_tiles; ++n) {
            nvcuda::wmma::mma_sync(score.tile[n][t], query, key[n], score.tile[n][t]);
          }
        }
      }
    }
  }

  //! Multiplies the outputs by the factors of the m-rows whose row_max was raised.
  __device__ void rescale() {
#pragma unroll
    for (int t = 0; t < Shape::m_tiles; ++t) {
      accumulator factor;
      softmax_.load_factor(factor, t);
#pragma unroll
      for (int i = 0; i < wmma_tiles::num_elements; ++i) {
#pragma unroll
        for (int c = 0; c < Shape::value_columns; ++c) {
          // An infinite sum stays infinite, also where the factor is 0 for want of exponent range.
          float& out = out_[t][c].x[i];
          out        = is_nonfinite(out) ? out : out * factor.x[i];
        }
      }
    }
  }

  //! out += weight V for this warp's elements of head_dim.
  //! Ends by beginning step `next` and so issuing the loads of its first keys.
  template <class Pages>
  __device__ void accumulate(Pages const& pages, int next) {
    page_entry<Shape> const entry = load_entry(pages, next);
#pragma unroll 2
    for (int s = 0; s < value_slices; ++s) {
      unsigned active[value_tiles];
#pragma unroll
      for (int i = 0; i < value_tiles; ++i) {
        active[i] = masks_.active_m_tiles(s * value_tiles + i);
      }
      if (excludes_nonfinite_ && __any_sync(every_lane, has_nonfinite<codec>(staged_)) != 0) {
        add_nonfinite(s);
        remove_nonfinite<codec>(staged_);
      }
      store_slice<values>(staged_, stage_);
      __syncwarp();
      if (s + 1 < value_slices) {
        load_values(s + 1);
      } else {
        begin_step(pages, entry, next);
      }
#pragma unroll
      for (int i = 0; i < value_tiles; ++i) {
        __half const* const weight = smem_.weights.weight + (s * value_tiles + i) * mma_dim;
        __half const* const value  = stage_ + i * mma_dim * values::pitch;
        for_m_tiles(active[i],
                    [&](auto has_bit) { this->multiply_values(weight, value, has_bit); });
      }
      __syncwarp();
    }
  }
  template <class HasBit>
  __device__ void multiply_values(__half const* weights_of_tile, __half const* values_of_tile,
                                  HasBit has_bit) {
    value_fragment value[Shape::value_columns];
#pragma unroll
    for (int c = 0; c < Shape::value_columns; ++c) {
      nvcuda::wmma::load_matrix_sync(value[c], values_of_tile + c * mma_dim, values::pitch);
    }
#pragma unroll
    for (int t = 0; t < Shape::m_tiles; ++t) {
      if (has_bit(t)) {
        row_fragment weight;
        nvcuda::wmma::load_matrix_sync(weight, weights_of_tile + t * mma_dim * weight_pitch,
                                       weight_pitch);
#pragma unroll
        for (int c = 0; c < Shape::value_columns; ++c) {
          nvcuda::wmma::mma_sync(out_[t][c], weight, value[c], out_[t][c]);
        }
      }
    }
  }

  //! Adds the Inf and NaN of the staged values to the outputs of the rows that selected their tokens,
  //! and to no other: in the product, 0 x NaN would reach every row. A weight is never 0 in exact
  //! arithmetic, so the value itself is what it contributes. Rare and slow.
  __device__ void add_nonfinite(int s) {
    wmma_tiles& tiles = softmax_.tiles();
    tiles.hide_origin();
    store_slice<values>(staged_, stage_);
    __syncwarp();
#pragma unroll 2
    for (int token = 0; token < values::num_tokens; ++token) {
      mask_type const mask =
          masks_.mask_of((s * values::num_tokens + token) / Shape::page_tokens) >>
          (token % Shape::page_tokens);
#pragma unroll
      for (int i = 0; i < wmma_tiles::num_elements; ++i) {
#pragma unroll
        for (int c = 0; c < Shape::value_columns; ++c) {
          __half const value    = stage_[token * values::pitch + c * mma_dim + tiles.column(i)];
          float const nonfinite = is_nonfinite(value) ? __half2float(value) : 0.0f;
#pragma unroll
          for (int t = 0; t < Shape::m_tiles; ++t) {
            bool const selected =
                (mask >> (softmax_.row_in_cta(t, i) * Shape::page_tokens) & 1u) != 0;
            out_[t][c].x[i] += selected ? nonfinite : 0.0f;
          }
        }
      }
    }
    __syncwarp();
  }

  //! Normalises the outputs and gives this warp's elements of every m-row to the epilogue, 16 columns at
  //! a time through the warp's stage.
  template <class Epilogue>
  __device__ void store(Epilogue const& epilogue) {
    auto* const scratch = reinterpret_cast<float*>(stage_);
    int const row       = lane_ / 2;
    int const column    = lane_ % 2 * (mma_dim / 2);
#pragma unroll
    for (int t = 0; t < Shape::m_tiles; ++t) {
      accumulator factor;
      softmax_.load_factor(factor, t);
#pragma unroll
      for (int c = 0; c < Shape::value_columns; ++c) {
#pragma unroll
        for (int i = 0; i < wmma_tiles::num_elements; ++i) {
          out_[t][c].x[i] *= factor.x[i];
        }
        wmma_tiles::store(scratch, out_[t][c]);
        __syncwarp();
        epilogue.store(t * mma_dim + row, warp_ * Shape::value_dims + c * mma_dim + column,
                       scratch + row * mma_dim + column);
        __syncwarp();
      }
    }
  }

  query_view const& q_;
  cta_rows<Shape> const& rows_;
  shared_storage& smem_;
  int const warp_;
  int const lane_;
  __half* const stage_;

  softmax softmax_;
  bool excludes_nonfinite_ = false;  // keeps Inf and NaN of V out of the products
  page_loader<Shape, keys> keys_;
  page_loader<Shape, values> values_;
  page_masks<Shape> masks_;
  lane_addresses<Shape::lane_vectors> addresses_;  // of the step's keys
  lane_share<Shape::lane_vectors> staged_;         // the slice in flight
  accumulator out_[Shape::m_tiles][Shape::value_columns];
};

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
