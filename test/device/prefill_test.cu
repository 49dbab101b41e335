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
#include "support/double_bits.hpp"
#include "support/far_array.cuh"
#include "support/make_problem.hpp"
#include "support/policies.hpp"
#include "support/prefill_run.cuh"
#include "support/test_size.hpp"

namespace {

using namespace pageunion;
using namespace pageunion::test;

//! QSA with partitions so short that a few pages are several on the row route.
using policy = short_partition_policy;

template <class Policy>
void require_right(host_problem const& p, route wanted) {
  REQUIRE(prefill_run<Policy>(p, wanted).run_faults() == "");
}

}  // namespace

TEMPLATE_TEST_CASE("prefill agrees with the reference for any number of rows", "[prefill]", policy,
                   short_head_policy) {
  problem_spec spec  = spec_of<TestType>();
  spec.num_rows      = GENERATE(0, 1, 7, 8, 9, 33);
  spec.kind          = GENERATE(selection_kind::tokens, selection_kind::pages);
  route const wanted = GENERATE(from_range(all_routes()));
  CAPTURE(spec.num_rows, spec.kind, wanted);
  require_right<TestType>(make_problem(spec), wanted);
}

TEMPLATE_TEST_CASE("the routes agree with each other", "[prefill][routes]", policy,
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
  auto bounds = bounds_of(p, p.reference());
  for (output_bound& bound : bounds) {
    bound.element *= 2.0;
    bound.length *= 2.0;
  }
  auto const out =
      compare_outputs(by_row.device().out(), grouped.device().out(), bounds, spec.head_dim);
  CHECK(out.failure == "");
  CHECK(out.relative_l2 <= 2.0 * required_relative_l2);
  std::vector<double> const lse = grouped.device().lse();
  auto const logarithms         = compare(by_row.device().lse(), lse, [&](std::size_t i) {
    double const size = is_finite(lse[i]) ? std::abs(lse[i]) : 0.0;
    return 2.0 * std::max(lse_absolute, lse_relative * size);
  });
  CHECK(logarithms.failure == "");
}

TEST_CASE("prefill sees through whatever the rules drop", "[prefill]") {
  problem_spec spec    = spec_of<policy>();
  spec.seed            = GENERATE(1u, 2u);
  auto const form      = GENERATE(from_range(all_selection_forms()));
  spec.kind            = form.kind;
  spec.counts_form     = form.counts;
  route const wanted   = GENERATE(from_range(all_routes()));
  spec.num_rows        = 30;
  spec.num_requests    = 4;
  spec.pages_per_row   = 33;
  spec.holes           = 0.2;
  spec.duplicates      = 0.2;
  spec.foreign_entries = 0.2;
  spec.empty_rows      = 0.1;
  spec.padding_rows    = 0.1;
  spec.odd_positions   = 0.1;
  spec.unmapped_blocks = 0.1;
  spec.token_density   = 0.7;
  spec.spare_columns   = -1;
  CAPTURE(spec.seed, spec.kind, spec.counts_form, wanted);
  require_right<policy>(make_problem(spec), wanted);
}

TEST_CASE("prefill follows any layout, block size and output", "[prefill]") {
  problem_spec spec      = spec_of<policy>();
  spec.layout            = GENERATE(kv_layout::separate, kv_layout::heads_first, kv_layout::mixed,
                                    kv_layout::interleaved_blocks, kv_layout::interleaved_tokens);
  spec.block_tokens      = GENERATE(16, 36, 784);
  route const wanted     = GENERATE(from_range(all_routes()));
  spec.gap               = spec.block_tokens == 36 ? 24 : 0;
  spec.out_type          = spec.block_tokens == 36 ? element_type::f32 : element_type::f16;
  spec.lse_base          = spec.block_tokens == 16 ? log_base::natural : log_base::two;
  spec.num_kv_heads      = 2;
  spec.num_rows          = 11;
  spec.num_requests      = 2;
  spec.pages_per_row     = 33;
  spec.has_shared_prefix = true;
  CAPTURE(spec.layout, spec.block_tokens, wanted);
  require_right<policy>(make_problem(spec), wanted);
}

