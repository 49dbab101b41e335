// SPDX-License-Identifier: Apache-2.0
//! @file
//! merge_partials() on the device: against double precision, its exact cases, and the results of a
//! sharded cache against those of the whole.
#include <cuda_runtime.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <pageunion/row_attention.cuh>

#include "support/bad_arguments.hpp"
#include "support/captured_graph.cuh"
#include "support/catch.hpp"
#include "support/far_array.cuh"
#include "support/make_problem.hpp"
#include "support/merge_run.cuh"
#include "support/policies.hpp"
#include "support/row_run.cuh"
#include "support/test_size.hpp"

using pageunion::element_type;
using pageunion::geometry;
using pageunion::log_base;
using pageunion::partial_view;
using pageunion::qsa_policy;
using pageunion::status;
using pageunion::test::captured_graph;
using pageunion::test::device_array;
using pageunion::test::far_array;
using pageunion::test::host_partials;
using pageunion::test::host_problem;
using pageunion::test::merge_run;
using pageunion::test::merge_spec;
using pageunion::test::problem_spec;
using pageunion::test::short_head_policy;
using pageunion::test::short_partition_policy;
using pageunion::test::test_size;
using pageunion::test::wide_page_policy;

namespace {

constexpr float infinity     = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

using short_heads = host_partials<short_head_policy::head_dim>;
using short_run   = merge_run<short_head_policy>;

void require_right(short_heads const& partials) {
  short_run call(partials);
  REQUIRE(call.run() == status::ok);
  REQUIRE(call.faults() == "");
}

}  // namespace

TEMPLATE_TEST_CASE("merging agrees with double precision for any number of partials", "[merge]",
                   qsa_policy, short_head_policy, wide_page_policy) {
  merge_spec spec;
  spec.num_partials = GENERATE(0, 1, 2, 3, 5, 17);
  spec.is_scattered = GENERATE(false, true);
  spec.out_type     = spec.is_scattered ? element_type::f16 : element_type::f32;
  spec.base         = GENERATE(log_base::natural, log_base::two);
  spec.lse_base     = GENERATE(log_base::natural, log_base::two);
  spec.empty        = 0.3;
  CAPTURE(spec.num_partials, spec.is_scattered, spec.base, spec.lse_base);
  merge_run<TestType> call{host_partials<TestType::head_dim>(spec)};
  REQUIRE(call.run() == status::ok);
  REQUIRE(call.faults() == "");
}

TEST_CASE("merging only empties gives exactly +0 and -inf", "[merge]") {
  merge_spec spec;
  spec.num_partials = GENERATE(0, 1, 2, 7);
  spec.out_type     = GENERATE(element_type::f16, element_type::f32);
  spec.lse_base     = GENERATE(log_base::natural, log_base::two);
  spec.empty        = 1.0;
  CAPTURE(spec.num_partials, spec.out_type, spec.lse_base);
  short_run call{short_heads(spec)};
  REQUIRE(call.run() == status::ok);
  for (double const value : call.out()) {
    REQUIRE((value == 0.0 && !std::signbit(value)));
  }
  for (double const value : call.lse()) {
    REQUIRE(value == -std::numeric_limits<double>::infinity());
  }
  CHECK(call.faults() == "");
}

TEST_CASE("a single partial comes out as it is", "[merge]") {
  merge_spec spec;
  spec.num_partials = GENERATE(1, 4);
  spec.base         = GENERATE(log_base::natural, log_base::two);
  spec.lse_base     = spec.base;
  CAPTURE(spec.num_partials, spec.base);
  short_heads partials(spec);
  // The others are empty.
  int const only = spec.num_partials / 2;
  for (int i = 0; i < spec.num_partials; ++i) {
    for (int item = 0; i != only && item < spec.num_rows * spec.num_heads; ++item) {
      partials.lse_at(i, item / spec.num_heads, item % spec.num_heads) = -infinity;
    }
  }
  short_run call(partials);
  REQUIRE(call.run() == status::ok);
  std::vector<double> const out = call.out();
  std::vector<double> const lse = call.lse();
  for (int item = 0; item < spec.num_rows * spec.num_heads; ++item) {
    int const row = item / spec.num_heads, head = item % spec.num_heads;
    CAPTURE(row, head);
    REQUIRE(lse[static_cast<std::size_t>(item)] ==
            static_cast<double>(partials.lse_at(only, row, head)));
    for (int dim = 0; dim < short_head_policy::head_dim; ++dim) {
      REQUIRE(out[static_cast<std::size_t>(item * short_head_policy::head_dim + dim)] ==
              static_cast<double>(partials.out_at(only, row, head, dim)));
    }
  }
}

