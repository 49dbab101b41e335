// SPDX-License-Identifier: Apache-2.0
//! @file
//! prefill() on the device: every corner against the reference, on both routes, and the promises
//! that its results do not change with what they may not depend on.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <pageunion/prefill.cuh>

#include "support/bad_arguments.hpp"
#include "support/captured_graph.cuh"
#include "support/catch.hpp"
#include "support/far_array.cuh"
#include "support/make_problem.hpp"
#include "support/policies.hpp"
#include "support/prefill_run.cuh"
#include "support/test_size.hpp"

using pageunion::element_type;
using pageunion::log_base;
using pageunion::qsa_policy;
using pageunion::route;
using pageunion::selection_kind;
using pageunion::status;
using pageunion::test::all_routes;
using pageunion::test::all_selection_forms;
using pageunion::test::cache_fill;
using pageunion::test::captured_graph;
using pageunion::test::column_order;
using pageunion::test::count_form;
using pageunion::test::far_array;
using pageunion::test::half_bits;
using pageunion::test::half_value;
using pageunion::test::host_problem;
using pageunion::test::kv_layout;
using pageunion::test::make_problem;
using pageunion::test::page_pattern;
using pageunion::test::prefill_run;
using pageunion::test::problem_spec;
using pageunion::test::row_order;
using pageunion::test::short_head_policy;
using pageunion::test::slice_of;
using pageunion::test::spec_of;
using pageunion::test::test_size;
using pageunion::test::wide_page_policy;

namespace {

template <class Policy>
void require_right(problem_spec const& spec, route wanted) {
  prefill_run<Policy> call(make_problem(spec), wanted);
  REQUIRE(call.run() == status::ok);
  REQUIRE(call.faults() == "");
}

}  // namespace

TEMPLATE_TEST_CASE("prefill agrees with the reference for any number of rows", "[prefill]",
                   qsa_policy, short_head_policy) {
  problem_spec spec  = spec_of<TestType>();
  spec.num_rows      = GENERATE(0, 1, 7, 8, 9, 33);
  spec.kind          = GENERATE(selection_kind::tokens, selection_kind::pages);
  route const wanted = GENERATE(from_range(all_routes()));
  CAPTURE(spec.num_rows, spec.kind, wanted);
  require_right<TestType>(spec, wanted);
}

TEMPLATE_TEST_CASE("the routes agree with each other", "[prefill][routes]", qsa_policy,
                   short_head_policy) {
  problem_spec spec  = spec_of<TestType>();
  spec.num_rows      = GENERATE(1, 5, 8, 45);
  spec.num_requests  = 2;
  spec.pages_per_row = 40;
  spec.holes         = 0.1;
  spec.lse_base      = GENERATE(log_base::natural, log_base::two);
  CAPTURE(spec.num_rows, spec.lse_base);
  host_problem const p = make_problem(spec);
  prefill_run<TestType> grouped(p, route::grouped);
  prefill_run<TestType> by_row(p, route::row);
  REQUIRE(grouped.run() == status::ok);
  REQUIRE(by_row.run() == status::ok);
  // Each may lie within its bound of the reference, on either side.
  auto bounds =
      pageunion::test::output_bounds(p.rows(), p.selected(), p.operands(), spec.page_tokens,
                                     pageunion::test::all_rows(p), p.reference());
  for (pageunion::test::output_bound& bound : bounds) {
    bound.element *= 2.0;
    bound.length *= 2.0;
  }
  auto const out = pageunion::test::compare_outputs(by_row.device().out(), grouped.device().out(),
                                                    bounds, spec.head_dim);
  CHECK(out.failure == "");
  CHECK(out.relative_l2 <= 2.0 * pageunion::test::required_relative_l2);
  std::vector<double> const lse = grouped.device().lse();
  auto const logarithms = pageunion::test::compare(by_row.device().lse(), lse, [&](std::size_t i) {
    double const size = std::isfinite(lse[i]) ? std::abs(lse[i]) : 0.0;
    return 2.0 * std::max(pageunion::test::lse_absolute, pageunion::test::lse_relative * size);
  });
  CHECK(logarithms.failure == "");
}

