// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 7. Attention of rows one by one. Knows rows and partitions; nothing of groups or plans.
#pragma once

#include <pageunion/detail/host/launch.cuh>

#include <cstddef>

#include <pageunion/detail/attention/attention_kernel.cuh>
#include <pageunion/detail/attention/attention_shape.hpp>
#include <pageunion/detail/attention/epilogue.cuh>
#include <pageunion/detail/attention/loops.cuh>
#include <pageunion/detail/attention/row_pages.cuh>
#include <pageunion/detail/host/call_checks.hpp>
#include <pageunion/detail/merge/partial_merge.cuh>
#include <pageunion/detail/report/report_kernels.cuh>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! The kernel of the row attention for code of an architecture.
template <class Policy, class Selector, int Architecture>
struct row_attention_code {
  using shape    = attention_shape<Policy, row_tuning<Policy, Selector, Architecture>>;
  using loop     = typename loop_of<shape>::type;
  using pages    = row_pages<shape>;
  using epilogue = store_epilogue<shape>;
  static constexpr int architecture       = Architecture;
  static constexpr auto kernel            = &attention_kernel<loop, pages, epilogue>;
  static constexpr std::size_t smem_bytes = attention_smem_bytes<loop, pages>();
};

//! row_attention() without its checks.
template <class Code>
[[nodiscard]] status enqueue_row_attention(Code, batch const& rows, selection const& selected,
                                           attention_operands const& operands,
                                           row_partials const& partials, plan_report* report,
                                           cudaStream_t stream) noexcept {
  using shape           = typename Code::shape;
  auto const num_rows   = static_cast<std::uint32_t>(rows.num_rows);
  kv_cache const& cache = operands.cache;
  if (num_rows == 0) {
    return status::ok;
  }
  auto const page_limit = static_cast<std::int32_t>(
      max_pages_per_row(selected, shape::page_tokens, cache.block_tokens, cache.blocks.width));
  std::int32_t const num_partitions =
      partitions_of(page_limit, shape::tuning::partition_tokens / shape::page_tokens);
  partial_view const view = view_of(partials, rows.num_rows, operands.q);

  attention_params<typename Code::pages, typename Code::epilogue> params{
      operands.q,
      cache,
      scale_of_base_two(operands.scale),
      {{rows, selected, cache.blocks, cache.num_blocks, cache.block_tokens},
       page_limit,
       static_cast<std::uint32_t>(num_partitions)},
      {operands.out, operands.lse}};
  if (num_partitions > 1) {
    params.epilogue = {{partials.out, element_type::f32, view.out_row_stride, view.out_head_stride},
                       {partials.lse, view.base, view.lse_row_stride, view.lse_head_stride},
                       view.out_partial_stride * static_cast<std::int64_t>(sizeof(float)),
                       view.lse_partial_stride};
  }
  status enqueued = launch(Code::kernel, num_rows * params.pages.num_partitions,
                           static_cast<std::uint32_t>(cache.num_kv_heads), shape::threads,
                           Code::smem_bytes, stream, params);
  if (enqueued == status::ok && report != nullptr) {
    using reporter = row_report<shape::page_tokens>;
    enqueued       = launch(&row_report_kernel<shape::page_tokens>, num_rows, 1, reporter::threads,
                            sizeof(typename reporter::shared_storage), stream,
                            row_report_params{params.pages.from, page_limit, report});
  }
  return enqueued != status::ok || num_partitions == 1
             ? enqueued
             : enqueue_merge<shape::head_dim>(view, num_partitions, rows.num_rows,
                                              operands.q.num_heads, operands.out, operands.lse,
                                              stream);
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
PAGEUNION_DEVICE_NAMESPACE_BEGIN

//! Sparse attention of rows one by one: the same results as the grouped attention of a plan, without a
//! plan, as long as max_pages is true (selection.hpp). For few rows, or rows of many requests, which
//! share no pages.
//!
//! Formula, shapes, units and accuracy: those of prefill(). One CTA per row, KV head and partition of
//! partition_tokens tokens; the partitions' results are merged by a second kernel. There are at most
//! num_partitions() of a row, of which those that its pages do not fill cost next to nothing.
//!
//! Determinism: the same inputs give the same bits. A row's bits depend on the row's own tokens alone:
//! not on the other rows of the call, the physical blocks, the order of columns or the width of a table.
//! Stream: as for merge_partials(); no other call may use `partials` meanwhile.
//!
//! @tparam Policy   what the call was compiled for
//! @tparam Selector its tuning, as default_tuning
//! @param partials  room for num_partitions() partial results; not looked at if that is 1
//! @param report    device memory, added to, every row as a group of its own; null for none
//! @return ok; a status that names the argument, with the same causes as can_prefill(), or
//!         invalid_num_partials, null_partials, misaligned_partials, overlapping_partials;
//!         unsupported_device; cuda_error from a launch. Unless it is the last, nothing was enqueued.
template <class Policy = qsa_policy, class Selector = default_tuning>
[[nodiscard]] status row_attention(batch const& rows, selection const& selected,
                                   attention_operands const& operands, row_partials const& partials,
                                   plan_report* report, cudaStream_t stream) noexcept {
  status const checked =
      detail::check_row_attention<Policy, Selector>(rows, selected, operands, partials, report);
  if (checked != status::ok) {
    return checked;
  }
  return detail::with_loaded_code<detail::row_attention_code, Policy, Selector>([&](auto code) {
    return detail::enqueue_row_attention(code, rows, selected, operands, partials, report, stream);
  });
}

PAGEUNION_DEVICE_NAMESPACE_END