TEST_CASE("lse may be as large and as far apart as float goes", "[merge]") {
  merge_spec spec;
  spec.num_partials = 4;
  spec.base         = GENERATE(log_base::natural, log_base::two);
  spec.lse_base     = GENERATE(log_base::natural, log_base::two);
  spec.spread       = GENERATE(1.0f, 300.0f, 1e30f);
  spec.center       = GENERATE(-1e5f, 1e5f);
  spec.empty        = 0.1;
  CAPTURE(spec.base, spec.lse_base, spec.spread, spec.center);
  require_right(short_heads(spec));
}

TEST_CASE("a NaN in lse or out makes its own results NaN, and no others", "[merge]") {
  merge_spec spec;
  spec.num_partials = 3;
  int const partial = GENERATE(0, 1, 2);
  bool const is_lse = GENERATE(true, false);
  CAPTURE(partial, is_lse);
  short_heads partials(spec);
  (is_lse ? partials.lse_at(partial, 2, 3) : partials.out_at(partial, 2, 3, 77)) = not_a_number;
  // However small the weight of the partial is.
  if (!is_lse) {
    partials.lse_at(partial, 2, 3) = -1e6f;
  }
  require_right(partials);
}

TEST_CASE("an infinity in out stays one, however small its weight", "[merge]") {
  merge_spec spec;
  spec.num_partials = 3;
  spec.out_type     = GENERATE(element_type::f16, element_type::f32);
  float const lse   = GENERATE(0.0f, -30.0f, -1e6f);
  CAPTURE(spec.out_type, lse);
  short_heads partials(spec);
  partials.lse_at(1, 2, 3)     = lse;
  partials.out_at(1, 2, 3, 77) = infinity;
  partials.out_at(1, 2, 3, 78) = -infinity;
  // Infinities of both signs have no sum.
  partials.out_at(0, 2, 3, 79) = infinity;
  partials.out_at(1, 2, 3, 79) = -infinity;
  require_right(partials);
}

TEST_CASE("merging is repeatable, and empties change no bit of it", "[merge][bits]") {
  merge_spec spec;
  spec.num_partials = 5;
  spec.empty        = 0.2;
  short_heads const partials(spec);
  short_run call(partials);
  REQUIRE(call.run() == status::ok);
  std::vector<unsigned char> const bytes = call.result_bytes();
  for (int run = 1; run < 20; ++run) {
    REQUIRE(call.run() == status::ok);
    REQUIRE(call.result_bytes() == bytes);
  }
  // The same partials with empty ones between and after them.
  spec.num_partials = 10;
  spec.empty        = 1.0;
  short_heads spread(spec);
  for (int i = 0; i < partials.spec.num_partials; ++i) {
    for (int item = 0; item < spec.num_rows * spec.num_heads; ++item) {
      int const row = item / spec.num_heads, head = item % spec.num_heads;
      short_heads from                = partials;
      spread.lse_at(2 * i, row, head) = from.lse_at(i, row, head);
      for (int dim = 0; dim < short_head_policy::head_dim; ++dim) {
        spread.out_at(2 * i, row, head, dim) = from.out_at(i, row, head, dim);
      }
    }
  }
  short_run with_empties(spread);
  REQUIRE(with_empties.run() == status::ok);
  CHECK(with_empties.result_bytes() == bytes);
}

TEST_CASE("merging takes more rows than a grid's second axis could hold", "[merge][large]") {
  merge_spec spec;
  spec.num_rows     = test_size(70000, 700);
  spec.num_heads    = 3;
  spec.num_partials = 2;
  spec.empty        = 0.2;
  merge_run<wide_page_policy> call{host_partials<wide_page_policy::head_dim>(spec)};
  REQUIRE(call.run() == status::ok);
  REQUIRE(call.faults() == "");
}

