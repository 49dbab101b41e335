// SPDX-License-Identifier: Apache-2.0
//! @file
//! The problem builder does what its specification says: a test whose input is not what it names
//! tests nothing.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "support/catch.hpp"
#include "support/choose_pages.hpp"
#include "support/make_problem.hpp"

using pageunion::test::all_selection_forms;
using pageunion::test::cache_fill;
using pageunion::test::count_form;
using pageunion::test::half_value;
using pageunion::test::host_problem;
using pageunion::test::kv_layout;
using pageunion::test::make_problem;
using pageunion::test::measure_overlap;
using pageunion::test::page_pattern;
using pageunion::test::problem_spec;
using pageunion::test::selection_overlap;

namespace {

problem_spec small_spec() {
  problem_spec spec;
  spec.num_rows     = 60;
  spec.num_requests = 3;
  spec.heads_per_kv = 2;
  spec.head_dim     = 64;
  return spec;
}

//! Elements of K's and V's heads that are NaN, and those that are not.
struct fill_counts {
  std::int64_t nans   = 0;
  std::int64_t values = 0;
};

fill_counts count_fill(host_problem& p) {
  fill_counts counts;
  for (int block = 0; block < p.num_blocks; ++block) {
    for (int token = 0; token < p.spec.block_tokens; ++token) {
      for (int head = 0; head < p.spec.num_kv_heads; ++head) {
        for (int d = 0; d < p.spec.head_dim; ++d) {
          auto const k = pageunion::kv_offset(p.k_strides, block, token, head) + d;
          auto const v = pageunion::kv_offset(p.v_strides, block, token, head) + d;
          for (std::uint16_t const bits : {p.k_data.data()[k], pageunion::test::v_begin(p)[v]}) {
            ++(std::isnan(half_value(bits)) ? counts.nans : counts.values);
          }
        }
      }
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("the page drift gives the recorded overlaps", "[problems]") {
  problem_spec spec;
  spec.num_rows      = 400;
  spec.pages_per_row = 512;
  spec.heads_per_kv  = 1;
  spec.head_dim      = 64;
  spec.unselected    = cache_fill::values;

  SECTION("fresh-8k") {
    spec.lengths                    = {4600};
    selection_overlap const overlap = measure_overlap(make_problem(spec), 8);
    CHECK(overlap.jaccard > 0.79);
    CHECK(overlap.jaccard < 0.94);
    CHECK(overlap.growth > 1.2);
    CHECK(overlap.growth < 1.5);
  }
  SECTION("chunk-32k") {
    spec.lengths                    = {32768};
    selection_overlap const overlap = measure_overlap(make_problem(spec), 8);
    CHECK(std::abs(overlap.jaccard - 0.73) < 0.03);
    CHECK(std::abs(overlap.growth - 1.69) < 0.06);
  }
  SECTION("long-tail") {
    spec.lengths                    = {32768};
    spec.rho                        = 0.9;
    selection_overlap const overlap = measure_overlap(make_problem(spec), 8);
    CHECK(std::abs(overlap.jaccard - 0.56) < 0.05);
    CHECK(std::abs(overlap.growth - 2.35) < 0.15);
  }
  SECTION("disjoint") {
    spec.lengths                    = {65536};
    spec.pattern                    = page_pattern::disjoint;
    selection_overlap const overlap = measure_overlap(make_problem(spec), 8);
    CHECK(overlap.jaccard < 0.01);
    CHECK(overlap.growth > 7.9);
  }
  SECTION("the same pages") {
    spec.lengths                    = {32768};
    spec.pattern                    = page_pattern::same;
    selection_overlap const overlap = measure_overlap(make_problem(spec), 8);
    CHECK(overlap.jaccard > 0.98);
    CHECK(overlap.growth < 1.02);
  }
}

TEST_CASE("each share of a specification makes what it names", "[problems]") {
  problem_spec spec    = small_spec();
  auto const form      = GENERATE(from_range(all_selection_forms()));
  spec.kind            = form.kind;
  spec.counts          = form.counts;
  spec.padding_rows    = 0.1;
  spec.odd_positions   = 0.2;
  spec.unmapped_blocks = 0.2;
  spec.holes           = 0.2;
  spec.duplicates      = 0.2;
  spec.foreign_entries = 0.2;
  spec.empty_rows      = 0.1;
  CAPTURE(spec.kind, spec.counts);
  host_problem const p = make_problem(spec);

  auto const count_if = [](auto const& values, auto predicate) {
    return std::count_if(values.begin(), values.end(), predicate);
  };
  CHECK(count_if(p.row_request, [](auto request) { return request < 0 || request >= 3; }) > 0);
  CHECK(count_if(p.row_position, [](auto position) { return position < 0; }) > 0);
  CHECK(count_if(p.row_position, [](auto position) { return position > 1000; }) > 0);
  CHECK(count_if(p.block_entries, [&](auto block) { return block < -1 || block > p.num_blocks; }) >
        0);

  int holes = 0, duplicates = 0, foreign = 0, empties = 0;
  for (int row = 0; row < spec.num_rows; ++row) {
    std::int32_t const* const stored = p.entries.data() + row * p.entry_stride;
    int in_use                       = p.width;
    if (!p.counts.empty()) {
      in_use = std::min(in_use, p.counts[static_cast<std::size_t>(row)]);
    } else if (p.spec.counts == count_form::column) {
      in_use = std::min(in_use, stored[p.width]);
    }
    std::set<std::int32_t> seen;
    int last_entry = -1;
    for (int i = 0; i < in_use; ++i) {
      last_entry = stored[i] >= 0 ? i : last_entry;
    }
    for (int i = 0; i <= last_entry; ++i) {
      holes += stored[i] == -1 ? 1 : 0;
      duplicates += stored[i] >= 0 && !seen.insert(stored[i]).second ? 1 : 0;
      foreign += stored[i] >= 200 ? 1 : 0;
    }
    empties += p.tokens_of(row).empty() ? 1 : 0;
  }
  CHECK(holes > 0);
  CHECK(duplicates > 0);
  CHECK(foreign > 0);
  CHECK(empties > 0);
  CHECK(empties < spec.num_rows);
}

TEST_CASE("an empty row chooses nothing", "[problems]") {
  problem_spec spec    = small_spec();
  spec.empty_rows      = 0.3;
  host_problem const p = make_problem(spec);
  int num_empty        = 0;
  for (int row = 0; row < spec.num_rows; ++row) {
    num_empty += p.tokens_of(row).empty() ? 1 : 0;
  }
  CHECK(num_empty > 0);
  CHECK(num_empty < spec.num_rows / 2);
}

TEST_CASE("what no row attends to is NaN, and nothing else", "[problems]") {
  problem_spec spec = small_spec();
  spec.layout       = GENERATE(kv_layout::separate, kv_layout::heads_first, kv_layout::mixed,
                               kv_layout::interleaved_blocks, kv_layout::interleaved_tokens);
  spec.gap          = GENERATE(0, 16);
  spec.num_kv_heads = 2;
  CAPTURE(spec.layout, spec.gap);

  spec.unselected    = cache_fill::values;
  host_problem whole = make_problem(spec);
  CHECK(count_fill(whole).nans == 0);

  std::set<std::pair<int, int>> attended;
  for (int row = 0; row < spec.num_rows; ++row) {
    for (std::int32_t const token : whole.tokens_of(row)) {
      attended.insert({whole.row_request[static_cast<std::size_t>(row)], token});
    }
  }
  pageunion::reference_result const before = whole.reference();
  pageunion::test::poison_unselected(whole);
  CHECK(count_fill(whole).values ==
        static_cast<std::int64_t>(attended.size()) * 2 * spec.num_kv_heads * spec.head_dim);
  CHECK(whole.reference().out == before.out);
}

TEST_CASE("neighbouring rows of a run belong to one request", "[problems]") {
  host_problem const p = make_problem(small_spec());
  CHECK(std::is_sorted(p.row_request.begin(), p.row_request.end()));
  problem_spec shuffled        = small_spec();
  shuffled.order               = pageunion::test::row_order::shuffled;
  host_problem const other     = make_problem(shuffled);
  std::vector<std::int32_t> of = other.row_request;
  CHECK_FALSE(std::is_sorted(of.begin(), of.end()));
  std::sort(of.begin(), of.end());
  CHECK(of == p.row_request);
}

TEST_CASE("requests with a shared prefix map it to the same blocks", "[problems]") {
  problem_spec spec      = small_spec();
  spec.has_shared_prefix = true;
  host_problem const p   = make_problem(spec);
  CHECK(p.block_entries[0] == p.block_entries[static_cast<std::size_t>(p.table_stride)]);
  spec.has_shared_prefix = false;
  host_problem const q   = make_problem(spec);
  CHECK(q.block_entries[0] != q.block_entries[static_cast<std::size_t>(q.table_stride)]);
}

TEST_CASE("the same seed makes the same problem", "[problems]") {
  problem_spec spec    = small_spec();
  host_problem const a = make_problem(spec);
  host_problem const b = make_problem(spec);
  CHECK(a.k_data == b.k_data);
  CHECK(a.entries == b.entries);
  spec.seed            = 2;
  host_problem const c = make_problem(spec);
  CHECK(a.k_data != c.k_data);
  CHECK(a.entries != c.entries);
}