TEST_CASE("prefill sees through whatever the rules drop", "[prefill]") {
  problem_spec spec    = spec_of<qsa_policy>();
  spec.seed            = GENERATE(1u, 2u);
  auto const form      = GENERATE(from_range(all_selection_forms()));
  spec.kind            = form.kind;
  spec.counts          = form.counts;
  route const wanted   = GENERATE(from_range(all_routes()));
  spec.num_rows        = 45;
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
  CAPTURE(spec.seed, spec.kind, spec.counts, wanted);
  require_right<qsa_policy>(spec, wanted);
}

TEST_CASE("prefill follows any layout, block size and output", "[prefill]") {
  problem_spec spec      = spec_of<qsa_policy>();
  spec.layout            = GENERATE(kv_layout::separate, kv_layout::heads_first, kv_layout::mixed,
                                    kv_layout::interleaved_blocks, kv_layout::interleaved_tokens);
  spec.block_tokens      = GENERATE(16, 36, 784);
  route const wanted     = GENERATE(from_range(all_routes()));
  spec.gap               = spec.block_tokens == 36 ? 24 : 0;
  spec.out_type          = spec.block_tokens == 36 ? element_type::f32 : element_type::f16;
  spec.lse_base          = spec.block_tokens == 16 ? log_base::natural : log_base::two;
  spec.num_kv_heads      = 2;
  spec.num_rows          = 19;
  spec.num_requests      = 2;
  spec.has_shared_prefix = true;
  CAPTURE(spec.layout, spec.block_tokens, wanted);
  require_right<qsa_policy>(spec, wanted);
}

TEST_CASE("prefill takes rows of many requests in any order", "[prefill]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 40;
  spec.num_requests  = GENERATE(5, 40);
  spec.min_length    = 0;
  spec.max_length    = 90;
  spec.order         = row_order::shuffled;
  spec.padding_rows  = 0.2;
  CAPTURE(spec.num_requests, wanted);
  require_right<qsa_policy>(spec, wanted);
}

TEST_CASE("prefill takes sequences of a few tokens", "[prefill]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.lengths       = {0, 1, 3, 4, 5};
  spec.kind          = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.num_requests  = 5;
  spec.num_rows      = 15;
  CAPTURE(spec.kind, wanted);
  require_right<qsa_policy>(spec, wanted);
}

TEST_CASE("prefill takes rows that share all pages and rows that share none", "[prefill]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.pattern       = GENERATE(page_pattern::same, page_pattern::disjoint);
  spec.columns       = GENERATE(column_order::ascending, column_order::shuffled);
  spec.lengths       = {1000};
  spec.num_rows      = 17;
  spec.pages_per_row = 20;
  CAPTURE(spec.pattern, spec.columns, wanted);
  require_right<qsa_policy>(spec, wanted);
}

TEST_CASE("a row may attend to one token, the last one of a whole page", "[prefill]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 3;
  spec.lengths       = {48};
  spec.unselected    = cache_fill::values;
  host_problem p     = make_problem(spec);
  p.entries.assign(p.entries.size(), -1);
  p.entries[static_cast<std::size_t>(2 * p.entry_stride + p.width - 1)] = 47;
  pageunion::test::poison_unselected(p);
  prefill_run<qsa_policy> call(p, wanted);
  REQUIRE(call.run() == status::ok);
  CHECK(call.faults() == "");
}

TEST_CASE("a cache of no blocks may be null and leaves every row empty", "[prefill]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 11;
  CAPTURE(wanted);
  prefill_run<qsa_policy> call(make_problem(spec), wanted);
  call.poison();
  pageunion::prefill_args args    = call.args();
  args.attention.cache.num_blocks = 0;
  args.attention.cache.k          = nullptr;
  args.attention.cache.v          = nullptr;
  REQUIRE(pageunion::prefill<qsa_policy>(args, call.workspace(), call.workspace_size(), nullptr) ==
          status::ok);
  std::vector<double> const out = call.device().out(), lse = call.device().lse();
  CHECK(std::all_of(out.begin(), out.end(), [](double x) { return x == 0 && !std::signbit(x); }));
  CHECK(std::all_of(lse.begin(), lse.end(), [](double x) { return x < 0 && std::isinf(x); }));
}

