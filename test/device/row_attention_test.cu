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
#include "support/row_run.cuh"
#include "support/test_size.hpp"

using pageunion::element_type;
using pageunion::geometry;
using pageunion::log_base;
using pageunion::plan_report;
using pageunion::qsa_policy;
using pageunion::row_geometry;
using pageunion::selection_kind;
using pageunion::status;
using pageunion::test::all_selection_forms;
using pageunion::test::captured_graph;
using pageunion::test::column_order;
using pageunion::test::count_form;
using pageunion::test::device_array;
using pageunion::test::host_problem;
using pageunion::test::kv_layout;
using pageunion::test::make_problem;
using pageunion::test::page_pattern;
using pageunion::test::problem_spec;
using pageunion::test::row_order;
using pageunion::test::row_run;
using pageunion::test::short_head_policy;
using pageunion::test::short_partition_policy;
using pageunion::test::slice_of;
using pageunion::test::spec_of;
using pageunion::test::test_size;
using pageunion::test::twelve_head_policy;
using pageunion::test::wide_page_policy;

namespace {

template <class Integer>
std::size_t index(Integer value) {
  return static_cast<std::size_t>(value);
}

template <class Policy>
void require_right(host_problem const& p) {
  row_run<Policy> call(p);
  CAPTURE(call.partitions());
  REQUIRE(call.run() == status::ok);
  REQUIRE(call.faults() == "");
}

//! The problem of one of its rows.
host_problem only_row(host_problem const& p, int row) {
  host_problem one  = p;
  one.spec.num_rows = 1;
  one.row_request   = slice_of(p.row_request, row, 1);
  one.row_position  = slice_of(p.row_position, row, 1);
  one.q_data        = slice_of(p.q_data, row, p.q_row_stride);
  one.entries       = slice_of(p.entries, row, p.entry_stride);
  one.counts        = p.counts.empty() ? p.counts : slice_of(p.counts, row, 1);
  return one;
}

//! The same selection with more columns, all of them holes, and so with more partitions.
host_problem widened(host_problem const& p, int columns) {
  host_problem wide = p;
  wide.width += columns;
  wide.entry_stride += columns;
  wide.entries.clear();
  for (int row = 0; row < p.spec.num_rows; ++row) {
    std::vector<std::int32_t> entries = slice_of(p.entries, row, p.entry_stride);
    entries.insert(entries.begin() + p.width, index(columns), -1);
    wide.entries.insert(wide.entries.end(), entries.begin(), entries.end());
  }
  return wide;
}

//! The bytes of a row's out and lse within output_bytes() of its problem.
std::vector<unsigned char> bytes_of_row(std::vector<unsigned char> const& bytes,
                                        host_problem const& p, int row) {
  auto const out_stride = static_cast<std::int64_t>(p.out_element_bytes()) * p.out_row_stride;
  auto const lse_stride = static_cast<std::int64_t>(sizeof(float)) * p.lse_row_stride;
  auto const lse_begin  = bytes.begin() + p.spec.num_rows * out_stride;
  std::vector<unsigned char> found(bytes.begin() + row * out_stride,
                                   bytes.begin() + (row + 1) * out_stride);
  found.insert(found.end(), lse_begin + row * lse_stride, lse_begin + (row + 1) * lse_stride);
  return found;
}

//! A problem with the rows and requests of `spec`, of which each row attends to `pages` pages anywhere in a
//! context of `length` tokens: the block table maps it to a few physical blocks, again and again.
host_problem long_context(problem_spec spec, std::int32_t length, int pages) {
  spec.lengths            = std::vector<int>(index(spec.num_requests), 64);
  spec.unselected         = pageunion::test::cache_fill::values;
  host_problem p          = make_problem(spec);
  std::int32_t const last = length - 1;
  pageunion::test::random_source source(spec.seed);
  p.table_width  = (length + spec.block_tokens - 1) / spec.block_tokens;
  p.table_stride = p.table_width;
  p.block_entries.resize(index(spec.num_requests) * index(p.table_stride));
  for (std::int32_t& entry : p.block_entries) {
    entry = static_cast<std::int32_t>(source.below(p.num_blocks));
  }
  std::fill(p.sequence_length.begin(), p.sequence_length.end(), length);
  std::fill(p.row_position.begin(), p.row_position.end(), last);
  bool const is_by_page = spec.kind == selection_kind::pages;
  p.width               = pages;
  p.entry_stride        = pages;
  p.entries.resize(index(spec.num_rows) * index(pages));
  for (std::int32_t& entry : p.entries) {
    auto const token = static_cast<std::int32_t>(source.below(length));
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

TEST_CASE("rows of no request between others are empty", "[row]") {
  problem_spec spec = spec_of<qsa_policy>();
  spec.num_rows     = GENERATE(1, 2, 3, 5, 8, 16, 33, 64);
  spec.num_requests = std::max(spec.num_rows / 2, 1);
  spec.order        = row_order::shuffled;
  spec.padding_rows = 0.4;
  spec.min_length   = 0;
  spec.max_length   = 90;
  spec.lse_base     = GENERATE(log_base::natural, log_base::two);
  CAPTURE(spec.num_rows, spec.lse_base);
  require_right<qsa_policy>(make_problem(spec));
}

TEST_CASE("row attention sees through whatever the rules drop", "[row]") {
  problem_spec spec    = spec_of<qsa_policy>();
  spec.seed            = GENERATE(1u, 2u);
  auto const form      = GENERATE(from_range(all_selection_forms()));
  spec.kind            = form.kind;
  spec.counts          = form.counts;
  spec.num_rows        = 30;
  spec.num_requests    = 4;
  spec.holes           = 0.2;
  spec.duplicates      = 0.2;
  spec.foreign_entries = 0.2;
  spec.empty_rows      = 0.1;
  spec.padding_rows    = 0.1;
  spec.odd_positions   = 0.1;
  spec.unmapped_blocks = 0.1;
  spec.token_density   = 0.7;
  spec.spare_columns   = -1;
  spec.pages_per_row   = 40;
  CAPTURE(spec.seed, spec.kind, spec.counts);
  require_right<short_partition_policy>(make_problem(spec));
}

TEST_CASE("row attention follows any layout, block size and output", "[row]") {
  problem_spec spec      = spec_of<short_partition_policy>();
  spec.layout            = GENERATE(kv_layout::separate, kv_layout::heads_first, kv_layout::mixed,
                                    kv_layout::interleaved_blocks, kv_layout::interleaved_tokens);
  spec.block_tokens      = GENERATE(16, 36, 784);
  spec.gap               = spec.block_tokens == 36 ? 24 : 0;
  spec.out_type          = spec.block_tokens == 36 ? element_type::f32 : element_type::f16;
  spec.lse_base          = spec.block_tokens == 16 ? log_base::natural : log_base::two;
  spec.num_kv_heads      = 2;
  spec.num_rows          = 5;
  spec.num_requests      = 2;
  spec.pages_per_row     = 40;
  spec.has_shared_prefix = true;
  CAPTURE(spec.layout, spec.block_tokens);
  require_right<short_partition_policy>(make_problem(spec));
}

TEMPLATE_TEST_CASE("row attention takes sequences of a few tokens", "[row]", qsa_policy,
                   wide_page_policy) {
  problem_spec spec = spec_of<TestType>();
  spec.lengths      = {0, 1, 3, 4, 5, 16, 17};
  spec.kind         = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.num_requests = 7;
  spec.num_rows     = 21;
  CAPTURE(spec.kind);
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
  REQUIRE(call.run() == status::ok);
  REQUIRE(call.faults() == "");
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
  spec.unselected   = pageunion::test::cache_fill::values;
  host_problem p    = make_problem(spec);
  // One physical block serves all. The last window of tokens ends past int32.
  p.spec.block_tokens = 1 << 16;
  p.num_blocks        = 1;
  p.table_width       = 32767;
  p.table_stride      = 32767;
  p.block_entries.assign(32767, 0);
  // All of its tokens are one in memory: the cache must not claim more than there is.
  p.k_strides.token = 0;
  p.v_strides.token = 0;
  p.sequence_length = {std::numeric_limits<std::int32_t>::max()};
  p.row_position    = {std::numeric_limits<std::int64_t>::max()};
  std::fill(p.entries.begin(), p.entries.end(), -1);
  p.entries[0] = 32766 * p.spec.block_tokens + 3;
  p.entries[1] = 32767 * p.spec.block_tokens - 1;
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
    for (int i = 0; i < p.width; ++i) {
      std::int32_t& entry = cut.entries[index(row * p.entry_stride + i)];
      entry               = entry / spec.page_tokens >= first_dropped ? -1 : entry;
    }
  }
  row_run<short_partition_policy> expected(cut);
  std::vector<unsigned char> const bytes = expected.output_bytes();
  REQUIRE(expected.faults() == "");
  p.spec.max_pages = max_pages;
  CHECK(row_run<short_partition_policy>(p).output_bytes() == bytes);
}

TEST_CASE("each row alone gives the same bits as in its batch", "[row][bits]") {
  problem_spec spec  = spec_of<short_partition_policy>();
  spec.num_rows      = 12;
  spec.num_requests  = 5;
  spec.kind          = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.counts        = count_form::array;
  spec.order         = row_order::shuffled;
  spec.pages_per_row = 40;
  spec.padding_rows  = 0.1;
  spec.holes         = 0.1;
  CAPTURE(spec.kind);
  host_problem const p                   = make_problem(spec);
  std::vector<unsigned char> const batch = row_run<short_partition_policy>(p).output_bytes();
  for (int row = 0; row < spec.num_rows; ++row) {
    host_problem const one                 = only_row(p, row);
    std::vector<unsigned char> const alone = row_run<short_partition_policy>(one).output_bytes();
    CAPTURE(row);
    REQUIRE(alone == bytes_of_row(batch, p, row));
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

TEST_CASE("other physical blocks and other columns give the same bits by rows", "[row][bits]") {
  problem_spec spec      = spec_of<short_partition_policy>();
  spec.kind              = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.layout            = GENERATE(kv_layout::separate, kv_layout::interleaved_blocks);
  spec.num_rows          = 9;
  spec.num_requests      = 2;
  spec.pages_per_row     = 40;
  spec.has_shared_prefix = true;
  spec.holes             = 0.1;
  spec.duplicates        = 0.1;
  CAPTURE(spec.kind, spec.layout);
  host_problem const p                   = make_problem(spec);
  std::vector<unsigned char> const bytes = row_run<short_partition_policy>(p).output_bytes();
  CHECK(row_run<short_partition_policy>(pageunion::test::relocated(p, 3)).output_bytes() == bytes);
  CHECK(row_run<short_partition_policy>(pageunion::test::permuted_columns(p, 4)).output_bytes() ==
        bytes);
}

TEST_CASE("twenty runs by rows give the same bits", "[row][bits]") {
  problem_spec spec  = spec_of<short_partition_policy>();
  spec.num_rows      = 5;
  spec.pages_per_row = 40;
  row_run<short_partition_policy> call(make_problem(spec));
  std::vector<unsigned char> const first = call.output_bytes();
  for (int run = 1; run < 20; ++run) {
    CAPTURE(run);
    REQUIRE(call.output_bytes() == first);
  }
}

TEST_CASE("what a row does not attend to does not change its bits", "[row][bits]") {
  problem_spec spec  = spec_of<short_partition_policy>();
  spec.num_rows      = 6;
  spec.num_requests  = 2;
  spec.pages_per_row = 40;
  spec.token_density = GENERATE(1.0, 0.5);
  spec.unselected    = pageunion::test::cache_fill::values;
  CAPTURE(spec.token_density);
  host_problem p                         = make_problem(spec);
  std::vector<unsigned char> const bytes = row_run<short_partition_policy>(p).output_bytes();
  pageunion::test::poison_unselected(p, pageunion::test::half_nan);
  CHECK(row_run<short_partition_policy>(p).output_bytes() == bytes);
  pageunion::test::poison_unselected(p, pageunion::test::half_infinity);
  CHECK(row_run<short_partition_policy>(p).output_bytes() == bytes);
}

TEST_CASE("a row's own NaN and infinity reach its result through the merging", "[row]") {
  problem_spec spec  = spec_of<short_partition_policy>();
  spec.num_rows      = 2;
  spec.lengths       = {400};
  spec.pages_per_row = 60;
  spec.columns       = column_order::ascending;
  bool const is_nan  = GENERATE(true, false);
  CAPTURE(is_nan);
  host_problem p = make_problem(spec);
  auto const at  = pageunion::test::element_of(p, p.v_strides, 0, p.tokens_of(0)[7], 0);
  pageunion::test::v_begin(p)[at + 37] =
      is_nan ? pageunion::test::half_nan : pageunion::test::half_infinity;
  require_right<short_partition_policy>(p);
}

TEST_CASE("more rows than a grid's second axis could hold", "[row][large]") {
  problem_spec spec  = spec_of<wide_page_policy>();
  spec.num_rows      = test_size(70000, 700);
  spec.num_requests  = 3;
  spec.lengths       = {30, 50, 64};
  spec.pages_per_row = 2;
  require_right<wide_page_policy>(make_problem(spec));
}

TEST_CASE("a captured call by rows replays with what the arrays hold then", "[row][graph]") {
  problem_spec spec  = spec_of<short_partition_policy>();
  spec.num_rows      = 5;
  spec.num_requests  = 2;
  spec.pages_per_row = 40;
  spec.width         = 170;
  spec.lengths       = {190, 120};
  spec.spare_columns = 2;
  row_run<short_partition_policy> call(make_problem(spec));
  REQUIRE(call.partitions() > 1);
  captured_graph graph([&](cudaStream_t stream) { return call.enqueue(stream); });
  REQUIRE(graph.captured() == status::ok);
  for (unsigned seed = 2; seed < 5; ++seed) {
    spec.seed = seed;
    // As many blocks in other proportions: positions, lengths and tables change.
    spec.lengths       = {190 - 16 * static_cast<int>(seed), 120 + 16 * static_cast<int>(seed)};
    int const longest  = (std::max(spec.lengths[0], spec.lengths[1]) + 15) / 16;
    spec.spare_columns = 14 - longest;
    spec.holes         = 0.05;
    CAPTURE(seed);
    call.device().upload(make_problem(spec));
    call.poison();
    graph.replay();
    REQUIRE(call.faults() == "");
    std::vector<unsigned char> const bytes = call.device().output_bytes();
    call.poison();
    graph.replay();
    REQUIRE(call.device().output_bytes() == bytes);
  }
}

TEST_CASE("a report counts every row as a group of its own", "[row][report]") {
  using G              = row_geometry<geometry<short_partition_policy>>;
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
  row_run<short_partition_policy> call(make_problem(spec));
  host_problem const& p = call.device().host();
  std::int64_t const page_limit =
      max_pages_per_row(p.selected(), spec.page_tokens, spec.block_tokens, p.table_width);
  plan_report expected =
      pageunion::test::host_plan<G>(p.rows(), p.selected(), p.operands().cache, page_limit)
          .report();
  expected.padded_pages = expected.union_pages;
  REQUIRE((expected.over_capacity > 0) == (spec.max_pages > 0));
  REQUIRE(expected.unmapped_block > 0);
  device_array report(std::vector<plan_report>(1));
  REQUIRE(call.enqueue(nullptr, report.as<plan_report>()) == status::ok);
  plan_report const once = report.download<plan_report>().front();
  CHECK(std::memcmp(&once, &expected, sizeof(once)) == 0);
  REQUIRE(call.enqueue(nullptr, report.as<plan_report>()) == status::ok);
  plan_report const twice = report.download<plan_report>().front();
  CHECK(twice.rows == 2 * expected.rows);
  CHECK(twice.row_pages == 2 * expected.row_pages);
  CHECK(twice.largest_union == expected.largest_union);
  CHECK(report.is_guarded());
}

TEST_CASE("shares are runs of whole steps, and together all pages", "[row]") {
  using G = row_geometry<geometry<qsa_policy>>;
  for (int num_pages = 0; num_pages < 5 * G::partition_pages; ++num_pages) {
    int const most = (num_pages + G::partition_pages - 1) / G::partition_pages;
    int begin      = 0;
    for (int partition = 0; partition < most + 2; ++partition) {
      auto const share = pageunion::detail::share_of<G>(num_pages, partition);
      CAPTURE(num_pages, partition, share.begin, share.end);
      if (share.begin == share.end) {
        REQUIRE(begin == num_pages);
        continue;
      }
      REQUIRE(share.begin == begin);
      REQUIRE(share.end - share.begin <= G::partition_pages);
      REQUIRE((share.end == num_pages || (share.end - share.begin) % G::step_pages == 0));
      REQUIRE(share.end - share.begin < num_pages / most + 1 + G::step_pages);
      begin = share.end;
    }
    REQUIRE(begin == num_pages);
  }
}

namespace {

using pageunion::row_partials;
using pageunion::test::call_arguments;
using pageunion::test::move_bytes;
using pageunion::test::pretended_address;

//! A good call whose rows have three partitions of 32 pages at most.
call_arguments good_call() {
  call_arguments call            = pageunion::test::good_arguments();
  call.selected.tokens.max_pages = 0;
  return call;
}
row_partials good_partials() {
  return {pretended_address<float>(14), pretended_address<float>(15), 3};
}

//! What row_attention() answers under capture, as text. Whatever it enqueued beside an error would touch
//! the pretended addresses when it is replayed.
std::string answer_to(call_arguments const& given, row_partials const& partials) {
  status answer = status::ok;
  captured_graph graph([&](cudaStream_t stream) {
    answer = pageunion::row_attention<geometry<short_partition_policy>>(
        given.rows, given.selected, given.operands, partials, given.report, stream);
    return answer;
  });
  if (answer != status::ok) {
    graph.replay();
  }
  return to_string(answer);
}

}  // namespace

TEST_CASE("row attention names a bad argument and enqueues nothing", "[row][arguments]") {
  REQUIRE(answer_to(good_call(), good_partials()) == "ok");
  for (auto const& bad : pageunion::test::bad_arguments()) {
    std::string const what = bad.what;
    if (what.find("workspace") != std::string::npos || what == "group's pages overflow") {
      continue;  // of prefill() and plans only
    }
    call_arguments given = good_call();
    bad.spoil(given);
    CAPTURE(what);
    CHECK(answer_to(given, good_partials()) == to_string(bad.expected));
  }
  for (auto const& odd : pageunion::test::legal_oddities()) {
    call_arguments given = good_call();
    odd.spoil(given);
    CAPTURE(odd.what);
    CHECK(answer_to(given, good_partials()) == "ok");
  }
}

TEST_CASE("row attention names bad partials and enqueues nothing", "[row][arguments]") {
  struct bad_partials {
    char const* what;
    status expected;
    void (*spoil)(call_arguments&, row_partials&);
  };
  using call               = call_arguments&;
  using partials           = row_partials&;
  bad_partials const all[] = {
      {"room for one less", status::invalid_num_partials,
       [](call, partials p) { p.num_partitions = 2; }},
      {"no out", status::null_partials, [](call, partials p) { p.out = nullptr; }},
      {"no lse", status::null_partials, [](call, partials p) { p.lse = nullptr; }},
      {"out at 8 bytes", status::misaligned_partials,
       [](call, partials p) { move_bytes(p.out, 8); }},
      {"lse at 2 bytes", status::misaligned_partials,
       [](call, partials p) { move_bytes(p.lse, 2); }},
      {"out is q", status::overlapping_partials,
       [](call c, partials p) {
         p.out = reinterpret_cast<float*>(const_cast<__half*>(c.operands.q.data));
       }},
      {"lse is the block table", status::overlapping_partials,
       [](call c, partials p) {
         p.lse = reinterpret_cast<float*>(const_cast<std::int32_t*>(c.operands.cache.blocks.table));
       }},
      {"lse is in out", status::overlapping_partials,
       [](call, partials p) { p.lse = p.out + 3 * 20 * 12 * 256 - 1; }},
      {"the report is in out", status::overlapping_report,
       [](call c, partials p) { c.report = reinterpret_cast<plan_report*>(p.out); }},
      {"the results' out is in the last partition's", status::overlapping_out,
       [](call c, partials p) { c.operands.out.data = p.out + 3 * 20 * 12 * 256 - 4; }},
      {"the results' lse is the partials'", status::overlapping_lse,
       [](call c, partials p) { c.operands.lse.data = p.lse; }},
      {"more CTAs than a grid has", status::invalid_num_rows,
       [](call c, partials) { c.rows.num_rows = 1 << 30; }},
      {"more rows x heads than 32 bits", status::invalid_num_rows,
       [](call c, partials) { c.rows.num_rows = 1 << 28; }},
      {"one partition needs no partials", status::ok,
       [](call c, partials p) {
         c.selected.tokens.max_pages = 32;
         p                           = {};
       }},
      {"no rows need no partials", status::ok,
       [](call c, partials p) {
         c.rows.num_rows = 0;
         p               = {};
       }},
  };
  for (bad_partials const& bad : all) {
    call_arguments given = good_call();
    row_partials spoilt  = good_partials();
    bad.spoil(given, spoilt);
    CAPTURE(bad.what);
    CHECK(answer_to(given, spoilt) == to_string(bad.expected));
  }
}
