// SPDX-License-Identifier: Apache-2.0
//! @file
//! Any bytes as a call of prefill() on the executor, for libFuzzer. A wrong result is a crash, and so
//! are a report of the executor or of a sanitizer, and memory that changed and was not to.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <string>
#include <vector>

#include <executor/launch.hpp>
#include <pageunion/prefill.cuh>

#include "support/make_problem.hpp"
#include "support/prefill_run.cuh"
#include "support/random.hpp"

namespace {

using namespace pageunion;
using namespace pageunion::test;

//! Small, with everything that the default has: three m-tiles and so seven categories, several
//! partitions in a row of a few pages.
struct fuzz_policy : qsa_policy {
  static constexpr int group_rows       = 4;
  static constexpr int heads_per_kv     = 12;
  static constexpr int head_dim         = 64;
  static constexpr int warp_tiles       = 1;
  static constexpr int partition_tokens = 64;
};

//! The bytes of an input, and zeros after them.
class byte_source {
 public:
  byte_source(std::uint8_t const* data, std::size_t size) : next_(data), end_(data + size) {}

  int byte() { return next_ != end_ ? *next_++ : 0; }

  //! In [0, end); 0 if end is not positive.
  int below(int end) { return end > 0 ? byte() % end : 0; }

  template <class Value>
  Value one_of(std::initializer_list<Value> values) {
    return values.begin()[below(values.size())];
  }

  //! Seven times in eight in [0, end), else a number that code may trip over.
  std::int64_t number(std::int64_t end) {
    constexpr std::int64_t two_32  = std::int64_t{1} << 32;
    constexpr std::int64_t most_32 = std::numeric_limits<std::int32_t>::max();
    constexpr std::int64_t most_64 = std::numeric_limits<std::int64_t>::max();
    std::int64_t const odd[]       = {-1,           -2,         -3,          -4,          -5,
                                      -256,         -65536,     -two_32,     end,         end + 1,
                                      end + 3,      end + 4,    2 * end,     255,         1024,
                                      65535,        most_32,    most_32 - 1, most_32 / 4, most_32 / 4 + 1,
                                      -most_32 - 1, -most_32,   two_32 / 2,  two_32 / 4,  two_32,
                                      two_32 + 1,   two_32 + 4, most_64,     most_64 - 1, -most_64 - 1,
                                      -most_64,     0};
    constexpr int first_odd        = 256 - static_cast<int>(std::size(odd));
    std::int64_t const value       = byte();
    if (value >= first_odd || end <= 0) {
      return value >= first_odd ? odd[value - first_odd] : 0;
    }
    return end <= first_odd ? value % end : (value * 256 + byte()) * end / (first_odd * 256);
  }

  std::int32_t narrow_number(std::int64_t end) { return static_cast<std::int32_t>(number(end)); }