namespace {

//! A way in which a batch may differ from the plain one.
struct batch_form {
  char const* what;
  void (*form)(problem_spec&);
};

std::vector<batch_form> batch_forms() {
  using spec = problem_spec&;
  return {
      {"rows of 5 requests in any order", [](spec s) { s.num_requests = 5; }},
      {"every row of another request", [](spec s) { s.num_requests = s.num_rows; }},
      {"some rows are empty", [](spec s) { s.empty_rows = 0.5; }},
      {"all rows are empty", [](spec s) { s.empty_rows = 1.0; }},
      {"rows share all pages", [](spec s) { s.pattern = page_pattern::same; }},
      {"rows share no page", [](spec s) { s.pattern = page_pattern::disjoint; }},
  };
}

}  // namespace

TEST_CASE("prefill takes batches of any form", "[prefill]") {
  batch_form const batch = GENERATE(from_range(batch_forms()));
  route const wanted     = GENERATE(from_range(all_routes()));
  problem_spec spec      = spec_of<policy>();
  spec.columns           = GENERATE(column_order::ascending, column_order::shuffled);
  spec.num_rows          = 24;
  spec.pages_per_row     = 20;
  batch.form(spec);
  bool const are_many = spec.num_requests > 1;
  spec.order          = are_many ? row_order::shuffled : row_order::runs;
  spec.padding_rows   = are_many ? 0.2 : 0.0;
  spec.min_length     = are_many ? 0 : 600;
  spec.max_length     = are_many ? 90 : 600;
  CAPTURE(batch.what, spec.columns, wanted);
  require_right<policy>(make_problem(spec), wanted);
}

TEMPLATE_TEST_CASE("prefill takes sequences of a few tokens", "[prefill]", policy,
                   wide_page_policy) {
  problem_spec spec  = spec_of<TestType>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.lengths       = {0, 1, 3, 4, 5, 16, 17};
  spec.kind          = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.num_requests  = 7;
  spec.num_rows      = 21;
  CAPTURE(spec.kind, wanted);
  require_right<TestType>(make_problem(spec), wanted);
}

TEST_CASE("a row may attend to one token, the last one of a whole page", "[prefill]") {
  problem_spec spec  = spec_of<policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 3;
  spec.lengths       = {48};
  spec.unselected    = cache_fill::values;
  host_problem p     = make_problem(spec);
  p.entries.assign(p.entries.size(), -1);
  p.entries[2 * p.entry_stride + p.width - 1] = 47;
  poison_unselected(p);
  require_right<policy>(p, wanted);
}

TEST_CASE("a cache of no blocks may be null and leaves every row empty", "[prefill]") {
  problem_spec spec  = spec_of<policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 11;
  CAPTURE(wanted);
  prefill_run<policy> call(make_problem(spec), wanted);
  call.poison();
  prefill_args args               = call.args();
  args.attention.cache.num_blocks = 0;
  args.attention.cache.k          = nullptr;
  args.attention.cache.v          = nullptr;
  REQUIRE(call.call(args) == status::ok);
  std::vector<double> const out = call.device().out(), lse = call.device().lse();
  auto const is_plus_zero = [](double x) { return pageunion::test::is_same_number(x, 0.0); };
  CHECK(std::all_of(out.begin(), out.end(), is_plus_zero));
  CHECK(std::all_of(lse.begin(), lse.end(), pageunion::test::is_minus_infinity));
}

TEST_CASE("keys may lie at the end of the range of half, and scale 0 gives the mean of V",
          "[prefill]") {
  // Queries with one element of 1 and keys of +-65,504 there: scores of +-65,504 without rounding.
  problem_spec spec  = spec_of<policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  bool const is_low  = GENERATE(false, true);
  host_problem p     = make_problem(spec);
  p.scale            = GENERATE(1.0f, 0.0f);
  for (std::size_t i = 0; i < p.q_data.size(); ++i) {
    p.q_data[i] = half_bits(i % spec.head_dim == 0 ? 1.0f : 0.0f);
  }
  for (std::size_t i = 0; i < p.k_data.size(); ++i) {
    // All scores at -65,504, or every fifth at the other end.
    bool const is_high = !is_low && i / spec.head_dim % 5 == 0;
    if (p.k_data[i] != half_nan) {
      p.k_data[i] = half_bits(is_high ? 65504.0f : -65504.0f);
    }
  }
  CAPTURE(wanted, is_low, p.scale);
  require_right<policy>(p, wanted);
}

