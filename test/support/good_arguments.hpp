// SPDX-License-Identifier: Apache-2.0
//! @file
//! Calls that are right in every respect that the host can know, of arrays that do not exist.
#pragma once

#include <cstddef>
#include <cstdint>

#include <pageunion/kv_cache.hpp>
#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/prefill.hpp>
#include <pageunion/selection.hpp>

namespace pageunion::test {

//! Everything that a call of the library is given.
struct call_arguments {
  batch rows;
  selection selected;
  attention_operands operands;
  plan_report* report         = nullptr;
  void* workspace             = nullptr;
  std::size_t workspace_bytes = 0;

  query_view& q() { return operands.q; }
  kv_cache& cache() { return operands.cache; }
  block_table& blocks() { return operands.cache.blocks; }
  output_view& out() { return operands.out; }
  lse_view& lse() { return operands.lse; }
  token_table& tokens() { return selected.tokens; }
  page_table& pages() { return selected.pages; }
};

//! The same as prefill() takes it.
inline prefill_args args_of(call_arguments const& call, route wanted = route::automatic) {
  return {call.rows, call.selected, call.operands, wanted, call.report};
}

//! An address that nobody may follow; 64 GiB apart, so that no two arrays meet.
template <class Value>
Value* pretended_address(int index) {
  return reinterpret_cast<Value*>((static_cast<std::uintptr_t>(index) + 1) << 36);
}

//! A call that is right in every respect that the host can know, at QSA's geometry: 20 rows of
//! 12 heads on 2 KV heads, 3 requests of up to 640 tokens.
inline call_arguments good_arguments() {
  call_arguments call;
  call.rows.num_rows        = 20;
  call.rows.row_request     = pretended_address<std::int32_t>(0);
  call.rows.row_position    = pretended_address<std::int64_t>(1);
  call.rows.sequence_length = pretended_address<std::int32_t>(2);

  call.selected.kind              = selection_kind::tokens;
  call.selected.tokens.tokens     = pretended_address<std::int32_t>(3);
  call.selected.tokens.width      = 67;
  call.selected.tokens.row_stride = 80;
  call.selected.tokens.counts     = pretended_address<std::int32_t>(4);
  call.selected.tokens.max_pages  = 17;
  call.selected.pages.pages       = pretended_address<std::int32_t>(5);
  call.selected.pages.width       = 16;
  call.selected.pages.row_stride  = 16;

  kv_cache& cache    = call.operands.cache;
  cache.k            = pretended_address<__half>(6);
  cache.v            = pretended_address<__half>(7);
  cache.num_blocks   = 120;
  cache.block_tokens = 16;
  cache.num_kv_heads = 2;
  cache.k_strides    = contiguous_kv_strides(16, 2, 256);
  cache.v_strides    = cache.k_strides;
  cache.blocks       = {pretended_address<std::int32_t>(8), 3, 40, 48};

  query_view& q = call.operands.q;
  q.data        = pretended_address<__half>(9);
  q.num_heads   = 12;
  q.head_dim    = 256;
  q.head_stride = 256;
  q.row_stride  = 3072;

  output_view& out = call.operands.out;
  out.data         = pretended_address<void>(10);
  out.head_stride  = 256;
  out.row_stride   = 3072;

  call.operands.lse.data       = pretended_address<float>(11);
  call.operands.lse.row_stride = 12;
  call.operands.scale          = 0.0625f;

  call.report          = pretended_address<plan_report>(12);
  call.workspace       = pretended_address<void>(13);
  call.workspace_bytes = std::size_t{1} << 30;
  return call;
}

//! A good call of QSA's widths: rows of 2,051 tokens or of 512 pages, in contexts of 65,536 tokens.
inline call_arguments qsa_arguments() {
  call_arguments call                   = good_arguments();
  call.selected.tokens.width            = 2051;
  call.selected.tokens.row_stride       = 2051;
  call.selected.tokens.max_pages        = 513;
  call.selected.pages.width             = 512;
  call.selected.pages.row_stride        = 512;
  call.operands.q.num_heads             = 6;
  call.operands.cache.num_kv_heads      = 1;
  call.operands.cache.blocks.width      = 4096;
  call.operands.cache.blocks.row_stride = 4096;
  return call;
}

//! A good call of rows of 262,144 partitions: row attention can index 8,191 such rows.
inline call_arguments most_partitions(std::int32_t num_rows) {
  call_arguments call                   = good_arguments();
  call.rows.num_rows                    = num_rows;
  call.selected.tokens.width            = 1 << 26;
  call.selected.tokens.row_stride       = 1 << 26;
  call.selected.tokens.max_pages        = 0;
  call.operands.cache.block_tokens      = 1 << 20;
  call.operands.cache.blocks.width      = 2000;
  call.operands.cache.blocks.row_stride = 2000;
  call.operands.cache.k_strides.block   = std::int64_t{512} << 20;
  call.operands.cache.v_strides.block   = std::int64_t{512} << 20;
  return call;
}

//! A good call with a plan of its groups that has room for the worst case and for no entry more.
struct planned_arguments : call_arguments {
  plan<plan_shape_of<qsa_policy>> planned;
};

inline planned_arguments good_planned_arguments() {
  planned_arguments call{good_arguments(), {}};
  call.planned.addresses  = pretended_address<page_address>(20);
  call.planned.masks      = pretended_address<std::uint32_t>(21);
  call.planned.num_pages  = pretended_address<std::int32_t>(22);
  call.planned.num_groups = 3;
  call.planned.capacity   = 160;
  return call;
}

}  // namespace pageunion::test
