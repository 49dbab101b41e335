// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 7. Attention of rows one by one, straight from their selections, and the merging of partial
//! results. Knows rows and partitions; nothing of groups or plans.
#pragma once

#include <cuda_runtime.h>
#include <pageunion/detail/launch.cuh>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <pageunion/detail/argument_checks.hpp>
#include <pageunion/detail/attention_cta.cuh>
#include <pageunion/detail/memory_ranges.hpp>
#include <pageunion/detail/partial_checks.hpp>
#include <pageunion/detail/partial_merge.cuh>
#include <pageunion/detail/row_pages.cuh>
#include <pageunion/detail/row_tally.cuh>
#include <pageunion/detail/selected_runs.cuh>
#include <pageunion/geometry.hpp>
#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/rules.hpp>
#include <pageunion/selection.hpp>
#include <pageunion/status.hpp>

PAGEUNION_DEVICE_NAMESPACE_BEGIN

//! Partitions that row_attention() splits each row of a call into, from shapes alone: at least 1.
template <class Geometry>
constexpr std::int32_t num_partitions(selection const& selected, kv_cache const& cache) noexcept {
  std::int64_t const pages =
      max_pages_per_row(selected, Geometry::page_tokens, cache.block_tokens, cache.blocks.width);
  std::int64_t const full  = pages / Geometry::partition_pages;
  bool const has_remainder = pages % Geometry::partition_pages != 0;
  return static_cast<std::int32_t>(full + (has_remainder || full == 0 ? 1 : 0));
}

PAGEUNION_DEVICE_NAMESPACE_END
PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

template <class Table>
struct row_attention_params {
  attention_params attention;  //!< its out and lse are those of partition 0
  selected_entries<Table> selected;
  std::int32_t page_limit           = 0;  //!< pages that a row may have
  std::int32_t num_partitions       = 0;
  std::int64_t out_partition_bytes  = 0;  //!< between two partitions' out
  std::int64_t lse_partition_stride = 0;  //!< between two partitions' lse
};

//! Shared memory of a row-attention CTA. The map of tokens is read no more when attention begins.
template <class Geometry, class Table>
struct row_attention_storage {
  using lister = row_lister<Geometry, Table>;
  using cta    = attention_cta<Geometry, row_pages<Geometry>>;

  union {
    typename lister::shared_storage listing;
    typename cta::shared_storage attention;
  };
  typename row_pages<Geometry>::shared_storage pages;
  static_assert(sizeof(page_entry<Geometry>) * Geometry::partition_pages <=
                    sm70_limits::smem_bytes_per_sm / Geometry::ctas_per_sm -
                        sizeof(typename cta::shared_storage),
                "the pages of a partition must fit in shared memory beside the attention: lower "
                "partition_tokens");
};

//! Entry of the device code: CTA (x, y) is partition x % num_partitions of row x / num_partitions, and KV
//! head y.
template <class Geometry, class Table>
__global__ void __launch_bounds__(Geometry::threads, Geometry::ctas_per_sm)
    row_attention_kernel(row_attention_params<Table> const params) {
  using storage                = row_attention_storage<Geometry, Table>;
  storage& smem                = dynamic_smem<storage>();
  auto const num_partitions    = static_cast<std::uint32_t>(params.num_partitions);
  auto const row               = static_cast<std::int32_t>(blockIdx.x / num_partitions);
  auto const partition         = static_cast<std::int32_t>(blockIdx.x % num_partitions);
  auto const kv_head           = static_cast<std::int32_t>(blockIdx.y);
  attention_params attention   = params.attention;
  attention_operands& operands = attention.operands;
  operands.out.data =
      static_cast<unsigned char*>(operands.out.data) + partition * params.out_partition_bytes;
  operands.lse.data += partition * params.lse_partition_stride;

  int const num_pages =
      typename storage::lister(params.selected, params.page_limit, row, smem.listing)
          .list(partition, smem.pages);
  if (num_pages == 0 && num_partitions > 1) {
    auto const head = static_cast<std::int64_t>(kv_head) * Geometry::heads_per_kv + threadIdx.x;
    if (threadIdx.x < Geometry::heads_per_kv) {
      operands.lse.data[row * operands.lse.row_stride + head * operands.lse.head_stride] =
          -INFINITY;
    }
    return;
  }
  row_pages<Geometry> const pages(smem.pages);
  typename storage::cta(attention, pages, smem.attention, row, 1, kv_head).run();
}

