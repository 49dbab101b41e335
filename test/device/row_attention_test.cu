// SPDX-License-Identifier: Apache-2.0
//! @file
//! row_attention() on the device: every corner against the reference, and the promise that a row's
//! result depends on the row's own tokens alone.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <pageunion/plan.hpp>
#include <pageunion/row_attention.cuh>

#include "support/bad_arguments.hpp"
#include "support/captured_graph.cuh"
#include "support/catch.hpp"
#include "support/host_plan.hpp"
#include "support/make_problem.hpp"
#include "support/policies.hpp"
#include "support/random.hpp"
#include "support/report_difference.hpp"
#include "support/row_run.cuh"
#include "support/test_size.hpp"

namespace {

using namespace pageunion;
using namespace pageunion::test;

template <class Policy>
void require_right(host_problem const& p) {
  REQUIRE(row_run<Policy>(p).run_faults() == "");
}

//! The problem of one of its rows.
host_problem only_row(host_problem const& p, int row) {
  host_problem one = p;
  one.num_rows     = 1;
  one.row_request  = slice_of(p.row_request, row, 1);
  one.row_position = slice_of(p.row_position, row, 1);
  one.q_data       = slice_of(p.q_data, row, p.q_row_stride);
  one.entries      = slice_of(p.entries, row, p.entry_stride);
  one.counts       = p.counts.empty() ? p.counts : slice_of(p.counts, row, 1);
  return one;
}

//! The same selection with more columns, all of them holes, and so with more partitions.
host_problem widened(host_problem const& p, int columns) {
  host_problem wide = p;
  wide.width += columns;
  wide.entry_stride += columns;
  wide.entries.clear();
  for (int row = 0; row < p.num_rows; ++row) {
    std::vector<std::int32_t> entries = slice_of(p.entries, row, p.entry_stride);
    entries.insert(entries.begin() + p.width, columns, -1);
    wide.entries.insert(wide.entries.end(), entries.begin(), entries.end());
  }
  return wide;
}

//! A problem with the rows and requests of `spec`, of which each row attends to `pages` pages anywhere in a
//! context of `length` tokens: the block table maps it to a few physical blocks, again and again.
host_problem long_context(problem_spec spec, std::int32_t length, int pages) {
  spec.lengths            = std::vector<int>(spec.num_requests, 64);
  spec.unselected         = cache_fill::values;
  host_problem p          = make_problem(spec);
  std::int32_t const last = length - 1;
  random_source source(spec.seed);
  p.table_width  = (length + spec.block_tokens - 1) / spec.block_tokens;
  p.table_stride = p.table_width;
  p.block_entries.resize(spec.num_requests * p.table_stride);
  for (std::int32_t& entry : p.block_entries) {
    entry = source.below(p.num_blocks);
  }
  std::fill(p.sequence_length.begin(), p.sequence_length.end(), length);
  std::fill(p.row_position.begin(), p.row_position.end(), last);
  bool const is_by_page = spec.kind == selection_kind::pages;
  p.width               = pages;
  p.entry_stride        = pages;
  p.entries.resize(spec.num_rows * pages);
  for (std::int32_t& entry : p.entries) {
    auto const token = source.below(length);
    entry            = is_by_page ? token / spec.page_tokens : token;
  }
  p.entries[0] = is_by_page ? last / spec.page_tokens : last;
  return p;
}

}  // namespace

TEMPLATE_TEST_CASE("row attention agrees with the reference for any number of rows", "[row]",
                   qsa_policy, short_head_policy, twelve_head_policy, wide_page_policy) {
  problem_spec spec = spec_of<TestType>();
  spec.num_rows     = GENERATE(0, 1, 2, 3, 5, 8, 16, 33, 64);
  bool const is_one = GENERATE(true, false);
  spec.kind         = is_one ? selection_kind::tokens : selection_kind::pages;
  spec.num_requests = is_one || spec.num_rows == 0 ? 1 : spec.num_rows;
  spec.block_tokens = 16;
  spec.lse_base     = is_one ? log_base::natural : log_base::two;
  CAPTURE(spec.num_rows, spec.num_requests);
  require_right<TestType>(make_problem(spec));
}