TEST_CASE("70,000 rows", "[prefill][large]") {
  problem_spec spec  = spec_of<short_head_policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = test_size(70000, 700);
  spec.num_requests  = 3;
  spec.lengths       = {30, 50, 64};
  spec.pages_per_row = 2;
  CAPTURE(wanted);
  require_right<short_head_policy>(make_problem(spec), wanted);
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
  p.num_rows         = num_rows;
  p.q_data           = slice_of(p.q_data, 1, p.q_row_stride);
  p.q_row_stride     = 0;
  p.row_request.assign(num_rows, -1);
  p.row_position.assign(num_rows, 39);
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
    p.row_request[row] = row == 1 ? -1 : 0;
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
    return std::all_of(begin, begin + size, [&](double value) {
      return pageunion::test::is_same_number(value, expected);
    });
  };
  bool are_empty = true;
  for (int row = 0; row < num_rows && are_empty; ++row) {
    are_empty = attending.count(row) != 0 ||
                (is_all(lse, row, p.num_heads(), -std::numeric_limits<double>::infinity()) &&
                 is_all(out, row, static_cast<std::ptrdiff_t>(p.num_heads()) * spec.head_dim, 0.0));
  }
  CHECK(are_empty);
}

namespace {

//! Moves the array of this name.
far_array move_far(prefill_args& args, named_axis const& moved) {
  attention_operands& operands = args.attention;
  query_view& q                = operands.q;
  kv_cache& cache              = operands.cache;
  token_table& tokens          = args.selected.tokens;
  page_table& pages            = args.selected.pages;
  std::string const& name      = moved.name;
  auto const of_rows           = [&](auto& data, std::int64_t& stride, std::int32_t width) {
    return far_array(data, {{args.rows.num_rows, &stride}}, 0, width, sizeof(std::int32_t));
  };
  auto const of_heads = [&](auto& view, std::int32_t width, std::size_t element_bytes) {
    return far_array(view.data,
                     {{args.rows.num_rows, &view.row_stride}, {q.num_heads, &view.head_stride}},
                     moved.axis, width, element_bytes);
  };
  auto const of_cache = [&](auto& data, kv_strides& strides) {
    return far_array(data,
                     {{cache.num_blocks, &strides.block},
                      {cache.block_tokens, &strides.token},
                      {cache.num_kv_heads, &strides.head}},
                     moved.axis, q.head_dim, sizeof(__half));
  };
  if (name == "q") return of_heads(q, q.head_dim, sizeof(__half));
  if (name == "out") return of_heads(operands.out, q.head_dim, sizeof(__half));
  if (name == "lse") return of_heads(operands.lse, 1, sizeof(float));
  if (name == "k") return of_cache(cache.k, cache.k_strides);
  if (name == "v") return of_cache(cache.v, cache.v_strides);
  if (name == "counts") return of_rows(tokens.counts, tokens.count_stride, 1);
  if (name == "block table") {
    return far_array(cache.blocks.table, {{cache.blocks.num_requests, &cache.blocks.row_stride}}, 0,
                     cache.blocks.width, sizeof(std::int32_t));
  }
  return args.selected.kind == selection_kind::pages
             ? of_rows(pages.pages, pages.row_stride, pages.width)
             : of_rows(tokens.tokens, tokens.row_stride, tokens.width);
}

}  // namespace