//! A row's partials as merging reads them.
inline partial_view view_of(row_partials const& partials, std::int32_t num_rows,
                            query_view const& q) noexcept {
  partial_view view;
  view.out                = partials.out;
  view.lse                = partials.lse;
  view.base               = log_base::two;
  view.lse_row_stride     = q.num_heads;
  view.lse_partial_stride = view.lse_row_stride * num_rows;
  view.out_head_stride    = q.head_dim;
  view.out_row_stride     = view.out_head_stride * q.num_heads;
  view.out_partial_stride = view.out_row_stride * num_rows;
  return view;
}

//! True if the CTAs of a call, along x, and the items of its merging can be counted in 32 bits.
constexpr bool are_rows_indexable(std::int64_t num_rows, std::int32_t num_heads,
                                  std::int32_t num_partitions) noexcept {
  constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  return num_rows * num_partitions <= largest &&
         (num_partitions < 2 || num_rows * num_heads <= largest);
}

//! Everything that the host can know about a call of row_attention().
template <class Geometry>
[[nodiscard]] status check_row_attention(batch const& rows, selection const& selected,
                                         attention_operands const& operands,
                                         row_partials const& partials,
                                         plan_report const* report) noexcept {
  std::int32_t const num_rows = rows.num_rows;
  query_view const& q         = operands.q;
  status checked              = check_batch(rows, operands.cache.blocks.num_requests);
  if (checked == status::ok) {
    checked = check_selection(selected, num_rows);
  }
  if (checked == status::ok) {
    checked = check_operands<Geometry>(operands, num_rows);
  }
  if (checked == status::ok) {
    checked = check_report(report);
  }
  if (checked != status::ok || num_rows == 0) {
    return checked;
  }
  std::int32_t const partitions = num_partitions<Geometry>(selected, operands.cache);
  checked                       = check_row_partials(partials, partitions);
  if (checked == status::ok && !are_rows_indexable(num_rows, q.num_heads, partitions)) {
    checked = status::invalid_num_rows;
  }
  if (checked != status::ok) {
    return checked;
  }
  memory_ranges inputs;
  inputs.add(rows, operands.cache.blocks.num_requests);
  inputs.add(selected, num_rows);
  inputs.add(operands.cache, q.head_dim);
  inputs.add(q, num_rows);
  partial_view const view       = view_of(partials, num_rows, q);
  std::int32_t const num_stored = partitions < 2 ? 0 : partitions;
  return check_overlaps(
      inputs,
      {{range_of(operands.out, num_rows, q.num_heads, q.head_dim), status::overlapping_out},
       {range_of(operands.lse, num_rows, q.num_heads), status::overlapping_lse},
       {range_of(report), status::overlapping_report},
       {out_range_of(view, num_stored, num_rows, q.num_heads, q.head_dim),
        status::overlapping_partials},
       {lse_range_of(view, num_stored, num_rows, q.num_heads), status::overlapping_partials}});
}