TEST_CASE("a row may fill its partitions to any extent", "[row]") {
  // Pages of a partition: 32; of a step: 16.
  problem_spec spec  = spec_of<short_partition_policy>();
  spec.pages_per_row = GENERATE(0, 1, 15, 16, 17, 31, 32, 33, 48, 63, 64, 65, 96, 97);
  spec.kind          = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.lengths       = {400};
  spec.num_rows      = 2;
  // Not a column more than pages: what is implied comes on top.
  spec.width = spec.kind == selection_kind::pages ? spec.pages_per_row : 0;
  CAPTURE(spec.pages_per_row, spec.kind);
  require_right<short_partition_policy>(make_problem(spec));
}

TEST_CASE("a row may attend to 2,051 tokens", "[row]") {
  problem_spec spec  = spec_of<qsa_policy>();
  spec.kind          = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.num_rows      = 3;
  spec.lengths       = {3000};
  spec.pages_per_row = 512;
  spec.max_pages     = 513;
  spec.width         = spec.kind == selection_kind::tokens ? 2051 : 512;
  row_run<qsa_policy> call(make_problem(spec));
  REQUIRE(call.partitions() == 3);
  REQUIRE(call.run_faults() == "");
  // The production geometry, on standard-normal input.
  CHECK(compare_rows(call.device(), all_rows(call.host())).out.max_abs <= required_max_abs);
}

TEST_CASE("a context may exceed what is looked at in one go", "[row]") {
  problem_spec spec = spec_of<short_head_policy>();
  spec.kind         = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.num_rows     = 2;
  spec.num_requests = 2;
  spec.block_tokens = 784;
  // A window has 131,072 tokens.
  std::int32_t const length = GENERATE(131071, 131072, 131073, 400001);
  int const pages           = GENERATE(3, 400);
  CAPTURE(spec.kind, length, pages);
  require_right<short_head_policy>(long_context(spec, length, pages));
}

TEST_CASE("a token at the end of int32 is attended to", "[row][limits]") {
  problem_spec spec = spec_of<short_head_policy>();
  spec.num_rows     = 1;
  spec.unselected   = cache_fill::values;
  host_problem p    = make_problem(spec);
  // One physical block serves all. The last window of tokens ends past int32.
  p.block_tokens = 1 << 16;
  p.num_blocks   = 1;
  p.table_width  = 32767;
  p.table_stride = 32767;
  p.block_entries.assign(32767, 0);
  // All of its tokens are one in memory: the cache must not claim more than there is.
  p.k_strides.token = 0;
  p.v_strides.token = 0;
  p.sequence_length = {std::numeric_limits<std::int32_t>::max()};
  p.row_position    = {std::numeric_limits<std::int64_t>::max()};
  std::fill(p.entries.begin(), p.entries.end(), -1);
  p.entries[0] = 32766 * p.block_tokens + 3;
  p.entries[1] = 32767 * p.block_tokens - 1;
  p.entries[2] = 5;
  // Past the table.
  p.entries[3] = std::numeric_limits<std::int32_t>::max();
  require_right<short_head_policy>(p);
}

TEST_CASE("pages past max_pages are dropped, the last first", "[row]") {
  problem_spec spec   = spec_of<short_partition_policy>();
  spec.num_rows       = 4;
  spec.lengths        = {800};
  spec.pages_per_row  = 90;
  int const max_pages = GENERATE(1, 32, 33, 70);
  CAPTURE(max_pages);
  host_problem p = make_problem(spec);
  // Where 0 stands for no limit the same tokens are listed without the pages past the limit.
  host_problem cut = p;
  for (int row = 0; row < spec.num_rows; ++row) {
    std::set<std::int32_t> pages;
    for (std::int32_t const token : p.tokens_of(row)) {
      pages.insert(token / spec.page_tokens);
    }
    std::int32_t const first_dropped = *std::next(pages.begin(), max_pages);
    std::replace_if(
        cut.row(row), cut.row(row) + p.width,
        [&](std::int32_t entry) { return entry / spec.page_tokens >= first_dropped; }, -1);
  }
  row_run<short_partition_policy> expected(cut);
  std::vector<unsigned char> const bytes = expected.output_bytes();
  REQUIRE(expected.faults() == "");
  p.max_pages = max_pages;
  CHECK(row_run<short_partition_policy>(p).output_bytes() == bytes);
}