TEST_CASE("all rows may be empty", "[prefill]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 11;
  spec.empty_rows    = GENERATE(0.5, 1.0);
  CAPTURE(spec.empty_rows, wanted);
  require_right<qsa_policy>(spec, wanted);
}

TEST_CASE("scale 0 gives the mean of V", "[prefill]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  host_problem p     = make_problem(spec);
  p.scale            = 0.0f;
  prefill_run<qsa_policy> call(p, wanted);
  REQUIRE(call.run() == status::ok);
  CHECK(call.faults() == "");
}

TEST_CASE("keys may lie at the end of the range of half", "[prefill]") {
  // Queries with one element of 1 and keys of +-65,504 there: scores of +-65,504 without rounding.
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  bool const is_low  = GENERATE(false, true);
  host_problem p     = make_problem(spec);
  p.scale            = 1.0f;
  for (std::size_t i = 0; i < p.q_data.size(); ++i) {
    p.q_data[i] = half_bits(i % static_cast<std::size_t>(spec.head_dim) == 0 ? 1.0f : 0.0f);
  }
  for (std::size_t i = 0; i < p.k_data.size(); ++i) {
    // All scores at -65,504, or every fifth at the other end.
    bool const is_high = !is_low && i / static_cast<std::size_t>(spec.head_dim) % 5 == 0;
    if (p.k_data[i] != pageunion::test::half_nan) {
      p.k_data[i] = half_bits(is_high ? 65504.0f : -65504.0f);
    }
  }
  CAPTURE(wanted, is_low);
  prefill_run<qsa_policy> call(p, wanted);
  REQUIRE(call.run() == status::ok);
  CHECK(call.faults() == "");
}

TEST_CASE("70,000 rows", "[prefill][large]") {
  problem_spec spec  = spec_of<short_head_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = test_size(70000, 700);
  spec.num_requests  = 3;
  spec.lengths       = {30, 50, 64};
  spec.pages_per_row = 2;
  CAPTURE(wanted);
  require_right<short_head_policy>(spec, wanted);
}

TEST_CASE("more rows than 65,535 groups of 8", "[prefill][large][groups]") {
  // All rows share one query and, but for a few, attend to nothing.
  problem_spec spec  = spec_of<wide_page_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 2;
  spec.lengths       = {40};
  spec.pages_per_row = 2;
  host_problem p     = make_problem(spec);
  int const num_rows = test_size(65535 * 8 + 20, 1000);
  auto const entries = slice_of(p.entries, 1, p.entry_stride);
  p.spec.num_rows    = num_rows;
  p.q_data           = slice_of(p.q_data, 1, p.q_row_stride);
  p.q_row_stride     = 0;
  p.row_request.assign(static_cast<std::size_t>(num_rows), -1);
  p.row_position.assign(static_cast<std::size_t>(num_rows), 39);
  p.entries.clear();
  for (int row = 0; row < num_rows; ++row) {
    p.entries.insert(p.entries.end(), entries.begin(), entries.end());
  }
  std::vector<std::int32_t> const sampled{0,
                                          1,
                                          test_size(65535, 65),
                                          test_size(65536, 66),
                                          test_size(65535 * 8 - 1, 523),
                                          test_size(65535 * 8, 524),
                                          num_rows - 1};
  for (std::int32_t const row : sampled) {
    p.row_request[static_cast<std::size_t>(row)] = row == 1 ? -1 : 0;
  }
  CAPTURE(wanted);
  prefill_run<wide_page_policy> call(p, wanted);
  REQUIRE(call.run() == status::ok);
  REQUIRE(call.faults(sampled) == "");
  // Every other row is empty.
  std::vector<double> const lse = call.device().lse();
  std::vector<double> const out = call.device().out();
  std::set<std::int32_t> const attending(sampled.begin(), sampled.end());
  auto const is_all = [](std::vector<double> const& values, std::ptrdiff_t row, std::ptrdiff_t size,
                         double expected) {
    auto const begin = values.begin() + row * size;
    return std::all_of(begin, begin + size, [&](double value) { return value == expected; });
  };
  bool are_empty = true;
  for (int row = 0; row < num_rows && are_empty; ++row) {
    are_empty = attending.count(row) != 0 ||
                (is_all(lse, row, p.num_heads(), -std::numeric_limits<double>::infinity()) &&
                 is_all(out, row, static_cast<std::ptrdiff_t>(p.num_heads()) * spec.head_dim, 0.0));
  }
  CHECK(are_empty);
}

