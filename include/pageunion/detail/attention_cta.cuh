// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. Attention of one CTA: some rows' heads of one KV head against a list of pages with masks.
//! Both attention routes are this class with their own source of pages.
#pragma once

#include <cuda_fp16.h>
#include <mma.h>

#include <cfloat>
#include <cstdint>

#include <pageunion/detail/attention_output.cuh>
#include <pageunion/detail/fragments.cuh>
#include <pageunion/detail/slice.cuh>
#include <pageunion/detail/step_pages.cuh>
#include <pageunion/geometry.hpp>
#include <pageunion/kv_cache.hpp>
#include <pageunion/operands.hpp>

namespace pageunion::detail {

//! The rows of one CTA, all heads of one KV head, in these phases:
//!
//!   load_queries | per step: score_tiles, select | weigh | accumulate | reduce_sums | store
//!
//! A bar is a CTA barrier. A step has warp_tiles tiles of 16 tokens per warp. In score_tiles, select and
//! weigh each warp owns its tiles' tokens, in accumulate each warp owns head_dim / warps elements of the
//! output, so that every element of K and V is staged by the one warp that multiplies it, and only
//! the weights cross warps.
//!
//! The barrier after select also says that all warps have finished accumulate of the step before, and
//! that a selected score exceeds its row's reference (a maximum so far) by more than
//! rescale_threshold: only then, rescale moves that row's reference. Exact, since outputs and sums
//! share the reference.
//! Source: online softmax, Milakov and Gimelshein, arXiv:1805.02867; tiling, Dao et al.,
//! arXiv:2205.14135, algorithm 1.
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
  using mask_type             = typename G::mask_type;
  using keys                  = slice<G::key_dims, G::lane_vectors>;
  using values                = slice<G::value_dims, G::lane_vectors>;
  static constexpr int m_edge = G::m_tiles * edge;  // m-rows, padded to whole tiles

  static constexpr int query_pitch  = G::head_dim + 8;     // rows 4 banks apart
  static constexpr int weight_pitch = G::step_tokens + 8;  // the same
  static constexpr int key_slices   = G::head_dim / keys::num_dims;
  static constexpr int value_tiles  = values::num_tokens / edge;  // tiles of a value slice
  static constexpr int value_slices = G::step_tiles / value_tiles;
  static constexpr int slot_halves =
      keys::slot_halves > values::slot_halves ? keys::slot_halves : values::slot_halves;
  //! Sums of weights that a thread keeps of each m-tile; sum_row() says whose they are.
  static constexpr int lane_sums = 2;
  static_assert(keys::num_tokens == G::warp_tiles * edge, "a key slice must be a warp's tokens");
  static_assert(G::step_tiles % value_tiles == 0, "a step must be a whole number of value slices");

  //! Scores of this warp's tiles.
  struct score_fragments {
    sum_fragment tile[G::warp_tiles][G::m_tiles];
  };

 public:
  //! Scores may exceed their row's reference by this much, in base 2, before it is moved. Weights
  //! then reach 2^8, which half holds with its full precision; sums are float.
  static constexpr float rescale_threshold = 8.0f;

  //! WMMA operands start on 32-byte boundaries.
  struct shared_storage {
    alignas(32) __half query[m_edge * query_pitch];
    alignas(32) __half weight[m_edge * weight_pitch];  // at other times, values per warp and m-row
    alignas(32) __half slot[G::warps][slot_halves];    // each warp's own
    alignas(32) float reference[m_edge];
    alignas(32) float factor[m_edge];
  };
  static_assert(sizeof(shared_storage) * G::ctas_per_sm <= sm70_limits::smem_bytes_per_sm,
                "the shared memory of ctas_per_sm CTAs must fit an SM: lower ctas_per_sm, or halve "
                "group_rows");
  static_assert(sizeof(shared_storage::weight) >= sizeof(float) * G::warps * m_edge,
                "the weights' memory must hold one float per warp and m-row");

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
        keys_(params.operands.cache.k, params.operands.cache.k_strides, kv_head, 0),
        values_(params.operands.cache.v, params.operands.cache.v_strides, kv_head,
                warp_ * G::value_dims) {}

