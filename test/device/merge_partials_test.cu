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

#include <pageunion/merge_partials.cuh>
#include <pageunion/row_attention.cuh>

#include "support/bad_arguments.hpp"
#include "support/captured_graph.cuh"
#include "support/catch.hpp"
#include "support/double_bits.hpp"
#include "support/far_array.cuh"
#include "support/make_problem.hpp"
#include "support/merge_run.cuh"
#include "support/policies.hpp"
#include "support/row_run.cuh"
#include "support/test_size.hpp"

namespace {

using namespace pageunion;
using namespace pageunion::test;

constexpr float infinity     = std::numeric_limits<float>::infinity();
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();

using short_heads = host_partials<short_head_policy::head_dim>;
using short_run   = merge_run<short_head_policy>;

void require_right(short_heads const& partials) { REQUIRE(short_run(partials).run_faults() == ""); }

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
  REQUIRE(call.run_faults() == "");
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
  for (double const value : call.outputs().out()) {
    REQUIRE(is_same_number(value, 0.0));
  }
  for (double const value : call.outputs().lse()) {
    REQUIRE(is_minus_infinity(value));
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
  std::vector<double> const out = call.outputs().out();
  std::vector<double> const lse = call.outputs().lse();
  for (int item = 0; item < spec.num_rows * spec.num_heads; ++item) {
    int const row = item / spec.num_heads, head = item % spec.num_heads;
    CAPTURE(row, head);
    REQUIRE(lse[item] == partials.lse_at(only, row, head));
    for (int dim = 0; dim < short_head_policy::head_dim; ++dim) {
      REQUIRE(out[item * short_head_policy::head_dim + dim] ==
              partials.out_at(only, row, head, dim));
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
  std::vector<unsigned char> const bytes = call.outputs().bytes();
  for (int run = 1; run < 20; ++run) {
    REQUIRE(call.run() == status::ok);
    REQUIRE(call.outputs().bytes() == bytes);
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
  CHECK(with_empties.outputs().bytes() == bytes);
}

TEST_CASE("merging takes more rows than a grid's second axis could hold", "[merge][large]") {
  merge_spec spec;
  spec.num_rows     = test_size(70000, 700);
  spec.num_heads    = 3;
  spec.num_partials = 2;
  spec.empty        = 0.2;
  merge_run<wide_page_policy> call{host_partials<wide_page_policy::head_dim>(spec)};
  REQUIRE(call.run_faults() == "");
}

TEST_CASE("partials, rows and heads may lie 2^32 elements apart", "[merge][far]") {
  merge_spec spec;
  spec.num_partials       = 2;
  spec.num_rows           = 2;
  spec.num_heads          = 2;
  auto const [name, axis] = GENERATE(
      from_range(axes_of({{"partial out", 3}, {"partial lse", 3}, {"out", 2}, {"lse", 2}})));
  CAPTURE(name, axis);
  merge_run<wide_page_policy> call{host_partials<wide_page_policy::head_dim>(spec)};
  call.poison();
  partial_view from      = call.view();
  output_view out        = call.outputs().view_of_out();
  lse_view lse           = call.outputs().view_of_lse();
  constexpr int head_dim = wide_page_policy::head_dim;
  auto const move_far    = [to = axis](auto& data, std::vector<axis_of_call> const& axes, int run) {
    return far_array(data, axes, to, run, sizeof(float));
  };
  far_array const far =
      name == "partial out"   ? move_far(from.out,
                                         {{2, &from.out_partial_stride},
                                          {2, &from.out_row_stride},
                                          {2, &from.out_head_stride}},
                                         head_dim)
      : name == "partial lse" ? move_far(from.lse,
                                         {{2, &from.lse_partial_stride},
                                          {2, &from.lse_row_stride},
                                          {2, &from.lse_head_stride}},
                                         1)
      : name == "out" ? move_far(out.data, {{2, &out.row_stride}, {2, &out.head_stride}}, head_dim)
                      : move_far(lse.data, {{2, &lse.row_stride}, {2, &lse.head_stride}}, 1);
  if (!far.exists()) {
    WARN("skipped: the device has too little memory");
    return;
  }
  REQUIRE(merge_partials<wide_page_policy::head_dim>(from, 2, 2, 2, out, lse, nullptr) ==
          status::ok);
  far.copy_back();
  CHECK(call.faults() == "");
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
  for (std::size_t i = 0; i < p.block_entries.size(); ++i) {
    if (static_cast<int>(i % p.table_stride) % num_shards != shard) {
      part.block_entries[i] = -1;
    }
  }
  return part;
}

}  // namespace

TEST_CASE("the merged results of a cache's shards are those of the whole cache", "[merge]") {
  int const num_shards = GENERATE(2, 3, 4);
  log_base const base  = GENERATE(log_base::natural, log_base::two);
  problem_spec spec    = spec_of<short_partition_policy>();
  spec.kind            = base == log_base::two ? selection_kind::pages : selection_kind::tokens;
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
    row_run<short_partition_policy> call(shard_of(p, shard, num_shards));
    attention_operands operands = call.device().operands();
    operands.out = {out.as<float>() + shard * partials.out_partial_stride, element_type::f32,
                    partials.out_row_stride, partials.out_head_stride};
    operands.lse = {lse.as<float>() + shard * partials.lse_partial_stride, base, num_heads, 1};
    REQUIRE(row_attention<short_partition_policy, policy_tuning>(
                call.device().rows(), call.device().selected(), operands, call.partials(), nullptr,
                nullptr) == status::ok);
    require_cuda(cudaDeviceSynchronize(), "row_attention");
  }
  device_problem whole(p);
  REQUIRE(merge_partials<short_partition_policy::head_dim>(
              partials, num_shards, spec.num_rows, p.num_heads(), whole.operands().out,
              whole.operands().lse, nullptr) == status::ok);
  CHECK(faults_of_rows(whole, all_rows(p)) == "");
}

namespace {

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

status answer_to(merge_arguments const& call) {
  return captured_answer([&](cudaStream_t stream) {
    return merge_partials<short_head_policy::head_dim>(call.partials, call.num_partials,
                                                       call.num_rows, call.num_heads, call.out,
                                                       call.lse, stream);
  });
}

using spoilt_merges = std::vector<spoilt_call<merge_arguments>>;

}  // namespace

TEST_CASE("merging names a bad argument and enqueues nothing", "[merge][arguments]") {
  REQUIRE(answer_to(good_merge()) == status::ok);
  using call = merge_arguments&;
  spoilt_merges const bad_merges{
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
       [](call c) { c.partials.out_head_stride = overflowing_stride; }},
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
  };
  check_answers(bad_merges, good_merge(), answer_to);
}

TEST_CASE("merging takes what looks odd and is legal", "[merge][arguments]") {
  using call = merge_arguments&;
  spoilt_merges const odd_merges{
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
  };
  check_answers(odd_merges, good_merge(), answer_to);
}