TEST_CASE("cache blocks may lie 2^32 elements and more into the cache", "[prefill][large]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  host_problem p     = make_problem(spec);
  CAPTURE(wanted);
  std::vector<unsigned char> const bytes = prefill_run<qsa_policy>(p, wanted).output_bytes();

  // The same blocks behind a million others, of 4,096 elements each, that nobody has.
  std::int32_t const shift   = test_size(1 << 20, 16);
  std::size_t const in_front = static_cast<std::size_t>(shift * p.k_strides.block) * sizeof(__half);
  auto const put_behind      = [&](std::vector<std::uint16_t> const& data) {
    pageunion::test::device_array array(in_front + data.size() * sizeof(std::uint16_t));
    pageunion::test::require_cuda(
             cudaMemcpy(array.as<unsigned char>() + in_front, data.data(),
                        data.size() * sizeof(std::uint16_t), cudaMemcpyHostToDevice),
             "cudaMemcpy");
    return array;
  };
  auto const k = put_behind(p.k_data);
  auto const v = put_behind(p.v_data);
  for (std::int32_t& block : p.block_entries) {
    block += block >= 0 && block < p.num_blocks ? shift : 0;
  }
  p.num_blocks += shift;
  prefill_run<qsa_policy> call(p, wanted);
  call.poison();
  pageunion::prefill_args args = call.args();
  args.attention.cache.k       = k.as<__half>();
  args.attention.cache.v       = v.as<__half>();
  REQUIRE(pageunion::prefill<qsa_policy>(args, call.workspace(), call.workspace_size(), nullptr) ==
          status::ok);
  CHECK(call.device().output_bytes() == bytes);
}

namespace {

//! Moves an array of operands, [rows, heads], to where its rows (axis 0) or heads (axis 1) lie 2^32
//! elements apart.
//! @param view the array's, in args
template <class View>
far_array move_far(pageunion::prefill_args const& args, View& view, std::size_t axis,
                   std::int32_t run_elements, std::size_t element_bytes) {
  return far_array(
      view.data,
      {{args.rows.num_rows, &view.row_stride}, {args.attention.q.num_heads, &view.head_stride}},
      axis, run_elements, element_bytes);
}

//! Moves a table, or its counts, to where its rows lie 2^32 elements apart.
far_array move_far(std::int32_t const*& table, std::int32_t num_rows, std::int64_t& row_stride,
                   std::int32_t width) {
  return far_array(table, {{num_rows, &row_stride}}, 0, width, sizeof(std::int32_t));
}

//! Calls prefill() with such an array. False if there is no such array.
bool require_right(prefill_run<wide_page_policy>& call, pageunion::prefill_args const& args,
                   far_array const& far) {
  if (!far.exists()) {
    WARN("skipped: the device has too little memory");
    return false;
  }
  REQUIRE(pageunion::prefill<wide_page_policy>(args, call.workspace(), call.workspace_size(),
                                               nullptr) == status::ok);
  far.copy_back();
  CHECK(call.faults() == "");
  return true;
}

}  // namespace

TEST_CASE("rows and heads of q, out and lse may lie 2^32 elements apart", "[prefill][far]") {
  problem_spec spec      = spec_of<wide_page_policy>();
  route const wanted     = GENERATE(from_range(all_routes()));
  std::string const name = GENERATE("q", "out", "lse");
  std::size_t const axis = GENERATE(0u, 1u);
  spec.num_rows          = 2;
  CAPTURE(wanted, name, axis);
  prefill_run<wide_page_policy> call(make_problem(spec), wanted);
  call.poison();
  pageunion::prefill_args args            = call.args();
  pageunion::attention_operands& operands = args.attention;
  if (name == "q") {
    require_right(call, args, move_far(args, operands.q, axis, spec.head_dim, sizeof(__half)));
  } else if (name == "out") {
    require_right(call, args, move_far(args, operands.out, axis, spec.head_dim, sizeof(__half)));
  } else {
    require_right(call, args, move_far(args, operands.lse, axis, 1, sizeof(float)));
  }
}