 private:
  std::uint8_t const* next_;
  std::uint8_t const* end_;
};

std::size_t size_of(std::int64_t count, std::int64_t stride) {
  return static_cast<std::size_t>(count * stride);
}

//! Standard-normal halves, the same in every run.
std::vector<std::uint16_t> halves(std::size_t count) {
  static std::vector<std::uint16_t> const source = [] {
    normal_source normal(1);
    std::vector<std::uint16_t> values(1 << 17);
    std::generate(values.begin(), values.end(), [&] { return normal.next_half(); });
    return values;
  }();
  return {source.begin(), source.begin() + static_cast<std::ptrdiff_t>(count)};
}

problem_spec decode_spec(byte_source& from, bool is_wide) {
  problem_spec spec = spec_of<fuzz_policy>();
  spec.num_rows     = from.below(is_wide ? 6 : 21);
  spec.num_requests = from.below(5);
  spec.block_tokens = fuzz_policy::page_tokens * (1 + from.below(6));
  spec.num_kv_heads = from.one_of({1, 1, 2});
  spec.kind         = from.one_of({selection_kind::tokens, selection_kind::pages});
  spec.counts_form  = from.one_of({count_form::none, count_form::array, count_form::column});
  spec.layout       = from.one_of({kv_layout::separate, kv_layout::interleaved_tokens});
  spec.out_type     = from.one_of({element_type::f16, element_type::f32});
  spec.lse_base     = from.one_of({log_base::natural, log_base::two});
  spec.gap          = 8 * from.below(2);
  if (spec.num_rows == 0 || spec.kind == selection_kind::pages) {
    spec.counts_form = count_form::none;
  }
  return spec;
}

//! Numbers in runs, so that few bytes make many; those in [0, end) stay there.
void decode_runs(byte_source& from, std::int32_t* to, int count, std::int64_t end, int longest) {
  for (int i = 0; i < count;) {
    std::int64_t value = from.number(end);
    int const form     = from.byte();
    for (int left = 1 + form % 64 * longest / 64; left > 0 && i < count; --left, ++i) {
      to[i] = static_cast<std::int32_t>(value);
      value = value >= 0 && value < end ? (value + 1 + form / 64) % end : value;
    }
  }
}

//! One in four tables is long: more pages than the planner looks at in one go.
void decode_block_table(byte_source& from, host_problem& p) {
  bool const is_long = from.below(4) == 3;
  p.num_blocks       = from.below(12);
  p.table_width      = is_long ? 100 * from.below(60) : from.below(8);
  p.table_stride     = p.table_width + from.below(3);
  p.block_entries.resize(size_of(p.num_requests, p.table_stride));
  decode_runs(from, p.block_entries.data(), static_cast<int>(p.block_entries.size()), p.num_blocks,
              is_long ? 2048 : 4);
}

void decode_rows(byte_source& from, host_problem& p) {
  std::int64_t const mapped = p.table_width * p.block_tokens;
  for (int i = 0; i < p.num_requests; ++i) {
    p.sequence_length.push_back(from.narrow_number(mapped + 1));
  }
  for (int i = 0; i < p.num_rows; ++i) {
    p.row_request.push_back(from.narrow_number(p.num_requests));
    p.row_position.push_back(from.number(mapped));
  }
}

//! @param is_wide entries enough to be loaded several at a time
void decode_selection(byte_source& from, host_problem& p, bool is_wide) {
  bool const is_by_page      = p.kind == selection_kind::pages;
  std::int64_t const entries = p.table_width * p.block_tokens / (is_by_page ? 4 : 1);
  p.width                    = is_wide ? 512 + 2 * from.byte() : from.below(is_by_page ? 24 : 96);
  p.entry_stride = p.width + (p.counts_form == count_form::column ? 1 : 0) + from.below(2);
  p.entries.assign(size_of(p.num_rows, p.entry_stride), 0);
  for (int row = 0; row < p.num_rows; ++row) {
    std::int32_t* const stored = p.entries.data() + size_of(row, p.entry_stride);
    decode_runs(from, stored, p.width, entries, is_wide ? 512 : 16);
    if (p.counts_form == count_form::array) {
      p.counts.push_back(from.narrow_number(p.width + 1));
    } else if (p.counts_form == count_form::column) {
      stored[p.width] = from.narrow_number(p.width + 1);
    }
  }
}

//! Strides and contents of Q, K and V; K and V of tokens that no row attends to are NaN.
void make_tensors(host_problem& p, problem_spec const& spec) {
  std::int64_t const dim    = p.head_dim + spec.gap;
  bool const is_interleaved = spec.layout == kv_layout::interleaved_tokens;
  p.q_head_stride = p.out_head_stride = dim;
  p.q_row_stride = p.out_row_stride = p.num_heads() * dim;
  p.lse_row_stride                  = p.num_heads() + spec.gap;
  p.k_strides.head                  = is_interleaved ? 2 * dim : dim;
  p.k_strides.token                 = p.num_kv_heads * p.k_strides.head;
  p.k_strides.block                 = p.block_tokens * p.k_strides.token;
  p.v_strides                       = p.k_strides;
  p.v_first                         = is_interleaved ? dim : 0;

  // At least one block where V begins inside K's array: the host's views point there.
  std::size_t const cache_size =
      size_of(std::max(p.num_blocks, is_interleaved ? 1 : 0), p.k_strides.block);
  p.q_data = halves(size_of(p.num_rows, p.q_row_stride));
  p.k_data = halves(cache_size);
  if (!is_interleaved) {
    p.v_data = halves(cache_size);
    std::reverse(p.v_data.begin(), p.v_data.end());
  }
  poison_unselected(p);
}

//! The most pages in which the tokens of a row lie.
int most_pages(host_problem const& p) {
  int most = 0;
  for (int row = 0; row < p.num_rows; ++row) {
    int pages = 0, last = -1;
    for (std::int32_t const token : p.tokens_of(row)) {
      pages += token / p.page_tokens != last ? 1 : 0;
      last = token / p.page_tokens;
    }
    most = std::max(most, pages);
  }
  return most;
}

[[noreturn]] void fail(std::string const& what) {
  std::fprintf(stderr, "prefill: %s\n", what.c_str());
  std::abort();
}

//! Replaces one of the call's shapes by any number.
void spoil(byte_source& from, prefill_args& args) {
  auto& [rows, selected, operands, route, report] = args;
  std::int32_t* const narrow[]                    = {&rows.num_rows,
                                                     &selected.tokens.width,
                                                     &selected.tokens.max_pages,
                                                     &selected.pages.width,
                                                     &operands.cache.num_blocks,
                                                     &operands.cache.block_tokens,
                                                     &operands.cache.num_kv_heads,
                                                     &operands.cache.blocks.num_requests,
                                                     &operands.cache.blocks.width,
                                                     &operands.q.num_heads,
                                                     &operands.q.head_dim};
  std::int64_t* const wide[] = {&selected.tokens.row_stride,     &selected.tokens.count_stride,
                                &selected.pages.row_stride,      &operands.cache.k_strides.block,
                                &operands.cache.k_strides.token, &operands.cache.k_strides.head,
                                &operands.cache.v_strides.block, &operands.cache.blocks.row_stride,
                                &operands.q.row_stride,          &operands.q.head_stride,
                                &operands.out.row_stride,        &operands.out.head_stride,
                                &operands.lse.row_stride,        &operands.lse.head_stride};
  std::size_t const field    = static_cast<std::size_t>(from.byte()) % 25;
  static_assert(std::size(narrow) + std::size(wide) == 25, "a byte must reach every field");
  if (field < std::size(narrow)) {
    *narrow[field] = from.narrow_number(256);
  } else {
    *wide[field - std::size(narrow)] = from.number(256);
  }
}

//! A call that was spoilt is refused by can_prefill() and prefill() alike, and nothing is written;
//! if it is accepted all the same, the arrays may be too small for it.
void check_refusal(byte_source& from, prefill_run<fuzz_policy>& call) {
  prefill_args args = call.args();
  spoil(from, args);
  call.poison();
  void* const workspace   = call.workspace();
  std::size_t const bytes = call.workspace_size();
  status const refused    = can_prefill<fuzz_policy>(args, workspace, bytes);
  if (refused != status::ok &&
      (prefill<fuzz_policy>(args, workspace, bytes, nullptr) != refused ||
       !call.device().is_output_untouched() || !call.device().damage().empty())) {
    fail("a call that was refused: " + std::string(to_string(refused)));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  byte_source from(data, size);
  executor::set_seed(static_cast<std::uint64_t>(from.below(8)));
  bool const is_spoilt = from.below(8) == 7;
  route const wanted   = from.one_of({route::grouped, route::row, route::automatic});
  int const slack      = from.below(4);
  bool const is_wide   = from.below(4) == 3;
  host_problem p;
  problem_spec const spec        = decode_spec(from, is_wide);
  static_cast<problem_shape&>(p) = spec;
  p.scale                        = from.one_of({0.125f, 0.0f, -0.125f, 1.0f});
  decode_block_table(from, p);
  decode_rows(from, p);
  decode_selection(from, p, is_wide);
  make_tensors(p, spec);
  p.max_pages = slack == 0 ? 0 : std::max(most_pages(p), 1) + slack - 1;

  prefill_run<fuzz_policy> call(p, wanted);
  if (is_spoilt) {
    check_refusal(from, call);
    return 0;
  }
  device_array const report(std::vector<plan_report>(1));
  call.report_to(report.as<plan_report>());
  status const answer      = call.run();
  std::string const faults = answer == status::ok ? call.faults() : to_string(answer);
  if (!faults.empty()) {
    fail(faults);
  }
  return 0;
}
