// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 3. What an attention call reads and writes besides the selection. Views of device memory (host
//! memory for the reference); nothing is checked or owned.
#pragma once

#include <cstdint>

#include <pageunion/kv_cache.hpp>

PAGEUNION_NAMESPACE_BEGIN

//! Element of the output.
enum class element_type : int { f16, f32 };

//! Base of the logarithm in lse.
enum class log_base : int { natural, two };

//! Queries, [rows, num_heads, head_dim]; head_dim is contiguous.
struct query_view {
  __half const* data       = nullptr;  //!< 16-byte aligned
  std::int32_t num_heads   = 0;        //!< a multiple of the cache's num_kv_heads
  std::int32_t head_dim    = 0;        //!< elements of a head
  std::int64_t row_stride  = 0;        //!< elements between two rows, a multiple of 8
  std::int64_t head_stride = 0;        //!< elements between two heads, a multiple of 8
};

//! Attention output, [rows, num_heads, head_dim]; head_dim is contiguous.
struct output_view {
  void* data               = nullptr;  //!< half or float, 16-byte aligned
  element_type type        = element_type::f16;
  std::int64_t row_stride  = 0;  //!< elements between two rows, a multiple of 8
  std::int64_t head_stride = 0;  //!< elements between two heads, a multiple of 8
};

//! Logarithm of the sum of exponentials of the scaled scores, [rows, num_heads].
struct lse_view {
  float* data              = nullptr;  //!< null to skip
  log_base base            = log_base::natural;
  std::int64_t row_stride  = 0;  //!< elements between two rows
  std::int64_t head_stride = 1;  //!< elements between two heads
};

//! Operands of one attention call. Query head h reads KV head h / (q.num_heads / cache.num_kv_heads).
struct attention_operands {
  query_view q;
  kv_cache cache;
  output_view out;
  lse_view lse;
  float scale = 1.0f;  //!< multiplies q . k, dimensionless, finite
};

//! Where row attention keeps the results of a row's partitions until they are merged; float, without
//! gaps. With one partition nothing is kept and the arrays may be null.
struct row_partials {
  float* out = nullptr;  //!< [num_partitions, rows, num_heads, head_dim], 16-byte aligned
  float* lse = nullptr;  //!< [num_partitions, rows, num_heads], in base 2
  std::int32_t num_partitions = 1;  //!< partitions that the arrays have room for
};

//! Results of the same rows and heads over sets of tokens that have no token in common: partitions of
//! a row, or the shards of a cache. Strides in elements, none negative.
struct partial_view {
  float const* out = nullptr;  //!< [partials, rows, num_heads, head_dim], 16-byte aligned
  float const* lse = nullptr;  //!< [partials, rows, num_heads]; -inf = no token, out is not read
  log_base base    = log_base::natural;  //!< of lse
  std::int64_t out_partial_stride = 0;   //!< between two partials, a multiple of 4
  std::int64_t out_row_stride     = 0;   //!< between two rows, a multiple of 4
  std::int64_t out_head_stride    = 0;   //!< between two heads, a multiple of 4
  std::int64_t lse_partial_stride = 0;   //!< between two partials
  std::int64_t lse_row_stride     = 0;   //!< between two rows
  std::int64_t lse_head_stride    = 1;   //!< between two heads
};

PAGEUNION_NAMESPACE_END