TEST_CASE("rows of tables and their counts may lie 2^32 elements apart", "[prefill][far]") {
  problem_spec spec      = spec_of<wide_page_policy>();
  route const wanted     = GENERATE(from_range(all_routes()));
  std::string const name = GENERATE("tokens", "pages", "counts", "blocks");
  spec.kind              = name == "pages" ? selection_kind::pages : selection_kind::tokens;
  spec.counts            = name == "counts" ? count_form::array : count_form::none;
  spec.num_rows          = 2;
  spec.num_requests      = 2;
  spec.lengths           = {150, 150};
  spec.unmapped_blocks   = 0.5;
  CAPTURE(wanted, name);
  prefill_run<wide_page_policy> call(make_problem(spec), wanted);
  pageunion::test::device_array report(std::vector<pageunion::plan_report>(1));
  pageunion::test::device_array far_report(std::vector<pageunion::plan_report>(1));
  call.report_to(report.as<pageunion::plan_report>());
  REQUIRE(call.run() == status::ok);
  REQUIRE(report.download<pageunion::plan_report>()[0].unmapped_block > 0);
  call.report_to(far_report.as<pageunion::plan_report>());
  call.poison();
  pageunion::prefill_args args   = call.args();
  pageunion::token_table& tokens = args.selected.tokens;
  pageunion::page_table& pages   = args.selected.pages;
  pageunion::block_table& blocks = args.attention.cache.blocks;
  bool has_run                   = false;
  if (name == "tokens") {
    has_run =
        require_right(call, args, move_far(tokens.tokens, 2, tokens.row_stride, tokens.width));
  } else if (name == "pages") {
    has_run = require_right(call, args, move_far(pages.pages, 2, pages.row_stride, pages.width));
  } else if (name == "counts") {
    has_run = require_right(call, args, move_far(tokens.counts, 2, tokens.count_stride, 1));
  } else {
    has_run = require_right(call, args, move_far(blocks.table, 2, blocks.row_stride, blocks.width));
  }
  CHECK((!has_run || report.download<unsigned char>() == far_report.download<unsigned char>()));
}

TEST_CASE("rows may attend to 2,051 tokens", "[prefill][production]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = test_size(24, 9);
  spec.lengths       = {3000};
  spec.pages_per_row = 512;
  spec.max_pages     = 513;
  spec.width         = 2051;
  prefill_run<qsa_policy> call(make_problem(spec), wanted);
  REQUIRE(call.run() == status::ok);
  CHECK(call.faults() == "");
  // The production geometry, on standard-normal input.
  auto const rows = pageunion::test::all_rows(call.device().host());
  CHECK(pageunion::test::compare_rows(call.device(), rows).out.max_abs <=
        pageunion::test::required_max_abs);
}

TEST_CASE("twenty runs give the same bits", "[prefill][bits]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 45;
  spec.pages_per_row = 20;
  prefill_run<qsa_policy> call(make_problem(spec), wanted);
  std::vector<unsigned char> const first = call.output_bytes();
  for (int run = 1; run < test_size(20, 5); ++run) {
    CAPTURE(wanted, run);
    REQUIRE(call.output_bytes() == first);
  }
}

TEST_CASE("other physical blocks and other columns give the same bits", "[prefill][bits]") {
  problem_spec spec      = spec_of<qsa_policy>();
  route const wanted     = GENERATE(from_range(all_routes()));
  spec.kind              = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.layout            = GENERATE(kv_layout::separate, kv_layout::interleaved_blocks);
  spec.num_rows          = 45;
  spec.num_requests      = 2;
  spec.has_shared_prefix = true;
  spec.holes             = 0.1;
  CAPTURE(wanted, spec.kind, spec.layout);
  host_problem const p                   = make_problem(spec);
  std::vector<unsigned char> const bytes = prefill_run<qsa_policy>(p, wanted).output_bytes();
  CHECK(prefill_run<qsa_policy>(pageunion::test::relocated(p, 3), wanted).output_bytes() == bytes);
  CHECK(prefill_run<qsa_policy>(pageunion::test::permuted_columns(p, 4), wanted).output_bytes() ==
        bytes);
}