TEST_CASE("places of an array may lie 2^32 elements apart, along any axis", "[prefill][far]") {
  auto const moved        = GENERATE(from_range(axes_of({{"q", 2},
                                                         {"out", 2},
                                                         {"lse", 2},
                                                         {"k", 3},
                                                         {"v", 3},
                                                         {"tokens", 1},
                                                         {"pages", 1},
                                                         {"counts", 1},
                                                         {"block table", 1}})));
  route const wanted      = GENERATE(from_range(all_routes()));
  std::string const& name = moved.name;
  problem_spec spec       = spec_of<wide_page_policy>();
  spec.kind               = name == "pages" ? selection_kind::pages : selection_kind::tokens;
  spec.counts_form        = name == "counts" ? count_form::array : count_form::none;
  spec.num_rows           = 2;
  spec.num_requests       = 2;
  spec.num_kv_heads       = 2;
  spec.lengths            = {150, 150};
  spec.unmapped_blocks    = 0.3;
  CAPTURE(wanted, name, moved.axis);
  prefill_run<wide_page_policy> call(make_problem(spec), wanted);
  device_array report(std::vector<plan_report>(1)), far_report(std::vector<plan_report>(1));
  call.report_to(report.as<plan_report>());
  REQUIRE(call.run() == status::ok);
  REQUIRE(report.download<plan_report>()[0].unmapped_block > 0);
  call.report_to(far_report.as<plan_report>());
  call.poison();
  prefill_args args   = call.args();
  far_array const far = move_far(args, moved);
  if (!far.exists()) {
    WARN("skipped: the device has too little memory");
    return;
  }
  REQUIRE(call.call(args) == status::ok);
  far.copy_back();
  CHECK(call.faults() == "");
  CHECK(report.download<unsigned char>() == far_report.download<unsigned char>());
}

TEST_CASE("rows may attend to 2,051 tokens", "[prefill][production]") {
  problem_spec spec  = spec_of<policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = test_size(24, 9);
  spec.lengths       = {3000};
  spec.pages_per_row = 512;
  spec.max_pages     = 513;
  spec.width         = 2051;
  prefill_run<policy> call(make_problem(spec), wanted);
  REQUIRE(call.run_faults() == "");
  // The production geometry, on standard-normal input.
  auto const rows = all_rows(call.host());
  CHECK(compare_rows(call.device(), rows).out.max_abs <= required_max_abs);
}

TEST_CASE("twenty runs give the same bits", "[prefill][bits]") {
  problem_spec spec  = spec_of<policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 45;
  spec.pages_per_row = 20;
  prefill_run<policy> call(make_problem(spec), wanted);
  std::vector<unsigned char> const first = call.output_bytes();
  for (int run = 1; run < test_size(20, 5); ++run) {
    CAPTURE(wanted, run);
    REQUIRE(call.output_bytes() == first);
  }
}

TEST_CASE("other physical blocks and other columns give the same bits", "[prefill][bits]") {
  problem_spec spec      = spec_of<policy>();
  route const wanted     = GENERATE(from_range(all_routes()));
  spec.kind              = GENERATE(selection_kind::tokens, selection_kind::pages);
  spec.layout            = GENERATE(kv_layout::separate, kv_layout::interleaved_blocks);
  spec.num_rows          = 45;
  spec.num_requests      = 2;
  spec.has_shared_prefix = true;
  spec.holes             = 0.1;
  CAPTURE(wanted, spec.kind, spec.layout);
  host_problem const p                   = make_problem(spec);
  std::vector<unsigned char> const bytes = prefill_run<policy>(p, wanted).output_bytes();
  CHECK(prefill_run<policy>(relocated(p, 3), wanted).output_bytes() == bytes);
  CHECK(prefill_run<policy>(permuted_columns(p, 4), wanted).output_bytes() == bytes);
}

TEST_CASE("what no row attends to does not change a bit, whatever it holds", "[prefill][bits]") {
  problem_spec spec  = spec_of<policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 45;
  spec.num_requests  = 2;
  spec.token_density = GENERATE(1.0, 0.5);
  spec.unselected    = cache_fill::values;
  CAPTURE(wanted, spec.token_density);
  host_problem p                         = make_problem(spec);
  std::vector<unsigned char> const bytes = prefill_run<policy>(p, wanted).output_bytes();
  poison_unselected(p, half_nan);
  CHECK(prefill_run<policy>(p, wanted).output_bytes() == bytes);
  poison_unselected(p, half_infinity);
  CHECK(prefill_run<policy>(p, wanted).output_bytes() == bytes);
}

