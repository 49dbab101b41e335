// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 3. What an attention call reads and writes besides the selection: queries, the cache,
//! outputs, scale. Views of device memory (host memory for the reference), nothing checked or owned.
#pragma once

#include <cuda_fp16.h>

#include <cstdint>

#include <pageunion/kv_cache.hpp>

namespace pageunion {

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

}  // namespace pageunion