TEST_CASE("what no row attends to does not change a bit, whatever it holds", "[prefill][bits]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 45;
  spec.num_requests  = 2;
  spec.token_density = GENERATE(1.0, 0.5);
  spec.unselected    = cache_fill::values;
  CAPTURE(wanted, spec.token_density);
  host_problem p                         = make_problem(spec);
  std::vector<unsigned char> const bytes = prefill_run<qsa_policy>(p, wanted).output_bytes();
  pageunion::test::poison_unselected(p, pageunion::test::half_nan);
  CHECK(prefill_run<qsa_policy>(p, wanted).output_bytes() == bytes);
  pageunion::test::poison_unselected(p, pageunion::test::half_infinity);
  CHECK(prefill_run<qsa_policy>(p, wanted).output_bytes() == bytes);
}

TEST_CASE("a neighbour's NaN and infinity stay with the neighbour", "[prefill][bits]") {
  problem_spec spec        = spec_of<qsa_policy>();
  route const wanted       = GENERATE(from_range(all_routes()));
  bool const is_in_v       = GENERATE(true, false);
  std::uint16_t const bits = GENERATE(pageunion::test::half_nan, pageunion::test::half_infinity);
  // Row 11 alone attends to the token: with neighbours in the token's page, or without.
  spec.token_density      = GENERATE(1.0, 0.5);
  spec.num_rows           = 24;
  spec.lengths            = {200};
  std::int64_t const row  = 11;
  std::int32_t const only = 150;
  CAPTURE(wanted, is_in_v, bits, spec.token_density);
  host_problem p = make_problem(spec);
  for (std::int32_t& entry : p.entries) {
    entry = entry == only ? -1 : entry;
  }
  p.entries[static_cast<std::size_t>(row * p.entry_stride)] = only;
  auto const element =
      pageunion::test::element_of(p, is_in_v ? p.v_strides : p.k_strides, 0, only, 0);
  std::uint16_t* const data = is_in_v ? pageunion::test::v_begin(p) : p.k_data.data();
  for (int d = 0; d < spec.head_dim; ++d) {
    data[element + d] = half_bits(0.5f);
  }
  prefill_run<qsa_policy> clean(p, wanted);
  REQUIRE(clean.run() == status::ok);
  data[element + 37] = bits;
  prefill_run<qsa_policy> spoilt(p, wanted);
  REQUIRE(spoilt.run() == status::ok);

  std::vector<double> const before   = clean.device().out();
  std::vector<double> const after    = spoilt.device().out();
  std::vector<double> const expected = p.reference().out;
  std::size_t const row_size         = static_cast<std::size_t>(p.num_heads() * spec.head_dim);
  for (std::size_t i = 0; i < after.size(); ++i) {
    CAPTURE(i / row_size, i % row_size);
    if (i / row_size != static_cast<std::size_t>(row)) {
      REQUIRE(after[i] == before[i]);
    } else {
      REQUIRE(std::isfinite(after[i]) == std::isfinite(expected[i]));
    }
  }
}

TEST_CASE("the query of a row that attends to nothing does not change a bit, whatever it holds",
          "[prefill][bits][queries]") {
  problem_spec spec        = spec_of<qsa_policy>();
  route const wanted       = GENERATE(from_range(all_routes()));
  std::uint16_t const bits = GENERATE(pageunion::test::half_nan, pageunion::test::half_infinity);
  spec.num_rows            = 20;
  spec.padding_rows        = 0.2;
  spec.empty_rows          = 0.2;
  CAPTURE(wanted, bits);
  host_problem p                            = make_problem(spec);
  std::vector<unsigned char> const expected = prefill_run<qsa_policy>(p, wanted).output_bytes();
  int num_padding = 0, num_empty = 0;
  for (int row = 0; row < spec.num_rows; ++row) {
    if (p.tokens_of(row).empty()) {
      bool const is_padding = p.row_request[static_cast<std::size_t>(row)] != 0;
      ++(is_padding ? num_padding : num_empty);
      for (int head = 0; head < p.num_heads(); ++head) {
        pageunion::test::poison_query(p, row, head, bits);
      }
    }
  }
  REQUIRE(num_padding > 0);
  REQUIRE(num_empty > 0);
  CHECK(prefill_run<qsa_policy>(p, wanted).output_bytes() == expected);
}