namespace {

//! Merges after `far` took the place of one of the arrays.
void require_right(merge_run<wide_page_policy>& call, partial_view const& partials,
                   pageunion::output_view const& out, pageunion::lse_view const& lse,
                   far_array const& far) {
  if (!far.exists()) {
    WARN("skipped: the device has too little memory");
    return;
  }
  REQUIRE(pageunion::merge_partials<geometry<wide_page_policy>>(partials, 2, 2, 2, out, lse,
                                                                nullptr) == status::ok);
  far.copy_back();
  CHECK(call.faults() == "");
}

}  // namespace

TEST_CASE("partials, rows and heads may lie 2^32 elements apart", "[merge][far]") {
  merge_spec spec;
  spec.num_partials = 2;
  spec.num_rows     = 2;
  spec.num_heads    = 2;
  struct array_axis {
    char const* name;
    std::size_t axis;
  };
  auto const generated = GENERATE(
      array_axis{"partial out", 0}, array_axis{"partial out", 1}, array_axis{"partial out", 2},
      array_axis{"partial lse", 0}, array_axis{"partial lse", 1}, array_axis{"partial lse", 2},
      array_axis{"out", 0}, array_axis{"out", 1}, array_axis{"lse", 0}, array_axis{"lse", 1});
  std::string const name = generated.name;
  std::size_t const axis = generated.axis;
  CAPTURE(name, axis);
  merge_run<wide_page_policy> call{host_partials<wide_page_policy::head_dim>(spec)};
  call.poison();
  partial_view from          = call.view();
  pageunion::output_view out = call.out_view();
  pageunion::lse_view lse    = call.lse_result_view();
  constexpr int head_dim     = wide_page_policy::head_dim;
  if (name == "partial out") {
    far_array const far(
        from.out,
        {{2, &from.out_partial_stride}, {2, &from.out_row_stride}, {2, &from.out_head_stride}},
        axis, head_dim, sizeof(float));
    require_right(call, from, out, lse, far);
  } else if (name == "partial lse") {
    far_array const far(
        from.lse,
        {{2, &from.lse_partial_stride}, {2, &from.lse_row_stride}, {2, &from.lse_head_stride}},
        axis, 1, sizeof(float));
    require_right(call, from, out, lse, far);
  } else if (name == "out") {
    far_array const far(out.data, {{2, &out.row_stride}, {2, &out.head_stride}}, axis, head_dim,
                        sizeof(float));
    require_right(call, from, out, lse, far);
  } else {
    far_array const far(lse.data, {{2, &lse.row_stride}, {2, &lse.head_stride}}, axis, 1,
                        sizeof(float));
    require_right(call, from, out, lse, far);
  }
}

TEST_CASE("a captured merging replays with what the partials hold then", "[merge][graph]") {
  merge_spec spec;
  short_run call{short_heads(spec)};
  captured_graph graph([&](cudaStream_t stream) { return call.enqueue(stream); });
  REQUIRE(graph.captured() == status::ok);
  for (unsigned seed = 2; seed < 5; ++seed) {
    spec.seed  = seed;
    spec.empty = 0.3;
    call.upload(short_heads(spec));
    call.poison();
    graph.replay();
    REQUIRE(call.faults() == "");
  }
}

namespace {

//! Shard `shard` of `num_shards` of a problem's cache: every num_shards-th cache block is mapped.
host_problem shard_of(host_problem const& p, int shard, int num_shards) {
  host_problem part = p;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(p.block_entries.size()); ++i) {
    if (i % p.table_stride % num_shards != shard) {
      part.block_entries[static_cast<std::size_t>(i)] = -1;
    }
  }
  return part;
}

}  // namespace

