// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 4. The rules that say which tokens a row attends to, one small function each, for host and
//! device. Knows a row's facts and the block table's shape; reads no table by itself.
#pragma once

#include <cstdint>

#include <pageunion/kv_cache.hpp>
#include <pageunion/selection.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! Why an entry of a selection was dropped. The first reason that holds, in this order.
enum class drop_reason : int {
  none = 0,        //!< not dropped
  negative,        //!< the entry is negative: a hole or a fill
  not_visible,     //!< the token is outside the row's visible range
  past_table,      //!< its logical cache block is outside the block table's width
  unmapped_block,  //!< its physical cache block is outside [0, num_blocks)
  over_capacity,   //!< its page did not fit: the caller's max_pages was too small
};

//! Tokens [begin, end) of a request.
struct token_range {
  std::int32_t begin = 0;  //!< the first token
  std::int32_t end   = 0;  //!< one past the last
};

//! The tokens of its request that a row may see, the one place that says so: those up to its position
//! and the request's length, [0, max(0, min(position + 1, sequence_length))). Any int64 position is
//! legal. Planner, row route and report take the range from here and hold for any begin.
__host__ __device__ constexpr token_range visible_tokens(std::int64_t position,
                                                         std::int32_t sequence_length) noexcept {
  if (position < 0 || sequence_length <= 0) {
    return {};
  }
  return {0,
          position < sequence_length ? static_cast<std::int32_t>(position) + 1 : sequence_length};
}

//! True if a row's request exists. Rows of other requests are empty rows.
__host__ __device__ constexpr bool is_request(std::int32_t request,
                                              std::int32_t num_requests) noexcept {
  return request >= 0 && request < num_requests;
}

//! The entries of a row's table that may be read: the count, clamped to [0, width].
__host__ __device__ constexpr std::int32_t entries_in_use(std::int32_t count,
                                                          std::int32_t width) noexcept {
  return count < 0 ? 0 : (count < width ? count : width);
}

//! Checks a token against everything but the block table's contents.
//! @param token a table entry; 64-bit so that a page number times page_tokens cannot overflow
__host__ __device__ constexpr drop_reason check_token(std::int64_t token, token_range visible,
                                                      std::int32_t block_tokens,
                                                      std::int32_t table_width) noexcept {
  if (token < 0) {
    return drop_reason::negative;
  }
  if (token < visible.begin || token >= visible.end) {
    return drop_reason::not_visible;
  }
  return token / block_tokens >= table_width ? drop_reason::past_table : drop_reason::none;
}

//! True if a physical cache block exists.
__host__ __device__ constexpr bool is_mapped(std::int32_t block, std::int32_t num_blocks) noexcept {
  return block >= 0 && block < num_blocks;
}

//! The page that a page table's row gets besides its entries: its last one if partly visible, else -1.
__host__ __device__ constexpr std::int32_t tail_page(std::int32_t end, int page_tokens) noexcept {
  return end % page_tokens == 0 ? -1 : end / page_tokens;
}

//! The most pages that one row can attend to, known from shapes alone: what the block table can hold,
//! what the selection can list (a page table's implied tail included), and the caller's max_pages.
constexpr std::int64_t max_pages_per_row(selection const& selected, int page_tokens,
                                         std::int32_t block_tokens,
                                         std::int32_t table_width) noexcept {
  std::int64_t const mapped = static_cast<std::int64_t>(table_width) * (block_tokens / page_tokens);
  std::int64_t listed       = static_cast<std::int64_t>(selected.pages.width) + 1;
  if (selected.kind != selection_kind::pages) {
    token_table const& tokens = selected.tokens;
    listed =
        tokens.max_pages > 0 && tokens.max_pages < tokens.width ? tokens.max_pages : tokens.width;
  }
  return listed < mapped ? listed : mapped;
}

PAGEUNION_NAMESPACE_END