TEST_CASE("whatever a query holds, it changes no bit of another row or head",
          "[prefill][bits][queries]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  // The last one gives scores of some hundreds, which other rows' references must not follow.
  std::uint16_t const bits =
      GENERATE(pageunion::test::half_nan, pageunion::test::half_infinity, half_bits(2000.0f));
  spec.num_rows      = 12;
  spec.lengths       = {300};
  spec.pages_per_row = 40;  // two steps of the online softmax
  int const row = 5, head = 2;
  CAPTURE(wanted, bits);
  host_problem p                            = make_problem(spec);
  std::vector<unsigned char> const expected = prefill_run<qsa_policy>(p, wanted).output_bytes();
  pageunion::test::poison_query(p, row, head, bits);
  prefill_run<qsa_policy> spoilt(p, wanted);
  std::vector<unsigned char> found = spoilt.output_bytes();
  CHECK(spoilt.faults() == "");
  double const lse = spoilt.device().lse()[static_cast<std::size_t>(row * p.num_heads() + head)];
  CHECK(std::isfinite(lse) == std::isfinite(half_value(bits)));
  // Every byte but those of the row's head.
  auto const forgive = [&](std::size_t first, std::size_t size) {
    auto const at = static_cast<std::ptrdiff_t>(first);
    std::copy_n(expected.begin() + at, size, found.begin() + at);
  };
  forgive(static_cast<std::size_t>(row * p.out_row_stride + head * p.out_head_stride) *
              p.out_element_bytes(),
          static_cast<std::size_t>(spec.head_dim) * p.out_element_bytes());
  forgive(p.out_elements() * p.out_element_bytes() +
              static_cast<std::size_t>(row * p.lse_row_stride + head) * sizeof(float),
          sizeof(float));
  CHECK(found == expected);
}