TEST_CASE("the merged results of a cache's shards are those of the whole cache", "[merge]") {
  using G              = geometry<short_partition_policy>;
  int const num_shards = GENERATE(2, 3, 4);
  log_base const base  = GENERATE(log_base::natural, log_base::two);
  problem_spec spec    = pageunion::test::spec_of<short_partition_policy>();
  spec.kind =
      base == log_base::two ? pageunion::selection_kind::pages : pageunion::selection_kind::tokens;
  spec.num_rows        = 7;
  spec.num_requests    = 3;
  spec.min_length      = 0;
  spec.max_length      = 400;
  spec.num_kv_heads    = 2;
  spec.pages_per_row   = 40;
  spec.padding_rows    = 0.1;
  spec.unmapped_blocks = 0.1;
  CAPTURE(num_shards, base);
  host_problem const p = make_problem(spec);
  auto const num_heads = static_cast<std::int64_t>(p.num_heads());
  partial_view partials;
  partials.base               = base;
  partials.out_head_stride    = spec.head_dim;
  partials.out_row_stride     = num_heads * spec.head_dim;
  partials.out_partial_stride = spec.num_rows * partials.out_row_stride;
  partials.lse_row_stride     = num_heads;
  partials.lse_partial_stride = spec.num_rows * num_heads;
  auto const floats           = [&](std::int64_t of_partial) {
    return static_cast<std::size_t>(num_shards * of_partial) * sizeof(float);
  };
  device_array out(floats(partials.out_partial_stride));
  device_array lse(floats(partials.lse_partial_stride));
  partials.out = out.as<float>();
  partials.lse = lse.as<float>();
  for (int shard = 0; shard < num_shards; ++shard) {
    pageunion::test::row_run<short_partition_policy> call(shard_of(p, shard, num_shards));
    pageunion::attention_operands operands = call.device().operands();
    operands.out = {out.as<float>() + shard * partials.out_partial_stride, element_type::f32,
                    partials.out_row_stride, partials.out_head_stride};
    operands.lse = {lse.as<float>() + shard * partials.lse_partial_stride, base, num_heads, 1};
    REQUIRE(pageunion::row_attention<G>(call.device().rows(), call.device().selected(), operands,
                                        call.partials(), nullptr, nullptr) == status::ok);
    pageunion::test::require_cuda(cudaDeviceSynchronize(), "row_attention");
  }
  pageunion::test::device_problem whole(p);
  REQUIRE(pageunion::merge_partials<G>(partials, num_shards, spec.num_rows, p.num_heads(),
                                       whole.operands().out, whole.operands().lse,
                                       nullptr) == status::ok);
  std::vector<std::int32_t> rows(static_cast<std::size_t>(spec.num_rows));
  std::iota(rows.begin(), rows.end(), 0);
  CHECK(pageunion::test::faults_of_rows(whole, rows) == "");
}

namespace {

using pageunion::lse_view;
using pageunion::output_view;
using pageunion::test::move_bytes;
using pageunion::test::pretended_address;

//! The arguments of a call that is right in every respect.
struct merge_arguments {
  partial_view partials;
  int num_partials = 3;
  int num_rows     = 20;
  int num_heads    = 12;
  output_view out;
  lse_view lse;
};

merge_arguments good_merge() {
  merge_arguments call;
  call.partials.out                = pretended_address<float>(0);
  call.partials.lse                = pretended_address<float>(1);
  call.partials.out_head_stride    = 128;
  call.partials.out_row_stride     = 12 * 128;
  call.partials.out_partial_stride = 20 * 12 * 128;
  call.partials.lse_row_stride     = 12;
  call.partials.lse_partial_stride = 20 * 12;
  call.out.data                    = pretended_address<void>(2);
  call.out.head_stride             = 128;
  call.out.row_stride              = 12 * 128;
  call.lse.data                    = pretended_address<float>(3);
  call.lse.row_stride              = 12;
  return call;
}

//! What merge_partials() answers under capture, as text. Whatever it enqueued beside an error would touch
//! the pretended addresses when it is replayed.
std::string answer_to(merge_arguments const& call) {
  status answer = status::ok;
  captured_graph graph([&](cudaStream_t stream) {
    answer = pageunion::merge_partials<geometry<short_head_policy>>(
        call.partials, call.num_partials, call.num_rows, call.num_heads, call.out, call.lse,
        stream);
    return answer;
  });
  if (answer != status::ok) {
    graph.replay();
  }
  return to_string(answer);
}

struct bad_merge {
  char const* what;
  status expected;
  void (*spoil)(merge_arguments&);
};

void check_answers(std::vector<bad_merge> const& calls) {
  for (bad_merge const& bad : calls) {
    merge_arguments call = good_merge();
    bad.spoil(call);
    CAPTURE(bad.what);
    CHECK(answer_to(call) == to_string(bad.expected));
  }
}

}  // namespace

