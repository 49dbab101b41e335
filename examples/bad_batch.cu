// SPDX-License-Identifier: Apache-2.0
// What a report says of a batch with mistakes in it: nothing of it is an error, everything is counted.
#include <cstdio>
#include <vector>

#include <pageunion/pageunion.cuh>
#include <pageunion/report.hpp>

#include "example.hpp"

using shape = pageunion::plan_shape_of<pageunion::qsa_policy>;

int main() {
  if (lacks_device()) return skipped;
  // 32 rows at the end of a sequence of 400 tokens; each lists the 40 tokens of 10 whole pages.
  constexpr int rows = 32, width = 40, length = 400, block_tokens = 16,
                blocks = length / block_tokens;
  std::vector<int> table(rows * width), request(rows, 0), block_of(blocks);
  std::vector<std::int64_t> position(rows);
  for (int row = 0; row < rows; ++row) {
    position[row] = length - rows + row;
    for (int i = 0; i < width; ++i)
      table[row * width + i] = (row / 4 + i / 4 * 9) * 4 % 368 + i % 4;
  }
  for (int i = 0; i < blocks; ++i) block_of[i] = (i * 7 + 3) % blocks;

  request[5]            = 1;      // there is only request 0
  position[9]           = -1;     // sees nothing
  table[12 * width]     = -1;     // a hole
  table[13 * width + 1] = 399;    // in the future of row 13
  table[14 * width + 2] = 70000;  // far past the sequence
  block_of[2]           = -1;     // tokens 32 to 47 were never mapped

  pageunion::batch const batch{rows, to_device(request), to_device(position),
                               to_device(std::vector<int>{length})};
  pageunion::selection const selected =
      pageunion::token_table{to_device(table), width, width, nullptr, 1, 0};
  pageunion::kv_cache cache;  // the planner looks at the block table alone
  cache.block_tokens = block_tokens;
  cache.num_blocks   = blocks;
  cache.num_kv_heads = 1;
  cache.blocks       = {to_device(block_of), 1, blocks, blocks};
  cache.k            = cache.v =
      to_device(std::vector<__half>(blocks * block_tokens * pageunion::qsa_policy::head_dim));
  cache.k_strides = cache.v_strides =
      pageunion::contiguous_kv_strides(block_tokens, 1, pageunion::qsa_policy::head_dim);

  auto const groups         = pageunion::num_groups<shape>(rows);
  auto const capacity       = int(pageunion::group_capacity<shape>(width));
  auto const bytes          = pageunion::layout_plan<shape>(groups, capacity).total;
  auto const planned        = pageunion::carve_plan<shape>(allocate(bytes), groups, capacity);
  auto* const device_report = to_device(std::vector<pageunion::plan_report>(1));
  auto const status =
      pageunion::make_plan<shape>(batch, selected, cache, planned, device_report, nullptr);
  pageunion::plan_report const report = to_host(device_report, 1)[0];
  std::printf("%s\n%s", to_string(status), pageunion::format_report(report).c_str());
  bool const is_right =
      report.bad_request_rows == 1 && report.empty_rows == 2 && report.negative == 1;
  return status == pageunion::status::ok && is_right ? 0 : 1;
}