TEST_CASE("a neighbour's NaN and infinity stay with the neighbour", "[prefill][bits]") {
  problem_spec spec        = spec_of<policy>();
  route const wanted       = GENERATE(from_range(all_routes()));
  bool const is_in_v       = GENERATE(true, false);
  std::uint16_t const bits = GENERATE(half_nan, half_infinity);
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
  p.entries[row * p.entry_stride] = only;
  auto const element              = element_of(p, is_in_v ? p.v_strides : p.k_strides, 0, only, 0);
  std::uint16_t* const data       = is_in_v ? v_begin(p) : p.k_data.data();
  for (int d = 0; d < spec.head_dim; ++d) {
    data[element + d] = half_bits(0.5f);
  }
  prefill_run<policy> clean(p, wanted);
  REQUIRE(clean.run() == status::ok);
  data[element + 37] = bits;
  prefill_run<policy> spoilt(p, wanted);
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
      REQUIRE(pageunion::test::is_finite(after[i]) == pageunion::test::is_finite(expected[i]));
    }
  }
}

TEST_CASE("the query of a row that attends to nothing does not change a bit, whatever it holds",
          "[prefill][bits][queries]") {
  problem_spec spec        = spec_of<policy>();
  route const wanted       = GENERATE(from_range(all_routes()));
  std::uint16_t const bits = GENERATE(half_nan, half_infinity);
  spec.num_rows            = 20;
  spec.padding_rows        = 0.2;
  spec.empty_rows          = 0.2;
  CAPTURE(wanted, bits);
  host_problem p                            = make_problem(spec);
  std::vector<unsigned char> const expected = prefill_run<policy>(p, wanted).output_bytes();
  int num_padding = 0, num_empty = 0;
  for (int row = 0; row < spec.num_rows; ++row) {
    if (p.tokens_of(row).empty()) {
      bool const is_padding = p.row_request[row] != 0;
      ++(is_padding ? num_padding : num_empty);
      for (int head = 0; head < p.num_heads(); ++head) {
        poison_query(p, row, head, bits);
      }
    }
  }
  REQUIRE(num_padding > 0);
  REQUIRE(num_empty > 0);
  CHECK(prefill_run<policy>(p, wanted).output_bytes() == expected);
}

TEST_CASE("whatever a query holds, it changes no bit of another row or head",
          "[prefill][bits][queries]") {
  problem_spec spec  = spec_of<policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  // The last one gives scores of some hundreds, which other rows' references must not follow.
  std::uint16_t const bits = GENERATE(half_nan, half_infinity, half_bits(2000.0f));
  spec.num_rows            = 12;
  spec.lengths             = {300};
  spec.pages_per_row       = 40;  // two steps of the online softmax
  int const row = 5, head = 2;
  CAPTURE(wanted, bits);
  host_problem p                      = make_problem(spec);
  std::vector<unsigned char> expected = prefill_run<policy>(p, wanted).output_bytes();
  poison_query(p, row, head, bits);
  prefill_run<policy> spoilt(p, wanted);
  std::vector<unsigned char> found = spoilt.output_bytes();
  CHECK(spoilt.faults() == "");
  double const lse = spoilt.device().lse()[row * p.num_heads() + head];
  CHECK(is_finite(lse) == is_finite(half_value(bits)));
  for (auto* const bytes : {&found, &expected}) {
    spoilt.device().outputs().overwrite(*bytes, row, head, 0);
  }
  CHECK(found == expected);
}

TEST_CASE("a captured call replays with what the arrays hold then", "[prefill][graph]") {
  problem_spec spec  = spec_of<policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 11;
  spec.pages_per_row = 40;
  spec.width         = 170;
  CAPTURE(wanted);
  auto const problems = problems_of_one_shape(spec);
  CHECK(prefill_run<policy>(problems[0], wanted).replay_faults(problems) == "");
}

namespace {

//! Policies that group sooner: by the number of rows, and by what SMs take. Nothing is launched with them.
struct two_row_policy : policy {
  static constexpr void tune(tuning& chosen) noexcept { chosen.row_route_rows = 2; }
};
struct eager_policy : policy {
  static constexpr void tune(tuning& chosen) noexcept { chosen.row_route_rows_per_sm = 1e-4; }
};

template <class Policy>
status choose_route(prefill_args const& args, prefill_info& info) {
  return detail::choose_route<Policy, policy_tuning>(policy_tuning::select<Policy>(700), args,
                                                     info);
}

}  // namespace

