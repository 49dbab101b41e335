// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 6. The frame of every attention kernel. Knows its three parts by their interfaces alone.
#pragma once

#include <cstddef>

#include <pageunion/detail/attention/cta_rows.cuh>
#include <pageunion/detail/host/code_architecture.cuh>
#include <pageunion/detail/host/launch.cuh>
#include <pageunion/operands.hpp>
#include <pageunion/tuning.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

template <class Pages, class Epilogue>
struct attention_params {
  query_view q;
  kv_cache cache;
  float scale_log2 = 0.0f;  //!< factor from products q . k to scores of base 2
  typename Pages::params pages;
  typename Epilogue::params epilogue;
};

//! Shared memory of an attention CTA. The scratch of Pages is free when the loop begins.
template <class Loop, class Pages>
struct attention_storage : Pages::list_storage {
  union {
    typename Pages::scratch_storage scratch;
    typename Loop::shared_storage loop;
  };
};

//! Bytes of it.
template <class Loop, class Pages>
constexpr std::size_t attention_smem_bytes() noexcept {
  constexpr std::size_t bytes = sizeof(attention_storage<Loop, Pages>);
  static_assert(bytes * Loop::shape::ctas_per_sm <= sm70_limits::smem_bytes_per_sm,
                "the shared memory of ctas_per_sm CTAs must fit an SM: lower ctas_per_sm, "
                "group_rows or partition_tokens");
  return bytes;
}

//! Entry of the device code: CTA (x, y) has the pages that Pages gives x, and KV head y.
//!
//! @tparam Loop     multiplies queries by the pages' keys and weights by their values: run(pages,
//!                  epilogue). In code of another tuning than the loop's the kernel is empty
//! @tparam Pages    gives the CTA's rows and pages: rows(), partition(), num_pages(), load(index);
//!                  is_idle() is true of a partition that none of the row's pages falls to
//! @tparam Epilogue normalises the sums and stores them: set_chosen(), finish_row(), store()
template <class Loop, class Pages, class Epilogue>
__global__ void __launch_bounds__(Loop::shape::threads, Loop::shape::ctas_per_sm)
    attention_kernel(attention_params<Pages, Epilogue> const params) {
  using shape = typename Loop::shape;
  if constexpr (shape::tuning::template is_for<code_architecture>) {
    auto& smem = dynamic_smem<attention_storage<Loop, Pages>>();
    Pages const pages(params.pages, smem, smem.scratch);
    cta_rows<shape> const rows = pages.rows();
    Epilogue epilogue(params.epilogue, rows, pages.partition());
    if (pages.is_idle()) {
      epilogue.store_empty_partial();
    } else {
      Loop(params.q, params.cache, params.scale_log2, rows, smem.loop).run(pages, epilogue);
    }
  }
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
