// SPDX-License-Identifier: Apache-2.0
//! @file
//! Every argument that the host can know to be wrong, and the status that must name it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <pageunion/kv_cache.hpp>
#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/selection.hpp>
#include <pageunion/status.hpp>

namespace pageunion::test {

//! Everything that a call of the library is given.
struct call_arguments {
  batch rows;
  selection selected;
  attention_operands operands;
  plan_report* report         = nullptr;
  void* workspace             = nullptr;
  std::size_t workspace_bytes = 0;
};

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

//! One way to spoil a good call.
struct bad_argument {
  char const* what;
  status expected;
  void (*spoil)(call_arguments&);
};

//! The same pointer, some bytes further.
template <class Value>
void move_bytes(Value*& pointer, std::size_t bytes) {
  pointer = reinterpret_cast<Value*>(reinterpret_cast<std::uintptr_t>(pointer) + bytes);
}

//! Selects by the page table.
inline void by_pages(call_arguments& c) { c.selected.kind = selection_kind::pages; }

inline std::vector<bad_argument> bad_pointers() {
  using call = call_arguments&;
  return {
      {"q is null", status::null_q, [](call c) { c.operands.q.data = nullptr; }},
      {"k is null", status::null_k, [](call c) { c.operands.cache.k = nullptr; }},
      {"v is null", status::null_v, [](call c) { c.operands.cache.v = nullptr; }},
      {"out is null", status::null_out, [](call c) { c.operands.out.data = nullptr; }},
      {"tokens are null", status::null_selection,
       [](call c) { c.selected.tokens.tokens = nullptr; }},
      {"pages are null", status::null_selection,
       [](call c) {
         by_pages(c);
         c.selected.pages.pages = nullptr;
       }},
      {"row_request is null", status::null_row_request,
       [](call c) { c.rows.row_request = nullptr; }},
      {"row_position is null", status::null_row_position,
       [](call c) { c.rows.row_position = nullptr; }},
      {"sequence_length is null", status::null_sequence_length,
       [](call c) { c.rows.sequence_length = nullptr; }},
      {"block table is null", status::null_block_table,
       [](call c) { c.operands.cache.blocks.table = nullptr; }},
      {"workspace is null", status::null_workspace, [](call c) { c.workspace = nullptr; }},

      {"q is at 8 bytes", status::misaligned_q, [](call c) { move_bytes(c.operands.q.data, 8); }},
      {"k is at 8 bytes", status::misaligned_k, [](call c) { move_bytes(c.operands.cache.k, 8); }},
      {"v is at 2 bytes", status::misaligned_v, [](call c) { move_bytes(c.operands.cache.v, 2); }},
      {"out is at 8 bytes", status::misaligned_out,
       [](call c) { move_bytes(c.operands.out.data, 8); }},
      {"lse is at 2 bytes", status::misaligned_lse,
       [](call c) { move_bytes(c.operands.lse.data, 2); }},
      {"tokens are at 2 bytes", status::misaligned_selection,
       [](call c) { move_bytes(c.selected.tokens.tokens, 2); }},
      {"counts are at 1 byte", status::misaligned_selection,
       [](call c) { move_bytes(c.selected.tokens.counts, 1); }},
      {"pages are at 2 bytes", status::misaligned_selection,
       [](call c) {
         by_pages(c);
         move_bytes(c.selected.pages.pages, 2);
       }},
      {"row_request is at 2 bytes", status::misaligned_batch,
       [](call c) { move_bytes(c.rows.row_request, 2); }},
      {"row_position is at 4 bytes", status::misaligned_batch,
       [](call c) { move_bytes(c.rows.row_position, 4); }},
      {"sequence_length is at 1 byte", status::misaligned_batch,
       [](call c) { move_bytes(c.rows.sequence_length, 1); }},
      {"block table is at 2 bytes", status::misaligned_batch,
       [](call c) { move_bytes(c.operands.cache.blocks.table, 2); }},
      {"workspace is at 128 bytes", status::misaligned_workspace,
       [](call c) { move_bytes(c.workspace, 128); }},
      {"report is at 4 bytes", status::misaligned_report, [](call c) { move_bytes(c.report, 4); }},
  };
}

inline std::vector<bad_argument> bad_shapes() {
  using call             = call_arguments&;
  constexpr auto largest = std::numeric_limits<std::int32_t>::max();
  return {
      {"rows are negative", status::invalid_num_rows, [](call c) { c.rows.num_rows = -1; }},
      {"no heads", status::invalid_num_heads, [](call c) { c.operands.q.num_heads = 0; }},
      {"heads are negative", status::invalid_num_heads,
       [](call c) { c.operands.q.num_heads = -12; }},
      {"heads do not divide", status::invalid_num_heads,
       [](call c) { c.operands.q.num_heads = 13; }},
      {"no KV heads", status::invalid_num_kv_heads,
       [](call c) { c.operands.cache.num_kv_heads = 0; }},
      {"KV heads are negative", status::invalid_num_kv_heads,
       [](call c) { c.operands.cache.num_kv_heads = -2; }},
      {"too many KV heads", status::invalid_num_kv_heads,
       [](call c) { c.operands.cache.num_kv_heads = 65536; }},
      {"6 heads on 2 KV heads", status::invalid_heads_per_kv,
       [](call c) { c.operands.q.num_heads = 6; }},
      {"head_dim of another policy", status::invalid_head_dim,
       [](call c) { c.operands.q.head_dim = 128; }},
      {"requests are negative", status::invalid_num_requests,
       [](call c) { c.operands.cache.blocks.num_requests = -1; }},
      {"blocks are negative", status::invalid_num_blocks,
       [](call c) { c.operands.cache.num_blocks = -1; }},
      {"no tokens in a block", status::invalid_block_tokens,
       [](call c) { c.operands.cache.block_tokens = 0; }},
      {"block is no multiple of a page", status::invalid_block_tokens,
       [](call c) { c.operands.cache.block_tokens = 18; }},
      {"block table's width is negative", status::invalid_table_width,
       [](call c) { c.operands.cache.blocks.width = -1; }},
      {"block table's tokens overflow", status::invalid_table_width,
       [](call c) {
         c.operands.cache.blocks.width      = 1 << 27;
         c.operands.cache.blocks.row_stride = 1 << 27;
       }},
      {"token table's width is negative", status::invalid_selection_width,
       [](call c) { c.selected.tokens.width = -1; }},
      {"page table's width is negative", status::invalid_selection_width,
       [](call c) {
         by_pages(c);
         c.selected.pages.width = -1;
       }},
      {"group's pages overflow", status::invalid_selection_width,
       [](call c) {
         by_pages(c);
         c.selected.pages.width             = largest;
         c.selected.pages.row_stride        = largest;
         c.operands.cache.block_tokens      = 1 << 20;
         c.operands.cache.blocks.width      = 2000;
         c.operands.cache.blocks.row_stride = 2000;
       }},
      {"max_pages is negative", status::invalid_max_pages,
       [](call c) { c.selected.tokens.max_pages = -1; }},
  };
}

inline std::vector<bad_argument> bad_strides() {
  using call         = call_arguments&;
  constexpr auto far = std::numeric_limits<std::int64_t>::max() / 8 * 8;
  return {
      {"q's rows are 4 elements off", status::invalid_q_stride,
       [](call c) { c.operands.q.row_stride = 3076; }},
      {"q's heads are 4 elements off", status::invalid_q_stride,
       [](call c) { c.operands.q.head_stride = 260; }},
      {"q's stride is negative", status::invalid_q_stride,
       [](call c) { c.operands.q.row_stride = -3072; }},
      {"q's stride overflows", status::invalid_q_stride,
       [](call c) { c.operands.q.row_stride = far; }},
      {"k's token stride is no multiple of 8", status::invalid_k_stride,
       [](call c) { c.operands.cache.k_strides.token = 513; }},
      {"k's block stride is negative", status::invalid_k_stride,
       [](call c) { c.operands.cache.k_strides.block = -8192; }},
      {"k's head stride overflows", status::invalid_k_stride,
       [](call c) { c.operands.cache.k_strides.head = far; }},
      {"v's head stride is no multiple of 8", status::invalid_v_stride,
       [](call c) { c.operands.cache.v_strides.head = 4; }},
      {"v's token stride is negative", status::invalid_v_stride,
       [](call c) { c.operands.cache.v_strides.token = -512; }},
      {"v's block stride overflows", status::invalid_v_stride,
       [](call c) { c.operands.cache.v_strides.block = far / 64; }},
      {"out's heads overlap", status::invalid_out_stride,
       [](call c) { c.operands.out.head_stride = 248; }},
      {"out's rows overlap", status::invalid_out_stride,
       [](call c) { c.operands.out.row_stride = 3064; }},
      {"out's rows are one", status::invalid_out_stride,
       [](call c) { c.operands.out.row_stride = 0; }},
      {"out's rows are 4 elements off", status::invalid_out_stride,
       [](call c) { c.operands.out.row_stride = 3076; }},
      {"out's stride is negative", status::invalid_out_stride,
       [](call c) { c.operands.out.row_stride = -3072; }},
      {"lse's rows overlap", status::invalid_lse_stride,
       [](call c) { c.operands.lse.row_stride = 11; }},
      {"lse's heads are one", status::invalid_lse_stride,
       [](call c) { c.operands.lse.head_stride = 0; }},
      {"lse's stride is negative", status::invalid_lse_stride,
       [](call c) { c.operands.lse.row_stride = -12; }},
      {"block table's rows overlap", status::invalid_block_table_stride,
       [](call c) { c.operands.cache.blocks.row_stride = 39; }},
      {"block table's stride overflows", status::invalid_block_table_stride,
       [](call c) { c.operands.cache.blocks.row_stride = far; }},
      {"token table's rows overlap", status::invalid_selection_stride,
       [](call c) { c.selected.tokens.row_stride = 66; }},
      {"token table's stride overflows", status::invalid_selection_stride,
       [](call c) { c.selected.tokens.row_stride = far; }},
      {"page table's rows overlap", status::invalid_selection_stride,
       [](call c) {
         by_pages(c);
         c.selected.pages.row_stride = -16;
       }},
      {"counts are one", status::invalid_count_stride,
       [](call c) { c.selected.tokens.count_stride = 0; }},
      {"count stride overflows", status::invalid_count_stride,
       [](call c) { c.selected.tokens.count_stride = far; }},
  };
}

inline std::vector<bad_argument> bad_values() {
  using call = call_arguments&;
  return {
      {"scale is NaN", status::invalid_scale,
       [](call c) { c.operands.scale = std::numeric_limits<float>::quiet_NaN(); }},
      {"scale is infinite", status::invalid_scale,
       [](call c) { c.operands.scale = -std::numeric_limits<float>::infinity(); }},
      {"scale is infinite in base 2", status::invalid_scale,
       [](call c) { c.operands.scale = -3e38f; }},
      {"no type of output", status::invalid_out_type,
       [](call c) { c.operands.out.type = static_cast<element_type>(2); }},
      {"no base of lse", status::invalid_lse_base,
       [](call c) { c.operands.lse.base = static_cast<log_base>(2); }},
      {"no kind of selection", status::invalid_selection_kind,
       [](call c) { c.selected.kind = static_cast<selection_kind>(2); }},
  };
}

inline std::vector<bad_argument> bad_buffers() {
  using call = call_arguments&;
  return {
      {"workspace is empty", status::workspace_too_small, [](call c) { c.workspace_bytes = 0; }},
      {"out is q", status::overlapping_out,
       [](call c) { c.operands.out.data = const_cast<__half*>(c.operands.q.data); }},
      {"out ends in k", status::overlapping_out,
       [](call c) { c.operands.out.data = const_cast<__half*>(c.operands.cache.k) - 8; }},
      {"out begins in the last element of v", status::overlapping_out,
       [](call c) {
         c.operands.out.data = const_cast<__half*>(c.operands.cache.v) + 120 * 16 * 512 - 8;
       }},
      {"out is the token table", status::overlapping_out,
       [](call c) { c.operands.out.data = const_cast<std::int32_t*>(c.selected.tokens.tokens); }},
      {"out is the page table", status::overlapping_out,
       [](call c) {
         by_pages(c);
         c.operands.out.data = const_cast<std::int32_t*>(c.selected.pages.pages);
       }},
      {"out is lse", status::overlapping_out,
       [](call c) { c.operands.out.data = c.operands.lse.data; }},
      {"out lies in the workspace", status::overlapping_out,
       [](call c) {
         c.operands.out.data = c.workspace;
         move_bytes(c.operands.out.data, 256);
       }},
      {"lse lies in row_request", status::overlapping_lse,
       [](call c) {
         c.operands.lse.data =
             reinterpret_cast<float*>(const_cast<std::int32_t*>(c.rows.row_request)) + 19;
       }},
      {"lse is row_position", status::overlapping_lse,
       [](call c) {
         c.operands.lse.data =
             reinterpret_cast<float*>(const_cast<std::int64_t*>(c.rows.row_position));
       }},
      {"lse is sequence_length", status::overlapping_lse,
       [](call c) {
         c.operands.lse.data =
             reinterpret_cast<float*>(const_cast<std::int32_t*>(c.rows.sequence_length));
       }},
      {"lse is the report", status::overlapping_lse,
       [](call c) { c.operands.lse.data = reinterpret_cast<float*>(c.report); }},
      {"report lies in row_position", status::overlapping_report,
       [](call c) {
         c.report =
             reinterpret_cast<plan_report*>(const_cast<std::int64_t*>(c.rows.row_position) + 19);
       }},
      {"report ends in the block table", status::overlapping_report,
       [](call c) {
         c.report = reinterpret_cast<plan_report*>(
                        const_cast<std::int32_t*>(c.operands.cache.blocks.table)) -
                    1;
         move_bytes(c.report, 8);
       }},
      {"report lies in the workspace", status::overlapping_report,
       [](call c) { c.report = static_cast<plan_report*>(c.workspace); }},
      {"lse lies in the workspace", status::overlapping_lse,
       [](call c) { c.operands.lse.data = static_cast<float*>(c.workspace); }},
      {"workspace is the block table", status::overlapping_workspace,
       [](call c) { c.workspace = const_cast<std::int32_t*>(c.operands.cache.blocks.table); }},
      {"workspace is counts", status::overlapping_workspace,
       [](call c) { c.workspace = const_cast<std::int32_t*>(c.selected.tokens.counts); }},
      {"workspace ends in q", status::overlapping_workspace,
       [](call c) {
         c.workspace       = const_cast<__half*>(c.operands.q.data);
         c.workspace_bytes = std::size_t{1} << 30;
         move_bytes(c.workspace, std::size_t{0} - c.workspace_bytes + 256);
       }},
  };
}

//! All of them.
inline std::vector<bad_argument> bad_arguments() {
  std::vector<bad_argument> all;
  for (auto const& some :
       {bad_pointers(), bad_shapes(), bad_strides(), bad_values(), bad_buffers()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

//! Calls that look odd and are legal.
inline std::vector<bad_argument> legal_oddities() {
  using call = call_arguments&;
  return {
      {"no lse", status::ok, [](call c) { c.operands.lse = {}; }},
      {"no report", status::ok, [](call c) { c.report = nullptr; }},
      {"no counts", status::ok, [](call c) { c.selected.tokens.counts = nullptr; }},
      {"by pages", status::ok, [](call c) { by_pages(c); }},
      {"unused tables are not looked at", status::ok,
       [](call c) {
         by_pages(c);
         c.selected.tokens        = {};
         c.selected.tokens.width  = -1;
         c.selected.tokens.counts = reinterpret_cast<std::int32_t const*>(1);
       }},
      {"counts in a column", status::ok,
       [](call c) {
         c.selected.tokens.counts       = c.selected.tokens.tokens + 67;
         c.selected.tokens.count_stride = 80;
       }},
      {"K and V in one tensor", status::ok,
       [](call c) {
         kv_cache& cache       = c.operands.cache;
         cache.v               = cache.k + 256;
         cache.k_strides.head  = 512;
         cache.k_strides.token = 1024;
         cache.k_strides.block = 16 * 1024;
         cache.v_strides       = cache.k_strides;
       }},
      {"heads before rows in out", status::ok,
       [](call c) {
         c.operands.out.row_stride  = 256;
         c.operands.out.head_stride = 20 * 256;
       }},
      {"heads before rows in lse", status::ok,
       [](call c) {
         c.operands.lse.row_stride  = 1;
         c.operands.lse.head_stride = 20;
       }},
      {"one query for all rows", status::ok, [](call c) { c.operands.q.row_stride = 0; }},
      {"scale 0", status::ok, [](call c) { c.operands.scale = 0.0f; }},
      {"negative scale", status::ok, [](call c) { c.operands.scale = -1.0f; }},
      {"enormous scale", status::ok, [](call c) { c.operands.scale = 2e38f; }},
      {"lse begins where out ends", status::ok,
       [](call c) {
         c.operands.lse.data =
             reinterpret_cast<float*>(static_cast<__half*>(c.operands.out.data) + 20 * 3072);
       }},
      {"no requests", status::ok,
       [](call c) {
         c.operands.cache.blocks = {};
         c.rows.sequence_length  = nullptr;
       }},
      {"no blocks", status::ok,
       [](call c) {
         c.operands.cache.num_blocks = 0;
         c.operands.cache.k          = nullptr;
         c.operands.cache.v          = nullptr;
       }},
      {"no columns in the selection", status::ok,
       [](call c) {
         c.selected.tokens.width  = 0;
         c.selected.tokens.tokens = nullptr;
       }},
      {"no columns in the block table", status::ok,
       [](call c) {
         c.operands.cache.blocks.width = 0;
         c.operands.cache.blocks.table = nullptr;
       }},
      {"one row's strides are not looked at", status::ok,
       [](call c) {
         c.rows.num_rows                = 1;
         c.operands.q.row_stride        = 1;
         c.operands.out.row_stride      = 1;
         c.operands.lse.row_stride      = 0;
         c.selected.tokens.row_stride   = 0;
         c.selected.tokens.count_stride = 0;
       }},
      {"no rows, no arrays", status::ok,
       [](call c) {
         c.rows                        = {};
         c.selected.tokens.tokens      = nullptr;
         c.operands.q.data             = nullptr;
         c.operands.cache.k            = nullptr;
         c.operands.cache.v            = nullptr;
         c.operands.cache.blocks.table = nullptr;
         c.operands.out.data           = nullptr;
       }},
  };
}

}  // namespace pageunion::test