TEST_CASE("a captured call replays with what the arrays hold then", "[prefill][graph]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 21;
  spec.num_requests  = 2;
  spec.width         = 40;
  spec.lengths       = {190, 120};
  spec.spare_columns = 2;
  CAPTURE(wanted);
  prefill_run<qsa_policy> call(make_problem(spec), wanted);
  captured_graph graph([&](cudaStream_t stream) { return call.enqueue(stream); });
  REQUIRE(graph.captured() == status::ok);
  for (unsigned seed = 2; seed < 5; ++seed) {
    spec.seed = seed;
    // As many blocks in other proportions: positions, lengths and tables change.
    spec.lengths       = {190 - 16 * static_cast<int>(seed), 120 + 16 * static_cast<int>(seed)};
    int const longest  = (std::max(spec.lengths[0], spec.lengths[1]) + 15) / 16;
    spec.spare_columns = 14 - longest;
    spec.holes         = 0.1;
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

namespace {

//! Policies that group sooner: by the number of rows, and by what SMs take. Nothing is launched with them.
struct two_row_policy : qsa_policy {
  static constexpr int row_route_rows = 2;
};
struct eager_policy : qsa_policy {
  static constexpr double row_route_rows_per_sm = 1e-4;
};

}  // namespace

TEST_CASE("prefill says which route it took", "[prefill]") {
  prefill_run<qsa_policy> chosen(make_problem(spec_of<qsa_policy>()), route::automatic);
  REQUIRE(chosen.run() == status::ok);
  CHECK(chosen.faults() == "");
  CHECK(chosen.info().route == route::row);  // so few rows leave SMs of any device idle
  CHECK(std::string(chosen.info().reason) != "");

  pageunion::prefill_info info;
  REQUIRE(pageunion::detail::choose_route<two_row_policy>(chosen.args(), info) == status::ok);
  CHECK(info.route == route::grouped);
  REQUIRE(pageunion::detail::choose_route<eager_policy>(chosen.args(), info) == status::ok);
  CHECK(info.route == route::grouped);

  route const wanted = GENERATE(from_range(all_routes()));
  prefill_run<qsa_policy> asked(make_problem(spec_of<qsa_policy>()), wanted);
  REQUIRE(asked.run() == status::ok);
  CHECK(asked.info().route == wanted);
  CHECK(std::string(asked.info().reason) != "");
}

TEST_CASE("prefill reports what it saw", "[prefill]") {
  problem_spec spec  = spec_of<qsa_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 45;
  spec.padding_rows  = 0.2;
  spec.empty_rows    = 0.2;
  CAPTURE(wanted);
  prefill_run<qsa_policy> call(make_problem(spec), wanted);
  pageunion::test::device_array counters(std::vector<pageunion::plan_report>(1));
  call.report_to(counters.as<pageunion::plan_report>());
  REQUIRE(call.run() == status::ok);
  REQUIRE(call.run() == status::ok);
  unsigned long long num_bad = 0, num_empty = 0;
  for (int row = 0; row < spec.num_rows; ++row) {
    num_bad += call.device().host().row_request[static_cast<std::size_t>(row)] == 0 ? 0 : 1;
    num_empty += call.device().host().tokens_of(row).empty() ? 1 : 0;
  }
  // Two calls add up.
  pageunion::plan_report const report = counters.download<pageunion::plan_report>()[0];
  CHECK(report.rows == 90);
  CHECK(report.bad_request_rows == 2 * num_bad);
  CHECK(report.empty_rows == 2 * num_empty);
  CHECK(counters.is_guarded());
}

#ifdef PAGEUNION_EXECUTOR  // its devices have as much shared memory as a test wants
TEST_CASE("a device too small for the attention is refused before the planner is enqueued",
          "[prefill][arguments]") {
  prefill_run<qsa_policy> call(make_problem(spec_of<qsa_policy>()), route::grouped);
  pageunion::test::device_array report(std::vector<pageunion::plan_report>(1));
  call.report_to(report.as<pageunion::plan_report>());
  call.poison();
  std::size_t const all = executor::max_smem;
  executor::max_smem =
      pageunion::detail::grouped_attention_smem_bytes<pageunion::geometry<qsa_policy>> - 1;
  status const answer = call.enqueue(nullptr);
  executor::max_smem  = all;
  CHECK(answer == status::unsupported_device);
  CHECK(call.device().is_output_untouched());
  CHECK(report.download<pageunion::plan_report>()[0].rows == 0);
}
#endif

TEST_CASE("a bad argument is named, nothing is enqueued and outputs stay as they were",
          "[prefill][arguments]") {
  problem_spec spec = spec_of<qsa_policy>();
  spec.num_rows     = 20;
  spec.num_kv_heads = 2;
  prefill_run<qsa_policy> call(make_problem(spec));
  call.poison();
  for (auto const& bad : pageunion::test::bad_arguments()) {
    // Only what is written is real: nothing may read or write anything.
    pageunion::test::call_arguments given = pageunion::test::good_arguments();
    given.operands.out.data               = call.device().operands().out.data;
    given.operands.lse.data               = call.device().operands().lse.data;
    bad.spoil(given);
    pageunion::prefill_args args;
    args.rows      = given.rows;
    args.selected  = given.selected;
    args.attention = given.operands;
    args.report    = given.report;
    status answer  = status::ok;
    captured_graph graph([&](cudaStream_t stream) {
      answer = pageunion::prefill<qsa_policy>(args, given.workspace, given.workspace_bytes, stream);
      return answer;
    });
    CAPTURE(bad.what);
    CHECK(std::string(pageunion::to_string(answer)) == pageunion::to_string(bad.expected));
    // Anything in the graph would touch the pretended addresses now.
    REQUIRE_NOTHROW(graph.replay());
    REQUIRE(call.device().is_output_untouched());
  }
}
