// SPDX-License-Identifier: Apache-2.0
#include <pageunion/kv_cache.hpp>

#include <cstdint>

#include "support/catch.hpp"

TEST_CASE("contiguous strides address [blocks, tokens, heads, dim] in order", "[addressing]") {
  int const block_tokens              = 12;
  int const heads                     = 3;
  int const dim                       = 64;
  pageunion::kv_strides const strides = pageunion::contiguous_kv_strides(block_tokens, heads, dim);
  std::int64_t expected               = 0;
  for (int block = 0; block < 3; ++block) {
    for (int token = 0; token < block_tokens; ++token) {
      for (int head = 0; head < heads; ++head) {
        REQUIRE(pageunion::kv_offset(strides, block, token, head) == expected);
        expected += dim;
      }
    }
  }
}

TEST_CASE("each stride multiplies its own axis", "[addressing]") {
  pageunion::kv_strides strides;
  strides.block = 1000000;
  strides.token = 1000;
  strides.head  = 8;
  CHECK(pageunion::kv_offset(strides, 7, 5, 3) == 7005024);
}

TEST_CASE("offsets are made in 64 bits", "[addressing]") {
  // 131,072 tokens of 64 heads of 512 elements: 2^32 elements.
  pageunion::kv_strides const strides = pageunion::contiguous_kv_strides(65536, 64, 512);
  CHECK(strides.block == std::int64_t{1} << 31);
  CHECK(pageunion::kv_offset(strides, 3, 0, 0) == std::int64_t{3} << 31);
  CHECK(pageunion::kv_offset(strides, 0, 65535, 63) == (std::int64_t{1} << 31) - 512);

  // Tokens further apart than 2^31 elements, heads likewise.
  pageunion::kv_strides far;
  far.token = std::int64_t{1} << 33;
  far.head  = std::int64_t{1} << 40;
  CHECK(pageunion::kv_offset(far, 0, 5, 0) == std::int64_t{5} << 33);
  CHECK(pageunion::kv_offset(far, 0, 0, 5) == std::int64_t{5} << 40);
}