TEST_CASE("each row alone gives the same bits as in its batch", "[row][bits]") {
  problem_spec spec  = spec_of<short_partition_policy>();
  spec.num_rows      = 12;
  spec.num_requests  = 5;
  spec.kind          = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.counts_form   = count_form::array;
  spec.order         = row_order::shuffled;
  spec.pages_per_row = 40;
  spec.padding_rows  = 0.1;
  spec.holes         = 0.1;
  CAPTURE(spec.kind);
  host_problem const p = make_problem(spec);
  row_run<short_partition_policy> call(p);
  std::vector<unsigned char> const batch = call.output_bytes();
  for (int row = 0; row < spec.num_rows; ++row) {
    host_problem const one                 = only_row(p, row);
    std::vector<unsigned char> const alone = row_run<short_partition_policy>(one).output_bytes();
    CAPTURE(row);
    REQUIRE(alone == call.device().outputs().bytes_of_row(batch, row));
  }
}

TEST_CASE("a wider table gives the same bits", "[row][bits]") {
  problem_spec spec  = spec_of<short_partition_policy>();
  spec.num_rows      = 5;
  spec.num_requests  = 2;
  spec.lengths       = {900, 800};
  spec.pages_per_row = GENERATE(5, 40);
  CAPTURE(spec.pages_per_row);
  host_problem const p = make_problem(spec);
  row_run<short_partition_policy> narrow(p);
  row_run<short_partition_policy> wide(widened(p, 300));
  REQUIRE(wide.partitions() > narrow.partitions());
  CHECK(narrow.output_bytes() == wide.output_bytes());
}

TEST_CASE("a row's own NaN and infinity reach its result through the merging", "[row]") {
  problem_spec spec  = spec_of<short_partition_policy>();
  spec.num_rows      = 2;
  spec.lengths       = {400};
  spec.pages_per_row = 60;
  spec.columns       = column_order::ascending;
  bool const is_nan  = GENERATE(true, false);
  CAPTURE(is_nan);
  host_problem p      = make_problem(spec);
  auto const at       = element_of(p, p.v_strides, 0, p.tokens_of(0)[7], 0);
  v_begin(p)[at + 37] = is_nan ? half_nan : half_infinity;
  require_right<short_partition_policy>(p);
}

TEST_CASE("a report counts every row as a group of its own", "[row][report]") {
  problem_spec spec    = spec_of<short_partition_policy>();
  spec.kind            = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.num_kv_heads    = 2;
  spec.num_rows        = 20;
  spec.num_requests    = 3;
  spec.pages_per_row   = 40;
  spec.holes           = 0.2;
  spec.duplicates      = 0.2;
  spec.foreign_entries = 0.2;
  spec.empty_rows      = 0.1;
  spec.padding_rows    = 0.2;
  spec.unmapped_blocks = 0.1;
  spec.spare_columns   = -1;
  spec.max_pages       = spec.kind == selection_kind::tokens ? 30 : 0;
  CAPTURE(spec.kind);
  host_problem const p = make_problem(spec);
  row_run<short_partition_policy> call(p);
  plan_report expected  = host_plan<row_shape_of<short_partition_policy>>(p).report();
  expected.padded_pages = expected.union_pages;
  REQUIRE((expected.over_capacity > 0) == (spec.max_pages > 0));
  REQUIRE(expected.unmapped_block > 0);
  device_array const report(std::vector<plan_report>(1));
  call.report_to(report.as<plan_report>());
  for (int calls = 1; calls < 3; ++calls) {
    REQUIRE(call.run() == status::ok);
    CHECK(difference(report.download<plan_report>().front(), expected, calls) == "");
  }
  CHECK(report.is_guarded());
}