  __device__ void run() {
    map_.find(reinterpret_cast<float*>(slot_));
    load_queries();
#pragma unroll 2
    do {
      attend();
    } while (needs_care());
    reduce_sums();
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
      score_fragments score;
      score_tiles(score);
      if (__syncthreads_or(select(score)) != 0) {
        rescale(score);
      }
      weigh(score);
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

  //! Row of element i of m-tile t. m-rows of the padding follow the last row; nothing of them is stored.
  __device__ int row_in_cta(int t, int i) const {
    int const m = t * edge + map_.row(i);
    return m < G::m_rows ? m / G::heads_per_kv : G::group_rows - 1;
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
  __device__ void score_tiles(score_fragments& score) {
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
  __device__ void multiply_keys(score_fragments& score, int s, MTiles is_wanted) {
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

  //! For each pair leader, the mask of the page that holds its token of tile `tile`, shifted so that
  //! bit row * page_tokens is the element's.
  template <class Elements>
  __device__ void load_masks(mask_type (&masks)[accumulator_map::num_elements], int tile) const {
#pragma unroll
    for (int i = 0; i < accumulator_map::num_elements; ++i) {
      if (Elements::pair_leader(i) == i) {
        auto const column = static_cast<unsigned>(map_.column(i));
        masks[i]          = masks_.mask_of(tile * G::tile_pages + column / G::page_tokens) >>
                   (column % G::page_tokens);
      }
    }
  }
  //! True if the row of element i of m-tile t attends to the element's token.
  template <class Elements>
  __device__ bool is_selected(mask_type const (&masks)[accumulator_map::num_elements], int t,
                              int i) const {
    int const shift = row_in_cta(t, Elements::row_leader(i)) * G::page_tokens;
    return (masks[Elements::pair_leader(i)] >> shift &
            (mask_type{1} << Elements::column_step(i))) != 0;
  }

  //! score = scale * score where selected, else -inf, in base 2: which also ends NaN scores of other
  //! rows' tokens.
  //! @return true if a selected score exceeds its reference by more than rescale_threshold
  __device__ bool select(score_fragments& score) {
    map_.hide_origin();
    float growth = 0.0f;
#pragma unroll
    for (int n = 0; n < G::warp_tiles; ++n) {
      growth = fmaxf(growth, map_.is_regular() ? select_tile<regular_elements>(score, n)
                                               : select_tile<lone_elements>(score, n));
    }
    return growth > rescale_threshold;
  }
  //! @return the largest excess of a selected score over its reference, at least 0
  template <class Elements>
  __device__ float select_tile(score_fragments& score, int n) {
    int const tile = warp_ * G::warp_tiles + n;
    mask_type masks[accumulator_map::num_elements];
    load_masks<Elements>(masks, tile);
    unsigned const active = masks_.active_m_tiles(tile);
    float growth          = 0.0f;
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
      if ((active >> t & 1u) != 0) {
#pragma unroll
        for (int i = 0; i < accumulator_map::num_elements; ++i) {
          float& element        = score.tile[n][t].x[i];
          float const reference = smem_.reference[t * edge + map_.row(Elements::row_leader(i))];
          element = is_selected<Elements>(masks, t, i) ? element * params_.scale_log2 : -INFINITY;
          growth  = fmaxf(growth, element - reference);
        }
      }
    }
    return growth;
  }

  //! weight = exp2(score - reference), and the sums of the weights.
  __device__ void weigh(score_fragments const& score) {
    map_.hide_origin();
#pragma unroll
    for (int n = 0; n < G::warp_tiles; ++n) {
      if (map_.is_regular()) {
        weigh_tile<regular_elements>(score, n);
      } else {
        weigh_tile<lone_elements>(score, n);
      }
    }
  }
  template <class Elements>
  __device__ void weigh_tile(score_fragments const& score, int n) {
    int const tile        = warp_ * G::warp_tiles + n;
    unsigned const active = masks_.active_m_tiles(tile);
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
    auto* const scratch = reinterpret_cast<float*>(slot_);
    nvcuda::wmma::store_matrix_sync(scratch, weight, edge, nvcuda::wmma::mem_row_major);
    __syncwarp();
#pragma unroll
    for (int i = 0; i < edge / 2; ++i) {
      sums[0] += scratch[lane_ * (edge / 2) + i];
    }
    __syncwarp();
  }
  //! The row, within its m-tile, of a lane's sum k.
  __device__ int sum_row(int k) const { return map_.is_regular() ? map_.row(2 * k) : lane_ / 2; }

  //! A value per warp and m-row, [warps, m_edge], where the weights are while there are none.
  __device__ float* warp_values() const { return reinterpret_cast<float*>(smem_.weight); }

  //! Moves the references of those rows that a selected score of this step outgrew to the row's
  //! maximum, and brings outputs and sums of these rows, and of no other, to the new reference.
  __device__ void rescale(score_fragments const& score) {
    find_row_maxima(score, warp_values() + warp_ * m_edge);
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
      sum_fragment factor;
      load_row_values(factor, smem_.factor + t * edge);
#pragma unroll
      for (int k = 0; k < lane_sums; ++k) {
        sum_[t][k] *= smem_.factor[t * edge + sum_row(k)];
      }
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

  //! Largest selected score of each m-row in this warp's tiles, -FLT_MAX where there is none.
  //! @param maxima [m_edge], this warp's
  __device__ void find_row_maxima(score_fragments const& score, float* maxima) {
    auto* const scratch = reinterpret_cast<float*>(slot_);
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
      float maximum = -FLT_MAX;
#pragma unroll
      for (int n = 0; n < G::warp_tiles; ++n) {
        if ((masks_.active_m_tiles(warp_ * G::warp_tiles + n) >> t & 1u) != 0) {
          nvcuda::wmma::store_matrix_sync(scratch, score.tile[n][t], edge,
                                          nvcuda::wmma::mem_row_major);
          __syncwarp();
#pragma unroll
          for (int i = 0; i < edge / 2; ++i) {
            maximum = fmaxf(maximum, scratch[lane_ * (edge / 2) + i]);
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
        __half const* const weight = smem_.weight + (s * value_tiles + i) * edge;
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
    map_.hide_origin();
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
          __half const value  = slot_[token * values::pitch + c * edge + map_.column(i)];
          float const special = is_special(value) ? __half2float(value) : 0.0f;
#pragma unroll
          for (int t = 0; t < G::m_tiles; ++t) {
            bool const selected = (mask >> (row_in_cta(t, i) * G::page_tokens) & 1u) != 0;
            out_[t][c].x[i] += selected ? special : 0.0f;
          }
        }
      }
    }
    __syncwarp();
  }

  //! The sum of each m-row over all lanes and warps, in a fixed order; lse follows from it. Leaves
  //! what the outputs are multiplied by in factor.
  __device__ void reduce_sums() {
    output_.set_chosen(masks_.all_masks());
    auto* const scratch = reinterpret_cast<float*>(slot_);
    __syncthreads();
#pragma unroll
    for (int t = 0; t < G::m_tiles; ++t) {
      // Each lane's sums go where only this lane has elements; a row is then summed by one lane.
      sum_fragment partial;
      nvcuda::wmma::fill_fragment(partial, 0.0f);
      if (map_.is_regular()) {
        partial.x[0] = sum_[t][0];
        partial.x[2] = sum_[t][1];
        nvcuda::wmma::store_matrix_sync(scratch, partial, edge, nvcuda::wmma::mem_row_major);
      } else {
        scratch[lane_ * (edge / 2)] = sum_[t][0];
#pragma unroll
        for (int i = 1; i < edge / 2; ++i) {
          scratch[lane_ * (edge / 2) + i] = 0.0f;
        }
      }
      __syncwarp();
      if (lane_ < edge) {
        float sum = 0.0f;
#pragma unroll
        for (int i = 0; i < edge; ++i) {
          sum += scratch[lane_ * edge + i];
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
      output_.store_lse(m, smem_.reference[m] + log2f(total));
    }
    __syncthreads();
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
      load_row_values(factor, smem_.factor + t * edge);
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

  accumulator_map map_;
  bool is_careful_ = false;  // keeps Inf and NaN of V out of the products
  page_reader<G, keys> keys_;
  page_reader<G, values> values_;
  page_masks<G> masks_;
  lane_addresses<G::lane_vectors> addresses_;  // of the step's keys
  lane_share<G::lane_vectors> staged_;         // the slice in flight
  sum_fragment out_[G::m_tiles][G::value_columns];
  float sum_[G::m_tiles][lane_sums];
};

}  // namespace pageunion::detail