//! Enqueues the attention of a call that was found good, into the partials if there are any, and the
//! counting for its report.
template <class Geometry, class Table>
[[nodiscard]] status enqueue_rows(selected_entries<Table> const& selected, std::int32_t page_limit,
                                  std::int32_t num_partitions, attention_operands const& operands,
                                  row_partials const& partials, plan_report* report,
                                  cudaStream_t stream) noexcept {
  std::int32_t const num_rows = selected.rows.num_rows;
  row_attention_params<Table> params;
  params.attention      = {operands, scale_of_base_two(operands.scale), num_rows};
  params.selected       = selected;
  params.page_limit     = page_limit;
  params.num_partitions = num_partitions;
  if (num_partitions > 1) {
    partial_view const view       = view_of(partials, num_rows, operands.q);
    params.attention.operands.out = {partials.out, element_type::f32, view.out_row_stride,
                                     view.out_head_stride};
    params.attention.operands.lse = {partials.lse, view.base, view.lse_row_stride,
                                     view.lse_head_stride};
    params.out_partition_bytes    = view.out_partial_stride * std::int64_t{sizeof(float)};
    params.lse_partition_stride   = view.lse_partial_stride;
  }
  status const launched =
      launch(&row_attention_kernel<Geometry, Table>,
             static_cast<std::uint32_t>(num_rows) * static_cast<std::uint32_t>(num_partitions),
             static_cast<std::uint32_t>(operands.cache.num_kv_heads), Geometry::threads,
             sizeof(row_attention_storage<Geometry, Table>), stream, params);
  if (launched != status::ok || report == nullptr) {
    return launched;
  }
  using tallier = row_tallier<Geometry, Table>;
  return launch(&row_tally_kernel<Geometry, Table>, static_cast<std::uint32_t>(num_rows), 1,
                Geometry::threads, sizeof(typename tallier::shared_storage), stream,
                row_tally_params<Table>{selected, page_limit, report});
}

//! Enqueues the merging of a call that was found good.
template <int HeadDim>
[[nodiscard]] status enqueue_merge(partial_view const& partials, std::int32_t num_partials,
                                   std::int32_t num_rows, std::int32_t num_heads,
                                   output_view const& out, lse_view const& lse,
                                   cudaStream_t stream) noexcept {
  using merger = partial_merger<HeadDim>;
  merge_params params;
  params.partials     = partials;
  params.out          = out;
  params.lse          = lse;
  params.num_partials = num_partials;
  params.num_heads    = num_heads;
  params.num_items = static_cast<std::uint32_t>(num_rows) * static_cast<std::uint32_t>(num_heads);
  return launch(&merge_kernel<HeadDim>,
                (params.num_items + merger::cta_items - 1) / merger::cta_items, 1, merger::threads,
                0, stream, params);
}

