// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 2. The paged KV cache as the kernels see it: two strided arrays and a block table.
//! Knows addresses, not which tokens a row may see (rules.hpp).
#pragma once

#include <cstdint>

#include <pageunion/element.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! Maps a request's logical cache blocks to physical ones.
struct block_table {
  std::int32_t const* table = nullptr;  //!< [num_requests, width], rows row_stride apart
  std::int32_t num_requests = 0;        //!< of the table, of sequence_length, and of the rows
  std::int32_t width        = 0;        //!< logical cache blocks that a request can have
  std::int64_t row_stride   = 0;        //!< elements between two requests, at least width
};

//! Strides of one of the two cache arrays, in elements; the last axis (head_dim) is contiguous.
//! They say any layout: separate K and V, K/V interleaved in one tensor, heads before tokens.
struct kv_strides {
  std::int64_t block = 0;  //!< between two cache blocks
  std::int64_t token = 0;  //!< between two tokens of a cache block
  std::int64_t head  = 0;  //!< between two KV heads of a token
};

//! Keys and values of all requests.
struct kv_cache {
  //! [num_blocks, block_tokens, num_kv_heads, head_dim] of `element`, 16-byte aligned
  void const* k = nullptr;
  void const* v = nullptr;        //!< the same shape with strides of its own, 16-byte aligned
  kv_strides k_strides;           //!< of k; each a multiple of 16 bytes
  kv_strides v_strides;           //!< of v; each a multiple of 16 bytes
  std::int32_t num_blocks   = 0;  //!< physical cache blocks
  std::int32_t block_tokens = 0;  //!< tokens of a cache block: a multiple of page_tokens
  std::int32_t num_kv_heads = 0;  //!< KV heads
  block_table blocks;             //!< logical to physical cache blocks
  cache_element element = cache_element::f16;  //!< what k and v are stored as: the policy's
};

//! Strides of a cache array stored as [num_blocks, block_tokens, num_kv_heads, head_dim] without gaps.
constexpr kv_strides contiguous_kv_strides(std::int32_t block_tokens, std::int32_t num_kv_heads,
                                           std::int32_t head_dim) noexcept {
  std::int64_t const token = static_cast<std::int64_t>(head_dim) * num_kv_heads;
  return {token * block_tokens, token, head_dim};
}

//! Offset in elements of head_dim contiguous elements: one token of one KV head.
//! All arithmetic is 64-bit: a cache can exceed 2^31 elements.
__host__ __device__ constexpr std::int64_t kv_offset(kv_strides const& strides, std::int32_t block,
                                                     std::int32_t token_in_block,
                                                     std::int32_t kv_head) noexcept {
  return block * strides.block + token_in_block * strides.token + kv_head * strides.head;
}

PAGEUNION_NAMESPACE_END
