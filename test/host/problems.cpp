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

namespace {

using namespace pageunion;
using namespace pageunion::test;

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
    for (int token = 0; token < p.block_tokens; ++token) {
      for (int head = 0; head < p.num_kv_heads; ++head) {
        for (int d = 0; d < p.head_dim; ++d) {
          auto const k = kv_offset(p.k_strides, block, token, head) + d;
          auto const v = kv_offset(p.v_strides, block, token, head) + d;
          for (std::uint16_t const bits : {p.k_data.data()[k], v_begin(p)[v]}) {
            ++(std::isnan(half_value(bits)) ? counts.nans : counts.values);
          }
        }
      }
    }
  }
  return counts;
}

}  // namespace

TEST_CASE("rows drift apart, choose the same pages, or share none", "[problems]") {
  problem_spec spec  = small_spec();
  spec.num_requests  = 1;
  spec.pattern       = GENERATE(page_pattern::drifting, page_pattern::same, page_pattern::disjoint);
  spec.lengths       = {2000};
  spec.token_density = 1.0;
  spec.kind          = selection_kind::pages;
  spec.num_rows      = 8;
  CAPTURE(spec.pattern);
  host_problem const p = make_problem(spec);
  std::set<std::int32_t> all;
  for (int row = 0; row < spec.num_rows; ++row) {
    std::set<std::int32_t> const pages(p.row(row), p.row(row) + p.width);
    all.insert(pages.begin(), pages.end());
  }
  all.erase(-1);
  auto const num_pages = static_cast<int>(all.size());
  CHECK((num_pages == 8) == (spec.pattern == page_pattern::same));
  CHECK((num_pages == 64) == (spec.pattern == page_pattern::disjoint));
}

TEST_CASE("each share of a specification makes what it names", "[problems]") {
  problem_spec spec    = small_spec();
  auto const form      = GENERATE(from_range(all_selection_forms()));
  spec.kind            = form.kind;
  spec.counts_form     = form.counts;
  spec.padding_rows    = 0.1;
  spec.odd_positions   = 0.2;
  spec.unmapped_blocks = 0.2;
  spec.holes           = 0.2;
  spec.duplicates      = 0.2;
  spec.foreign_entries = 0.2;
  spec.empty_rows      = 0.1;
  CAPTURE(spec.kind, spec.counts_form);
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
    std::int32_t const* const stored = p.row(row);
    int const in_use                 = p.entries_in_use(row);
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
      attended.insert({whole.row_request[row], token});
    }
  }
  reference_result const before = whole.reference();
  poison_unselected(whole);
  CHECK(count_fill(whole).values ==
        static_cast<std::int64_t>(attended.size()) * 2 * spec.num_kv_heads * spec.head_dim);
  CHECK(whole.reference().out == before.out);
}

TEST_CASE("neighbouring rows of a run belong to one request", "[problems]") {
  host_problem const p = make_problem(small_spec());
  CHECK(std::is_sorted(p.row_request.begin(), p.row_request.end()));
  problem_spec shuffled        = small_spec();
  shuffled.order               = row_order::shuffled;
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
  CHECK(p.block_entries[0] == p.block_entries[p.table_stride]);
  spec.has_shared_prefix = false;
  host_problem const q   = make_problem(spec);
  CHECK(q.block_entries[0] != q.block_entries[q.table_stride]);
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