TEST_CASE("prefill says which route it took", "[prefill]") {
  prefill_run<policy> chosen(make_problem(spec_of<policy>()), route::automatic);
  REQUIRE(chosen.run() == status::ok);
  CHECK(chosen.faults() == "");
  CHECK(chosen.info().route == route::row);  // so few rows leave SMs of any device idle
  CHECK(std::string(chosen.info().reason) != "");

  prefill_info info;
  REQUIRE(choose_route<two_row_policy>(chosen.args(), info) == status::ok);
  CHECK(info.route == route::grouped);
  REQUIRE(choose_route<eager_policy>(chosen.args(), info) == status::ok);
  CHECK(info.route == route::grouped);

  route const wanted = GENERATE(from_range(all_routes()));
  prefill_run<policy> asked(make_problem(spec_of<policy>()), wanted);
  REQUIRE(asked.run() == status::ok);
  CHECK(asked.info().route == wanted);
  CHECK(std::string(asked.info().reason) != "");
}

TEST_CASE("prefill reports what it saw", "[prefill]") {
  problem_spec spec  = spec_of<policy>();
  route const wanted = GENERATE(from_range(all_routes()));
  spec.num_rows      = 45;
  spec.padding_rows  = 0.2;
  spec.empty_rows    = 0.2;
  CAPTURE(wanted);
  prefill_run<policy> call(make_problem(spec), wanted);
  device_array counters(std::vector<plan_report>(1));
  call.report_to(counters.as<plan_report>());
  REQUIRE(call.run() == status::ok);
  REQUIRE(call.run() == status::ok);
  unsigned long long num_bad = 0, num_empty = 0;
  for (int row = 0; row < spec.num_rows; ++row) {
    num_bad += call.host().row_request[row] == 0 ? 0 : 1;
    num_empty += call.host().tokens_of(row).empty() ? 1 : 0;
  }
  // Two calls add up.
  plan_report const report = counters.download<plan_report>()[0];
  CHECK(report.rows == 90);
  CHECK(report.bad_request_rows == 2 * num_bad);
  CHECK(report.empty_rows == 2 * num_empty);
  CHECK(counters.is_guarded());
}

#ifdef PAGEUNION_EXECUTOR  // its devices have as much shared memory as a test wants
TEST_CASE("a device too small for the attention is refused before the planner is enqueued",
          "[prefill][arguments]") {
  prefill_run<policy> call(make_problem(spec_of<policy>()), route::grouped);
  device_array report(std::vector<plan_report>(1));
  call.report_to(report.as<plan_report>());
  call.poison();
  std::size_t const all = executor::max_smem;
  executor::max_smem  = detail::grouped_attention_code<policy, policy_tuning, 700>::smem_bytes - 1;
  status const answer = call.enqueue(nullptr);
  executor::max_smem  = all;
  CHECK(answer == status::unsupported_device);
  CHECK(call.device().is_output_untouched());
  CHECK(report.download<plan_report>()[0].rows == 0);
}
#endif

TEST_CASE("a bad argument is named, nothing is enqueued and outputs stay as they were",
          "[prefill][arguments]") {
  auto const wanted = GENERATE(route::automatic, route::grouped, route::row);
  problem_spec spec = spec_of<policy>();
  spec.num_rows     = 20;
  spec.num_kv_heads = 2;
  CAPTURE(wanted);
  prefill_run<policy> call(make_problem(spec));
  call.poison();
  // Only what is written is real: nothing may read or write anything.
  call_arguments good = good_arguments();
  good.out().data     = call.device().operands().out.data;
  good.lse().data     = call.device().operands().lse.data;
  check_answers(bad_arguments(), good, [&](call_arguments const& given) {
    status const answer = captured_answer([&](cudaStream_t stream) {
      return prefill<policy>(args_of(given, wanted), given.workspace, given.workspace_bytes,
                             stream);
    });
    REQUIRE(call.device().is_output_untouched());
    return answer;
  });
}