//! Everything that the host can know about a call of merge_partials().
[[nodiscard]] inline status check_merge(partial_view const& partials, std::int32_t num_partials,
                                        std::int32_t num_rows, std::int32_t num_heads,
                                        std::int32_t head_dim, output_view const& out,
                                        lse_view const& lse) noexcept {
  status checked = check_partials(partials, num_partials, num_rows, num_heads, head_dim);
  if (checked == status::ok) {
    checked = check_output(out, num_rows, num_heads, head_dim);
  }
  if (checked == status::ok) {
    checked = check_lse(lse, num_rows, num_heads);
  }
  if (checked == status::ok &&
      std::int64_t{num_rows} * num_heads > std::numeric_limits<std::int32_t>::max()) {
    checked = status::invalid_num_rows;
  }
  if (checked != status::ok) {
    return checked;
  }
  memory_ranges inputs;
  inputs.add(out_range_of(partials, num_partials, num_rows, num_heads, head_dim));
  inputs.add(lse_range_of(partials, num_partials, num_rows, num_heads));
  return check_overlaps(inputs,
                        {{range_of(out, num_rows, num_heads, head_dim), status::overlapping_out},
                         {range_of(lse, num_rows, num_heads), status::overlapping_lse}});
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
PAGEUNION_DEVICE_NAMESPACE_BEGIN

//! Merges partial results of the same rows and heads over disjoint sets of tokens into the result over
//! all of the tokens: the partitions of a row, or the shards of a cache that several GPUs hold.
//!
//! For row r, head h and the partials i that have a token there (lse above -inf):
//!   out[r, h] = sum over i of w_i * partial_out[i, r, h], w_i = exp(lse_i) / sum over j of exp(lse_j)
//!   lse[r, h] = log(sum over i of exp(lse_i))
//! Where no partial has a token, out is +0 and lse is -inf; what out holds there is not looked at.
//! A NaN in lse or out makes the result NaN; an Inf stays one, however small its weight.
//!
//! Shapes, strides, alignment: at the members of the views; rows x heads at most 2^31 - 1.
//! Units: strides in elements.
//! Accuracy: float throughout; a half output is rounded once.
//! Determinism: partials are added in their order; the same inputs give the same bits.
//! Stream: enqueues on `stream` and returns without waiting; can be captured. The arrays must stay
//! alive until the stream has passed the call. Allocates nothing.
//!
//! @tparam Geometry     of which head_dim counts
//! @param num_partials  0 or more; of none, every result is empty
//! @param lse           of a base of its own; data null to skip
//! @return ok; a status that names the argument: partials, out or lse null, misaligned, of invalid
//!         strides or overlapping, counts negative or too large; cuda_error from the launch. Unless it
//!         is the last, nothing was enqueued.
template <class Geometry>
[[nodiscard]] status merge_partials(partial_view const& partials, std::int32_t num_partials,
                                    std::int32_t num_rows, std::int32_t num_heads,
                                    output_view const& out, lse_view const& lse,
                                    cudaStream_t stream) noexcept {
  status const checked = detail::check_merge(partials, num_partials, num_rows, num_heads,
                                             Geometry::head_dim, out, lse);
  if (checked != status::ok || num_rows == 0) {
    return checked;
  }
  return detail::enqueue_merge<Geometry::head_dim>(partials, num_partials, num_rows, num_heads, out,
                                                   lse, stream);
}

//! Sparse attention of rows one by one: the same results as the grouped attention of a plan, without a
//! plan, as long as max_pages is true (selection.hpp). For few rows, or rows of many requests, which
//! share no pages.
//!
//! Formula, shapes, units and accuracy: those of prefill(). One CTA per row, KV head and partition of
//! partition_tokens tokens; the partitions' results are merged by a second kernel. There are
//! num_partitions() of a row, of which those that its pages do not fill cost next to nothing.
//!
//! Determinism: the same inputs give the same bits. A row's bits depend on the row's own tokens alone:
//! not on the other rows of the call, the physical blocks, the order of columns or the width of a table.
//! Stream: as for merge_partials(); no other call may use `partials` meanwhile.
//!
//! @tparam Geometry as for the grouped attention; its row_geometry does the work
//! @param partials  room for num_partitions() partial results; not looked at if that is 1
//! @param report    device memory, added to, every row as a group of its own; null for none
//! @return ok; a status that names the argument, with the same causes as can_prefill(), or
//!         invalid_num_partials, null_partials, misaligned_partials, overlapping_partials;
//!         unsupported_device; cuda_error from a launch. Unless it is the last, nothing was enqueued.
template <class Geometry>
[[nodiscard]] status row_attention(batch const& rows, selection const& selected,
                                   attention_operands const& operands, row_partials const& partials,
                                   plan_report* report, cudaStream_t stream) noexcept {
  using G        = row_geometry<Geometry>;
  status outcome = detail::check_row_attention<G>(rows, selected, operands, partials, report);
  if (outcome != status::ok || rows.num_rows == 0) {
    return outcome;
  }
  kv_cache const& cache         = operands.cache;
  std::int32_t const partitions = num_partitions<G>(selected, cache);
  auto const page_limit         = static_cast<std::int32_t>(
      max_pages_per_row(selected, G::page_tokens, cache.block_tokens, cache.blocks.width));
  auto const enqueue = [&](auto const& table) {
    return detail::enqueue_rows<G>(
        detail::selected_entries<std::decay_t<decltype(table)>>{
            rows, table, cache.blocks, cache.num_blocks, cache.block_tokens},
        page_limit, partitions, operands, partials, report, stream);
  };
  outcome =
      selected.kind == selection_kind::tokens ? enqueue(selected.tokens) : enqueue(selected.pages);
  if (outcome != status::ok || partitions == 1) {
    return outcome;
  }
  return detail::enqueue_merge<G::head_dim>(detail::view_of(partials, rows.num_rows, operands.q),
                                            partitions, rows.num_rows, operands.q.num_heads,
                                            operands.out, operands.lse, stream);
}

PAGEUNION_DEVICE_NAMESPACE_END