TEST_CASE("shares are runs of whole steps, and together all pages", "[row]") {
  using shape = detail::row_attention_code<qsa_policy, default_tuning, 700>::shape;
  constexpr int partition_pages = shape::tuning::partition_tokens / shape::page_tokens;
  for (int num_pages = 0; num_pages < 5 * partition_pages; ++num_pages) {
    int const most = (num_pages + partition_pages - 1) / partition_pages;
    int begin      = 0;
    for (int partition = 0; partition < most + 2; ++partition) {
      auto const share = detail::share_of<shape>(num_pages, partition);
      CAPTURE(num_pages, partition, share.begin, share.end);
      if (share.begin == share.end) {
        REQUIRE(begin == num_pages);
        continue;
      }
      REQUIRE(share.begin == begin);
      REQUIRE(share.end - share.begin <= partition_pages);
      REQUIRE((share.end == num_pages || (share.end - share.begin) % shape::step_pages == 0));
      REQUIRE(share.end - share.begin < num_pages / most + 1 + shape::step_pages);
      begin = share.end;
    }
    REQUIRE(begin == num_pages);
  }
}

namespace {

//! A good call whose rows have three partitions of 32 pages at most, and its partial results.
struct row_arguments : call_arguments {
  row_partials partials;
};

row_arguments good_row_arguments() {
  row_arguments call{good_arguments(),
                     {pretended_address<float>(14), pretended_address<float>(15), 3}};
  call.tokens().max_pages = 0;
  return call;
}

status answer_to(row_arguments const& given) {
  return captured_answer([&](cudaStream_t stream) {
    return row_attention<short_partition_policy, policy_tuning>(
        given.rows, given.selected, given.operands, given.partials, given.report, stream);
  });
}

}  // namespace

TEST_CASE("row attention names a bad argument and enqueues nothing", "[row][arguments]") {
  row_arguments const good = good_row_arguments();
  REQUIRE(answer_to(good) == status::ok);
  std::vector<bad_argument> selections = bad_selections();
  auto const is_of_groups              = [](bad_argument const& bad) {
    return std::string(bad.what) == "group's pages overflow";
  };
  selections.erase(std::find_if(selections.begin(), selections.end(), is_of_groups));
  check_answers(selections, good, answer_to);
  check_answers(bad_blocks(), good, answer_to);
  check_answers(bad_operands(), good, answer_to);
  check_answers(bad_overlaps(), good, answer_to);
  check_answers(legal_oddities(), good, answer_to);
}

TEST_CASE("row attention names bad partials and enqueues nothing", "[row][arguments]") {
  using call = row_arguments&;
  std::vector<spoilt_call<row_arguments>> const bad_partials{
      {"room for one less", status::invalid_num_partials,
       [](call c) { c.partials.num_partitions = 2; }},
      {"no out", status::null_partials, [](call c) { c.partials.out = nullptr; }},
      {"no lse", status::null_partials, [](call c) { c.partials.lse = nullptr; }},
      {"out at 8 bytes", status::misaligned_partials,
       [](call c) { move_bytes(c.partials.out, 8); }},
      {"lse at 2 bytes", status::misaligned_partials,
       [](call c) { move_bytes(c.partials.lse, 2); }},
      {"out is q", status::overlapping_partials,
       [](call c) { c.partials.out = alias<float>(c.q().data); }},
      {"lse is the block table", status::overlapping_partials,
       [](call c) { c.partials.lse = alias<float>(c.blocks().table); }},
      {"lse is in out", status::overlapping_partials,
       [](call c) { c.partials.lse = c.partials.out + 3 * 20 * 12 * 256 - 1; }},
      {"the report is in out", status::overlapping_report,
       [](call c) { c.report = alias<plan_report>(c.partials.out); }},
      {"the results' out is in the last partition's", status::overlapping_out,
       [](call c) { c.out().data = c.partials.out + 3 * 20 * 12 * 256 - 4; }},
      {"the results' lse is the partials'", status::overlapping_lse,
       [](call c) { c.lse().data = c.partials.lse; }},
      {"more CTAs than a grid has", status::invalid_num_rows,
       [](call c) { c.rows.num_rows = 1 << 30; }},
      {"more rows x heads than 32 bits", status::invalid_num_rows,
       [](call c) { c.rows.num_rows = 1 << 28; }},
      {"one partition needs no partials", status::ok,
       [](call c) {
         c.tokens().max_pages = 32;
         c.partials           = {};
       }},
      {"no rows need no partials", status::ok,
       [](call c) {
         c.rows.num_rows = 0;
         c.partials      = {};
       }},
  };
  check_answers(bad_partials, good_row_arguments(), answer_to);
}