TEST_CASE("merging names a bad argument and enqueues nothing", "[merge][arguments]") {
  REQUIRE(answer_to(good_merge()) == "ok");
  using call         = merge_arguments&;
  constexpr auto far = std::numeric_limits<std::int64_t>::max() / 8 * 8;
  check_answers({
      {"rows are negative", status::invalid_num_rows, [](call c) { c.num_rows = -1; }},
      {"no heads", status::invalid_num_heads, [](call c) { c.num_heads = 0; }},
      {"partials are negative", status::invalid_num_partials, [](call c) { c.num_partials = -1; }},
      {"no base of the partials", status::invalid_lse_base,
       [](call c) { c.partials.base = static_cast<log_base>(2); }},
      {"no base of lse", status::invalid_lse_base,
       [](call c) { c.lse.base = static_cast<log_base>(2); }},
      {"no type of out", status::invalid_out_type,
       [](call c) { c.out.type = static_cast<element_type>(2); }},
      {"partial out is null", status::null_partials, [](call c) { c.partials.out = nullptr; }},
      {"partial lse is null", status::null_partials, [](call c) { c.partials.lse = nullptr; }},
      {"out is null", status::null_out, [](call c) { c.out.data = nullptr; }},
      {"partial out is at 8 bytes", status::misaligned_partials,
       [](call c) { move_bytes(c.partials.out, 8); }},
      {"partial lse is at 2 bytes", status::misaligned_partials,
       [](call c) { move_bytes(c.partials.lse, 2); }},
      {"out is at 8 bytes", status::misaligned_out, [](call c) { move_bytes(c.out.data, 8); }},
      {"lse is at 2 bytes", status::misaligned_lse, [](call c) { move_bytes(c.lse.data, 2); }},
      {"partials are 2 elements off", status::invalid_partial_stride,
       [](call c) { c.partials.out_partial_stride = 20 * 12 * 128 + 2; }},
      {"partial rows are negative", status::invalid_partial_stride,
       [](call c) { c.partials.out_row_stride = -1536; }},
      {"partial heads overflow", status::invalid_partial_stride,
       [](call c) { c.partials.out_head_stride = far; }},
      {"partial lse is negative", status::invalid_partial_stride,
       [](call c) { c.partials.lse_head_stride = -1; }},
      {"out's heads overlap", status::invalid_out_stride, [](call c) { c.out.head_stride = 120; }},
      {"lse's rows overlap", status::invalid_lse_stride, [](call c) { c.lse.row_stride = 11; }},
      {"out is partial", status::overlapping_out,
       [](call c) { c.out.data = const_cast<float*>(c.partials.out) + 3 * 20 * 12 * 128 - 4; }},
      {"lse is partial lse", status::overlapping_lse,
       [](call c) { c.lse.data = const_cast<float*>(c.partials.lse) + 719; }},
      {"out is lse", status::overlapping_out,
       [](call c) { c.lse.data = static_cast<float*>(c.out.data); }},
      {"rows times heads overflow", status::invalid_num_rows, [](call c) { c.num_rows = 1 << 28; }},
  });
}

TEST_CASE("merging takes what looks odd and is legal", "[merge][arguments]") {
  using call = merge_arguments&;
  check_answers({
      {"no lse", status::ok, [](call c) { c.lse = {}; }},
      {"no partials, no arrays", status::ok,
       [](call c) {
         c.num_partials = 0;
         c.partials     = {};
       }},
      {"no rows, no arrays", status::ok,
       [](call c) {
         c.num_rows = 0;
         c.partials = {};
         c.out      = {};
         c.lse      = {};
       }},
      {"one partial for all", status::ok,
       [](call c) {
         c.partials.out_partial_stride = 0;
         c.partials.lse_partial_stride = 0;
       }},
      {"lse begins where the partials' ends", status::ok,
       [](call c) { c.lse.data = const_cast<float*>(c.partials.lse) + 720; }},
  });
}
