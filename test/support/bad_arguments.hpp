// SPDX-License-Identifier: Apache-2.0
//! @file
//! Every argument that the host can know to be wrong, and the status that must name it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <pageunion/kv_cache.hpp>
#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/selection.hpp>
#include <pageunion/status.hpp>

#include "catch.hpp"
#include "good_arguments.hpp"

namespace pageunion::test {

//! One way to spoil a good call, and the answer to it.
template <class Call>
struct spoilt_call {
  char const* what;
  status expected;
  void (*spoil)(Call&);
};
using bad_argument = spoilt_call<call_arguments>;

//! Spoils a good call in each of the ways and checks the answers.
//! @param answer status(Good const&)
template <class Call, class Good, class Answer>
void check_answers(std::vector<spoilt_call<Call>> const& ways, Good const& good, Answer answer) {
  for (spoilt_call<Call> const& bad : ways) {
    Good call = good;
    bad.spoil(call);
    CAPTURE(bad.what);
    CHECK(std::string(to_string(answer(call))) == to_string(bad.expected));
  }
}

//! A stride whose array has more bytes than an int64 counts; a multiple of 8.
inline constexpr std::int64_t overflowing_stride = std::numeric_limits<std::int64_t>::max() / 8 * 8;

//! The same pointer, some bytes further.
template <class Value>
void move_bytes(Value*& pointer, std::size_t bytes) {
  pointer = reinterpret_cast<Value*>(reinterpret_cast<std::uintptr_t>(pointer) + bytes);
}

//! The same address for what lies there otherwise.
template <class Value>
Value* alias(void const* pointer) {
  return static_cast<Value*>(const_cast<void*>(pointer));
}

//! Selects by the page table.
inline page_table& by_pages(call_arguments& c) {
  c.selected.kind = selection_kind::pages;
  return c.pages();
}

//! Of what a plan and an attention are both given: the number of rows, and the cache's blocks.
inline std::vector<bad_argument> bad_blocks() {
  using s    = status;
  using call = call_arguments&;
  return {
      {"block table is null", s::null_block_table, [](call c) { c.blocks().table = nullptr; }},
      {"block table is at 2 bytes", s::misaligned_batch,
       [](call c) { move_bytes(c.blocks().table, 2); }},
      {"rows are negative", s::invalid_num_rows, [](call c) { c.rows.num_rows = -1; }},
      {"requests are negative", s::invalid_num_requests,
       [](call c) { c.blocks().num_requests = -1; }},
      {"blocks are negative", s::invalid_num_blocks, [](call c) { c.cache().num_blocks = -1; }},
      {"no tokens in a block", s::invalid_block_tokens, [](call c) { c.cache().block_tokens = 0; }},
      {"block is no multiple of a page", s::invalid_block_tokens,
       [](call c) { c.cache().block_tokens = 18; }},
      {"block table's width is negative", s::invalid_table_width,
       [](call c) { c.blocks().width = -1; }},
      {"block table's tokens overflow", s::invalid_table_width,
       [](call c) { c.blocks().row_stride = c.blocks().width = 1 << 27; }},
      {"block table's rows overlap", s::invalid_block_table_stride,
       [](call c) { c.blocks().row_stride = 39; }},
      {"block table's stride overflows", s::invalid_block_table_stride,
       [](call c) { c.blocks().row_stride = overflowing_stride; }},
  };
}

//! Of what a plan is given besides: the rows, what they chose, and the report.
inline std::vector<bad_argument> bad_selections() {
  using s    = status;
  using call = call_arguments&;
  return {
      {"tokens are null", s::null_selection, [](call c) { c.tokens().tokens = nullptr; }},
      {"pages are null", s::null_selection, [](call c) { by_pages(c).pages = nullptr; }},
      {"row_request is null", s::null_row_request, [](call c) { c.rows.row_request = nullptr; }},
      {"row_position is null", s::null_row_position, [](call c) { c.rows.row_position = nullptr; }},
      {"sequence_length is null", s::null_sequence_length,
       [](call c) { c.rows.sequence_length = nullptr; }},
      {"tokens are at 2 bytes", s::misaligned_selection,
       [](call c) { move_bytes(c.tokens().tokens, 2); }},
      {"counts are at 1 byte", s::misaligned_selection,
       [](call c) { move_bytes(c.tokens().counts, 1); }},
      {"pages are at 2 bytes", s::misaligned_selection,
       [](call c) { move_bytes(by_pages(c).pages, 2); }},
      {"row_request is at 2 bytes", s::misaligned_batch,
       [](call c) { move_bytes(c.rows.row_request, 2); }},
      {"row_position is at 4 bytes", s::misaligned_batch,
       [](call c) { move_bytes(c.rows.row_position, 4); }},
      {"sequence_length is at 1 byte", s::misaligned_batch,
       [](call c) { move_bytes(c.rows.sequence_length, 1); }},
      {"report is at 4 bytes", s::misaligned_report, [](call c) { move_bytes(c.report, 4); }},
      {"token table's width is negative", s::invalid_selection_width,
       [](call c) { c.tokens().width = -1; }},
      {"page table's width is negative", s::invalid_selection_width,
       [](call c) { by_pages(c).width = -1; }},
      {"group's pages overflow", s::invalid_selection_width,
       [](call c) {
         by_pages(c);
         c.pages().row_stride = c.pages().width = std::numeric_limits<std::int32_t>::max();
         c.cache().block_tokens                 = 1 << 20;
         c.blocks().width                       = 2000;
         c.blocks().row_stride                  = 2000;
       }},
      {"max_pages is negative", s::invalid_max_pages, [](call c) { c.tokens().max_pages = -1; }},
      {"token table's rows overlap", s::invalid_selection_stride,
       [](call c) { c.tokens().row_stride = 66; }},
      {"token table's stride overflows", s::invalid_selection_stride,
       [](call c) { c.tokens().row_stride = overflowing_stride; }},
      {"page table's rows overlap", s::invalid_selection_stride,
       [](call c) { by_pages(c).row_stride = -16; }},
      {"counts are one", s::invalid_count_stride, [](call c) { c.tokens().count_stride = 0; }},
      {"count stride overflows", s::invalid_count_stride,
       [](call c) { c.tokens().count_stride = overflowing_stride; }},
      {"no kind of selection", s::invalid_selection_kind,
       [](call c) { c.selected.kind = static_cast<selection_kind>(2); }},
      {"report lies in row_position", s::overlapping_report,
       [](call c) { c.report = alias<plan_report>(c.rows.row_position + 19); }},
      {"report ends in the block table", s::overlapping_report,
       [](call c) { c.report = alias<plan_report>(c.blocks().table + 2) - 1; }},
  };
}

//! Of what an attention is given besides.
inline std::vector<bad_argument> bad_operands() {
  using s    = status;
  using call = call_arguments&;
  return {
      {"q is null", s::null_q, [](call c) { c.q().data = nullptr; }},
      {"k is null", s::null_k, [](call c) { c.cache().k = nullptr; }},
      {"v is null", s::null_v, [](call c) { c.cache().v = nullptr; }},
      {"out is null", s::null_out, [](call c) { c.out().data = nullptr; }},
      {"q is at 8 bytes", s::misaligned_q, [](call c) { move_bytes(c.q().data, 8); }},
      {"k is at 8 bytes", s::misaligned_k, [](call c) { move_bytes(c.cache().k, 8); }},
      {"v is at 2 bytes", s::misaligned_v, [](call c) { move_bytes(c.cache().v, 2); }},
      {"out is at 8 bytes", s::misaligned_out, [](call c) { move_bytes(c.out().data, 8); }},
      {"lse is at 2 bytes", s::misaligned_lse, [](call c) { move_bytes(c.lse().data, 2); }},
      {"no heads", s::invalid_num_heads, [](call c) { c.q().num_heads = 0; }},
      {"heads are negative", s::invalid_num_heads, [](call c) { c.q().num_heads = -12; }},
      {"heads do not divide", s::invalid_num_heads, [](call c) { c.q().num_heads = 13; }},
      {"elements of another policy", s::invalid_cache_element,
       [](call c) { c.cache().element = static_cast<cache_element>(7); }},
      {"no KV heads", s::invalid_num_kv_heads, [](call c) { c.cache().num_kv_heads = 0; }},
      {"KV heads are negative", s::invalid_num_kv_heads,
       [](call c) { c.cache().num_kv_heads = -2; }},
      {"too many KV heads", s::invalid_num_kv_heads,
       [](call c) { c.cache().num_kv_heads = 65536; }},
      {"6 heads on 2 KV heads", s::invalid_heads_per_kv, [](call c) { c.q().num_heads = 6; }},
      {"head_dim of another policy", s::invalid_head_dim, [](call c) { c.q().head_dim = 128; }},
      {"q's rows are 4 elements off", s::invalid_q_stride, [](call c) { c.q().row_stride = 3076; }},
      {"q's heads are 4 elements off", s::invalid_q_stride,
       [](call c) { c.q().head_stride = 260; }},
      {"q's stride is negative", s::invalid_q_stride, [](call c) { c.q().row_stride = -3072; }},
      {"q's stride overflows", s::invalid_q_stride,
       [](call c) { c.q().row_stride = overflowing_stride; }},
      {"k's token stride is no multiple of 8", s::invalid_k_stride,
       [](call c) { c.cache().k_strides.token = 513; }},
      {"k's block stride is negative", s::invalid_k_stride,
       [](call c) { c.cache().k_strides.block = -8192; }},
      {"k's head stride overflows", s::invalid_k_stride,
       [](call c) { c.cache().k_strides.head = overflowing_stride; }},
      {"v's head stride is no multiple of 8", s::invalid_v_stride,
       [](call c) { c.cache().v_strides.head = 4; }},
      {"v's token stride is negative", s::invalid_v_stride,
       [](call c) { c.cache().v_strides.token = -512; }},
      {"v's block stride overflows", s::invalid_v_stride,
       [](call c) { c.cache().v_strides.block = overflowing_stride / 64; }},
      {"out's heads overlap", s::invalid_out_stride, [](call c) { c.out().head_stride = 248; }},
      {"out's rows overlap", s::invalid_out_stride, [](call c) { c.out().row_stride = 3064; }},
      {"out's rows are one", s::invalid_out_stride, [](call c) { c.out().row_stride = 0; }},
      {"out's rows are 4 elements off", s::invalid_out_stride,
       [](call c) { c.out().row_stride = 3076; }},
      {"out's stride is negative", s::invalid_out_stride,
       [](call c) { c.out().row_stride = -3072; }},
      {"lse's rows overlap", s::invalid_lse_stride, [](call c) { c.lse().row_stride = 11; }},
      {"lse's heads are one", s::invalid_lse_stride, [](call c) { c.lse().head_stride = 0; }},
      {"lse's stride is negative", s::invalid_lse_stride, [](call c) { c.lse().row_stride = -12; }},
      {"scale is NaN", s::invalid_scale,
       [](call c) { c.operands.scale = std::numeric_limits<float>::quiet_NaN(); }},
      {"scale is infinite", s::invalid_scale,
       [](call c) { c.operands.scale = -std::numeric_limits<float>::infinity(); }},
      {"scale is infinite in base 2", s::invalid_scale, [](call c) { c.operands.scale = -3e38f; }},
      {"no type of output", s::invalid_out_type,
       [](call c) { c.out().type = static_cast<element_type>(2); }},
      {"no base of lse", s::invalid_lse_base,
       [](call c) { c.lse().base = static_cast<log_base>(2); }},
      {"out is q", s::overlapping_out, [](call c) { c.out().data = alias<void>(c.q().data); }},
      {"out ends in k", s::overlapping_out,
       [](call c) { c.out().data = alias<__half>(c.cache().k) - 8; }},
      {"out begins in the last element of v", s::overlapping_out,
       [](call c) { c.out().data = alias<__half>(c.cache().v) + 120 * 16 * 512 - 8; }},
      {"out is lse", s::overlapping_out, [](call c) { c.out().data = c.lse().data; }},
  };
}

//! Of what an attention is given together with selections.
inline std::vector<bad_argument> bad_overlaps() {
  using s    = status;
  using call = call_arguments&;
  return {
      {"out is the token table", s::overlapping_out,
       [](call c) { c.out().data = alias<void>(c.tokens().tokens); }},
      {"out is the page table", s::overlapping_out,
       [](call c) { c.out().data = alias<void>(by_pages(c).pages); }},
      {"lse lies in row_request", s::overlapping_lse,
       [](call c) { c.lse().data = alias<float>(c.rows.row_request) + 19; }},
      {"lse is row_position", s::overlapping_lse,
       [](call c) { c.lse().data = alias<float>(c.rows.row_position); }},
      {"lse is sequence_length", s::overlapping_lse,
       [](call c) { c.lse().data = alias<float>(c.rows.sequence_length); }},
      {"lse is the report", s::overlapping_lse,
       [](call c) { c.lse().data = alias<float>(c.report); }},
  };
}

//! Of the workspace.
inline std::vector<bad_argument> bad_workspaces() {
  using s    = status;
  using call = call_arguments&;
  return {
      {"workspace is null", s::null_workspace, [](call c) { c.workspace = nullptr; }},
      {"workspace is at 128 bytes", s::misaligned_workspace,
       [](call c) { move_bytes(c.workspace, 128); }},
      {"workspace is empty", s::workspace_too_small, [](call c) { c.workspace_bytes = 0; }},
      {"out lies in the workspace", s::overlapping_out,
       [](call c) { c.out().data = alias<char>(c.workspace) + 256; }},
      {"report lies in the workspace", s::overlapping_report,
       [](call c) { c.report = alias<plan_report>(c.workspace); }},
      {"lse lies in the workspace", s::overlapping_lse,
       [](call c) { c.lse().data = alias<float>(c.workspace); }},
      {"workspace is the block table", s::overlapping_workspace,
       [](call c) { c.workspace = alias<void>(c.blocks().table); }},
      {"workspace is counts", s::overlapping_workspace,
       [](call c) { c.workspace = alias<void>(c.tokens().counts); }},
      {"workspace ends in q", s::overlapping_workspace,
       [](call c) {
         c.workspace       = alias<void>(c.q().data);
         c.workspace_bytes = std::size_t{1} << 30;
         move_bytes(c.workspace, std::size_t{0} - c.workspace_bytes + 256);
       }},
  };
}

//! All of them.
inline std::vector<bad_argument> bad_arguments() {
  std::vector<bad_argument> all;
  for (auto const& some :
       {bad_blocks(), bad_selections(), bad_operands(), bad_overlaps(), bad_workspaces()}) {
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

//! Calls that look odd and are legal.
inline std::vector<bad_argument> legal_oddities() {
  using s    = status;
  using call = call_arguments&;
  return {
      {"no lse", s::ok, [](call c) { c.operands.lse = {}; }},
      {"no report", s::ok, [](call c) { c.report = nullptr; }},
      {"no counts", s::ok, [](call c) { c.tokens().counts = nullptr; }},
      {"by pages", s::ok, [](call c) { by_pages(c); }},
      {"unused tables are not looked at", s::ok,
       [](call c) {
         by_pages(c);
         c.selected.tokens = {};
         c.tokens().width  = -1;
         c.tokens().counts = reinterpret_cast<std::int32_t const*>(1);
       }},
      {"counts in a column", s::ok,
       [](call c) {
         c.tokens().counts       = c.tokens().tokens + 67;
         c.tokens().count_stride = 80;
       }},
      {"K and V in one tensor", s::ok,
       [](call c) {
         kv_cache& cache       = c.operands.cache;
         cache.v               = alias<__half>(cache.k) + 256;
         cache.k_strides.head  = 512;
         cache.k_strides.token = 1024;
         cache.k_strides.block = 16 * 1024;
         cache.v_strides       = cache.k_strides;
       }},
      {"heads before rows in out", s::ok,
       [](call c) {
         c.out().row_stride  = 256;
         c.out().head_stride = 20 * 256;
       }},
      {"heads before rows in lse", s::ok,
       [](call c) {
         c.lse().row_stride  = 1;
         c.lse().head_stride = 20;
       }},
      {"one query for all rows", s::ok, [](call c) { c.q().row_stride = 0; }},
      {"scale 0", s::ok, [](call c) { c.operands.scale = 0.0f; }},
      {"negative scale", s::ok, [](call c) { c.operands.scale = -1.0f; }},
      {"enormous scale", s::ok, [](call c) { c.operands.scale = 2e38f; }},
      {"lse begins where out ends", s::ok,
       [](call c) { c.lse().data = alias<float>(alias<__half>(c.out().data) + 20 * 3072); }},
      {"no requests", s::ok,
       [](call c) {
         c.cache().blocks       = {};
         c.rows.sequence_length = nullptr;
       }},
      {"no blocks", s::ok,
       [](call c) {
         c.cache().num_blocks = 0;
         c.cache().k          = nullptr;
         c.cache().v          = nullptr;
       }},
      {"no columns in the selection", s::ok,
       [](call c) {
         c.tokens().width  = 0;
         c.tokens().tokens = nullptr;
       }},
      {"no columns in the block table", s::ok,
       [](call c) {
         c.blocks().width = 0;
         c.blocks().table = nullptr;
       }},
      {"one row's strides are not looked at", s::ok,
       [](call c) {
         c.rows.num_rows         = 1;
         c.q().row_stride        = 1;
         c.out().row_stride      = 1;
         c.lse().row_stride      = 0;
         c.tokens().row_stride   = 0;
         c.tokens().count_stride = 0;
       }},
      {"no rows, no arrays", s::ok,
       [](call c) {
         c.rows            = {};
         c.tokens().tokens = nullptr;
         c.q().data        = nullptr;
         c.cache().k       = nullptr;
         c.cache().v       = nullptr;
         c.blocks().table  = nullptr;
         c.out().data      = nullptr;
       }},
  };
}

}  // namespace pageunion::test
