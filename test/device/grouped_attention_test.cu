// SPDX-License-Identifier: Apache-2.0
//! @file
//! grouped_attention() on plans made by the host: every geometry against the reference, what NaN and
//! infinity may reach, and scores that test the online softmax.
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <pageunion/grouped_attention.cuh>

#include "support/bad_arguments.hpp"
#include "support/captured_graph.cuh"
#include "support/catch.hpp"
#include "support/grouped_run.cuh"
#include "support/make_problem.hpp"
#include "support/policies.hpp"

namespace {

using namespace pageunion;
using namespace pageunion::test;

//! One tile of scores per warp at once: twice the steps.
struct one_tile_policy : qsa_policy {
  static constexpr int warp_tiles = 1;
};
//! 8 rows of 8 tokens: masks of 64 bits, one m-tile.
struct page8_policy : qsa_policy {
  static constexpr int page_tokens  = 8;
  static constexpr int heads_per_kv = 2;
  static constexpr int head_dim     = 64;
};

template <class Integer>
std::size_t index(Integer value) {
  return static_cast<std::size_t>(value);
}

template <class Policy>
void require_right(host_problem const& p) {
  grouped_run<Policy> call(p);
  REQUIRE(call.run() == status::ok);
  REQUIRE(call.faults() == "");
}

//! Rows that attend to all tokens that they see, so that the plan's order is the tokens' own.
template <class Policy>
host_problem dense_problem(int num_rows, int length) {
  problem_spec spec  = spec_of<Policy>();
  spec.num_rows      = num_rows;
  spec.lengths       = {length};
  spec.pages_per_row = length;
  return make_problem(spec);
}

//! Gives Q and K one element each that is not 0, so that the score of a row's head and a token is
//! exactly query(row, head) * key(token) * scale. Tokens that nobody attends to stay NaN.
template <class Query, class Key>
void set_scores(host_problem& p, Query query, Key key) {
  int const dims = p.spec.head_dim;
  for (int row = 0; row < p.spec.num_rows; ++row) {
    for (int head = 0; head < p.num_heads(); ++head) {
      auto* const q = p.q_data.data() + row * p.q_row_stride + head * p.q_head_stride;
      std::fill_n(q, dims, half_bits(0.0f));
      q[0] = half_bits(query(row, head));
    }
  }
  for (int token = 0; token < p.sequence_length[0]; ++token) {
    std::uint16_t* const k = p.k_data.data() + element_of(p, p.k_strides, 0, token, 0);
    if (k[0] != half_nan) {
      std::fill_n(k, dims, half_bits(0.0f));
      k[0] = half_bits(key(token));
    }
  }
}

std::uint16_t& v_element(host_problem& p, int token, int dim) {
  return v_begin(p)[element_of(p, p.v_strides, 0, token, 0) + dim];
}
std::uint16_t& k_element(host_problem& p, int token, int dim) {
  return p.k_data[index(element_of(p, p.k_strides, 0, token, 0) + dim)];
}

bool attends_to(host_problem const& p, int row, std::int32_t token) {
  std::vector<std::int32_t> const tokens = p.tokens_of(row);
  return std::find(tokens.begin(), tokens.end(), token) != tokens.end();
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

//! 24 rows that each attend to about half of 200 tokens.
host_problem half_dense_problem() {
  problem_spec spec  = spec_of<qsa_policy>();
  spec.num_rows      = 24;
  spec.lengths       = {200};
  spec.pages_per_row = 50;
  spec.token_density = 0.5;
  return make_problem(spec);
}

}  // namespace

TEMPLATE_TEST_CASE("grouped attention agrees with the reference in every geometry", "[grouped]",
                   qsa_policy, one_tile_policy, short_head_policy, twelve_head_policy,
                   wide_group_policy, page8_policy, wide_page_policy) {
  constexpr int group_rows = TestType::group_rows;
  problem_spec spec        = spec_of<TestType>();
  spec.num_rows            = GENERATE_COPY(0, 1, group_rows - 1, group_rows, group_rows + 1, 45);
  bool const is_sparse     = GENERATE(true, false);
  spec.block_tokens        = 48;
  spec.num_kv_heads        = is_sparse ? 1 : 2;
  spec.token_density       = is_sparse ? 0.4 : 1.0;
  spec.pages_per_row       = is_sparse ? 20 : 90;
  spec.num_requests        = is_sparse ? 1 : 2;
  spec.lengths             = is_sparse ? std::vector<int>{400} : std::vector<int>{500, 37};
  spec.out_type            = is_sparse ? element_type::f16 : element_type::f32;
  spec.lse_base            = is_sparse ? log_base::natural : log_base::two;
  spec.empty_rows          = 0.1;
  spec.padding_rows        = 0.1;
  CAPTURE(spec.num_rows, is_sparse);
  require_right<TestType>(make_problem(spec));
}

TEMPLATE_TEST_CASE("a plan may fill its steps to any extent", "[grouped]", qsa_policy,
                   one_tile_policy, wide_page_policy) {
  constexpr int step_pages = geometry<TestType>::step_pages;
  constexpr int tile_pages = geometry<TestType>::tile_pages;
  problem_spec spec        = spec_of<TestType>();
  spec.pattern             = page_pattern::same;
  spec.pages_per_row =
      GENERATE_COPY(1, tile_pages, tile_pages + 1, step_pages - tile_pages, step_pages,
                    step_pages + 1, 2 * step_pages, 3 * step_pages - 1);
  spec.num_rows = geometry<TestType>::group_rows;
  spec.lengths  = {4 * step_pages * TestType::page_tokens};
  CAPTURE(spec.pages_per_row);
  require_right<TestType>(make_problem(spec));
}

TEST_CASE("grouped attention follows any layout of the cache", "[grouped]") {
  problem_spec spec = spec_of<short_head_policy>();
  spec.layout       = GENERATE(kv_layout::separate, kv_layout::heads_first, kv_layout::mixed,
                               kv_layout::interleaved_blocks, kv_layout::interleaved_tokens);
  spec.block_tokens = GENERATE(16, 36);
  spec.gap          = spec.block_tokens == 36 ? 24 : 0;
  spec.num_kv_heads = 3;
  spec.num_rows     = 11;
  CAPTURE(spec.layout, spec.block_tokens);
  require_right<short_head_policy>(make_problem(spec));
}

TEST_CASE("offsets in the cache exceed 32 bits", "[grouped]") {
  using G           = geometry<short_head_policy>;
  problem_spec spec = spec_of<short_head_policy>();
  spec.num_rows     = 9;
  host_problem near = make_problem(spec);
  grouped_run<short_head_policy> call(near);
  // The same blocks under numbers so high that the cache would take gigabytes. Only the blocks' memory
  // exists; out and lse stand behind it, where the cache, which begins far below, does not reach.
  constexpr std::int32_t first_block = 1 << 22;
  host_problem far                   = near;
  far.num_blocks += first_block;
  for (std::int32_t& entry : far.block_entries) {
    entry += first_block;
  }
  grouped_run<short_head_policy> const far_call(far);
  std::size_t const cache_bytes = near.k_data.size() * sizeof(std::uint16_t);
  std::size_t const out_bytes   = near.out_elements() * near.out_element_bytes();
  std::size_t const lse_bytes   = near.lse_elements() * sizeof(float);
  device_array const pool(2 * cache_bytes + out_bytes + lse_bytes);
  auto* const k          = pool.as<unsigned char>();
  auto* const v          = k + cache_bytes;
  auto* const out        = v + cache_bytes;
  auto* const lse        = out + out_bytes;
  auto const cache_begin = [](unsigned char* first, kv_strides const& strides) {
    REQUIRE(first_block * strides.block > std::int64_t{1} << 32);
    auto const below = static_cast<std::uintptr_t>(first_block * strides.block) * sizeof(__half);
    return reinterpret_cast<__half const*>(reinterpret_cast<std::uintptr_t>(first) - below);
  };
  attention_operands operands = call.device().operands();
  void* const near_out        = operands.out.data;
  void* const near_lse        = operands.lse.data;
  operands.cache.k            = cache_begin(k, operands.cache.k_strides);
  operands.cache.v            = cache_begin(v, operands.cache.v_strides);
  operands.cache.num_blocks   = far.num_blocks;
  operands.out.data           = out;
  operands.lse.data           = reinterpret_cast<float*>(lse);
  auto const copy             = [](void* to, void const* from, std::size_t bytes) {
    require_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), "cudaMemcpy");
  };
  copy(k, near.k_data.data(), cache_bytes);
  copy(v, near.v_data.data(), cache_bytes);
  REQUIRE(grouped_attention<G>(spec.num_rows, operands, far_call.planned(), nullptr) == status::ok);
  copy(near_out, out, out_bytes);
  copy(near_lse, lse, lse_bytes);
  REQUIRE(call.faults() == "");
}

TEST_CASE("lse may be left out", "[grouped]") {
  problem_spec spec = spec_of<qsa_policy>();
  grouped_run<qsa_policy> call(make_problem(spec));
  std::vector<unsigned char> const bytes = call.output_bytes();
  call.device().poison_outputs();
  attention_operands operands = call.device().operands();
  operands.lse                = {};
  REQUIRE(grouped_attention<grouped_run<qsa_policy>::G>(spec.num_rows, operands, call.planned(),
                                                        nullptr) == status::ok);
  std::vector<unsigned char> const without = call.device().output_bytes();
  std::size_t const out_bytes              = bytes.size() - 4 * call.device().host().lse_elements();
  REQUIRE(std::equal(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(out_bytes),
                     without.begin()));
  REQUIRE(std::all_of(without.begin() + static_cast<std::ptrdiff_t>(out_bytes), without.end(),
                      [](unsigned char byte) { return byte == 0xff; }));
}

TEST_CASE("an empty row is +0 and -inf, alone, in its group and in a group of its own",
          "[grouped]") {
  problem_spec spec = spec_of<qsa_policy>();
  spec.num_rows     = 27;
  host_problem p    = make_problem(spec);
  for (int row = 0; row < spec.num_rows; ++row) {
    // Group 1 is empty, the last row of the last group too.
    if (row / 8 == 1 || row % 5 == 0 || row == 26) {
      p.row_request[index(row)] = -1;
    }
  }
  poison_unselected(p);
  grouped_run<qsa_policy> call(p);
  REQUIRE(call.run() == status::ok);
  REQUIRE(call.faults() == "");
  std::vector<double> const out = call.device().out();
  std::vector<double> const lse = call.device().lse();
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::size_t const head = i / index(spec.head_dim);
    if (p.row_request[head / 6] < 0) {
      REQUIRE(out[i] == 0.0);
      REQUIRE(!std::signbit(out[i]));
      REQUIRE(lse[head] == -std::numeric_limits<double>::infinity());
    }
  }
}

TEST_CASE("Inf and NaN of V reach the rows that attend to them, and no others",
          "[grouped][special]") {
  host_problem const clean               = half_dense_problem();
  std::vector<unsigned char> const bytes = grouped_run<qsa_policy>(clean).output_bytes();
  bool const are_in_one_step             = GENERATE(true, false);
  CAPTURE(are_in_one_step);
  int const far  = are_in_one_step ? 9 : 160;
  host_problem p = clean;
  // Infinities of one sign, of both, and NaN; in elements of several warps.
  v_element(p, 5, 3)       = half_infinity;
  v_element(p, far, 3)     = half_infinity;
  v_element(p, 6, 70)      = half_infinity;
  v_element(p, far, 70)    = half_infinity | 0x8000;
  v_element(p, 7, 200)     = half_nan;
  v_element(p, far, 255)   = half_infinity | 0x8000;
  std::int32_t const all[] = {5, 6, 7, far};
  for (int row = 0; row < p.spec.num_rows; row += 3) {
    // Every third row attends to none of them.
    auto const entries = p.entries.begin() + row * p.entry_stride;
    for (std::int32_t const token : all) {
      std::replace(entries, entries + p.width, token, -1);
    }
  }
  host_problem same_selection = clean;
  same_selection.entries      = p.entries;
  grouped_run<qsa_policy> finite(same_selection);
  grouped_run<qsa_policy> call(p);
  std::vector<unsigned char> const expected = finite.output_bytes();
  std::vector<unsigned char> const found    = call.output_bytes();
  REQUIRE(call.faults() == "");
  int num_reached = 0;
  for (int row = 0; row < p.spec.num_rows; ++row) {
    bool const is_reached = std::any_of(std::begin(all), std::end(all), [&](std::int32_t token) {
      return attends_to(p, row, token);
    });
    num_reached += is_reached ? 1 : 0;
    CAPTURE(row, is_reached);
    REQUIRE((bytes_of_row(found, p, row) == bytes_of_row(expected, p, row)) == !is_reached);
  }
  REQUIRE(num_reached > 4);
}

TEST_CASE("NaN and Inf of K reach the rows that attend to them, and no others",
          "[grouped][special]") {
  std::uint16_t const special = GENERATE(std::uint16_t{half_nan}, std::uint16_t{half_infinity});
  int const token             = GENERATE(5, 130);
  CAPTURE(special, token);
  host_problem const clean                  = half_dense_problem();
  std::vector<unsigned char> const expected = grouped_run<qsa_policy>(clean).output_bytes();
  host_problem p                            = clean;
  k_element(p, token, 77)                   = special;
  grouped_run<qsa_policy> call(p);
  std::vector<unsigned char> const found = call.output_bytes();
  // An infinite score of a head makes it NaN; one of -inf gives its token no weight.
  REQUIRE(call.faults() == "");
  int num_reached = 0;
  for (int row = 0; row < p.spec.num_rows; ++row) {
    bool const is_reached = attends_to(p, row, token);
    num_reached += is_reached ? 1 : 0;
    CAPTURE(row, is_reached);
    REQUIRE((bytes_of_row(found, p, row) == bytes_of_row(expected, p, row)) == !is_reached);
  }
  REQUIRE(num_reached > 4);
  REQUIRE(num_reached < p.spec.num_rows - 4);
}

TEST_CASE("scores may grow along a row at any pace", "[grouped][softmax]") {
  // In base 2 and per token; a step has 128 tokens, and a reference is moved when it is outgrown by 8.
  float const slope = GENERATE(1.0f / 128, 1.0f / 16, 0.25f, 8.0f, -1.0f / 16, -8.0f);
  CAPTURE(slope);
  host_problem p = dense_problem<qsa_policy>(19, 700);
  p.scale        = std::log(2.0f);
  // Neighbouring heads and rows grow at another pace, fall, or stay.
  constexpr float paces[] = {1.0f, -1.0f, 0.5f, 0.0f, 2.0f, -0.25f, 0.75f};
  set_scores(
      p, [&](int row, int head) { return paces[(row * 6 + head) % 7]; },
      [&](int token) { return slope * static_cast<float>(token); });
  require_right<qsa_policy>(p);
  require_right<one_tile_policy>(p);
}

TEST_CASE("one token may exceed all others, wherever it is", "[grouped][softmax]") {
  int const token = GENERATE(0, 15, 16, 33, 127, 128, 300, 690);
  CAPTURE(token);
  host_problem p = dense_problem<qsa_policy>(10, 700);
  set_scores(
      p, [](int row, int head) { return 1.0f + static_cast<float>(row + head) / 8; },
      [&](int t) { return t == token ? 40.0f : static_cast<float>(t % 5); });
  require_right<qsa_policy>(p);
}

TEST_CASE("an infinite sum stays infinite however its weight shrinks",
          "[grouped][softmax][special]") {
  host_problem p = dense_problem<qsa_policy>(9, 700);
  p.scale        = std::log(2.0f);
  set_scores(
      p, [](int row, int) { return row % 2 == 0 ? 1.0f : -1.0f; },
      [](int token) { return 0.25f * static_cast<float>(token); });
  v_element(p, 2, 5)     = half_infinity;
  v_element(p, 650, 140) = half_infinity | 0x8000;
  require_right<qsa_policy>(p);
}

TEST_CASE("scores may be far from 0", "[grouped][softmax]") {
  float const key     = GENERATE(-50016.0f, 50016.0f, -65504.0f, 65504.0f);
  float const scale   = GENERATE(1.0f, -1.0f, 1e30f);
  log_base const base = GENERATE(log_base::natural, log_base::two);
  CAPTURE(key, scale, base);
  problem_spec spec = spec_of<qsa_policy>();
  spec.num_rows     = 10;
  spec.empty_rows   = 0.2;
  spec.lse_base     = base;
  host_problem p    = make_problem(spec);
  p.scale           = scale;
  set_scores(
      p, [](int, int) { return 2.0f; }, [&](int) { return key; });
  grouped_run<qsa_policy> call(p);
  REQUIRE(call.run() == status::ok);
  REQUIRE(call.faults() == "");
  // All scores of a row are the same, so that its lse is known to a rounding of float.
  std::vector<double> const lse = call.device().lse();
  for (std::size_t i = 0; i < lse.size(); ++i) {
    auto const tokens = static_cast<double>(p.tokens_of(static_cast<int>(i / 6)).size());
    double const expected =
        (2.0 * static_cast<double>(key) * static_cast<double>(scale) + std::log(tokens)) *
        (base == log_base::two ? 1.4426950408889634 : 1.0);
    CAPTURE(i, lse[i], expected);
    if (tokens == 0) {
      REQUIRE(lse[i] == -std::numeric_limits<double>::infinity());
    } else {
      REQUIRE(std::abs(lse[i] - expected) <= std::abs(expected) * 0x1p-21);
    }
  }
}

TEST_CASE("scale may be 0 or negative", "[grouped][softmax]") {
  host_problem p = half_dense_problem();
  p.scale        = GENERATE(0.0f, -0.0625f, -1.0f);
  CAPTURE(p.scale);
  require_right<qsa_policy>(p);
}

TEMPLATE_TEST_CASE("the same call gives the same bits", "[grouped][bits]", qsa_policy,
                   twelve_head_policy) {
  problem_spec spec  = spec_of<TestType>();
  spec.num_rows      = 21;
  spec.pages_per_row = 30;
  spec.token_density = 0.7;
  grouped_run<TestType> call(make_problem(spec));
  std::vector<unsigned char> const first = call.output_bytes();
  REQUIRE(call.output_bytes() == first);
}

TEST_CASE("a captured attention call replays with what the arrays hold then", "[grouped][graph]") {
  problem_spec spec = spec_of<qsa_policy>();
  spec.num_rows     = 21;
  spec.width        = 40;
  spec.lengths      = {190};
  grouped_run<qsa_policy> call(make_problem(spec));
  captured_graph graph([&](cudaStream_t stream) { return call.enqueue(stream); });
  REQUIRE(graph.captured() == status::ok);
  for (unsigned seed = 2; seed < 4; ++seed) {
    spec.seed = seed;
    CAPTURE(seed);
    call.upload(make_problem(spec));
    call.device().poison_outputs();
    graph.replay();
    REQUIRE(call.faults() == "");
  }
}

namespace {

using qsa_plan = plan<geometry<qsa_policy>>;

//! One way to spoil a good plan.
struct bad_plan {
  char const* what;
  status expected;
  void (*spoil)(qsa_plan&, std::int32_t& num_rows);
};

bad_plan const bad_plans[] = {
    {"rows are negative", status::invalid_num_rows, [](qsa_plan&, int& rows) { rows = -1; }},
    {"a group too few", status::invalid_plan_groups, [](qsa_plan& p, int&) { --p.num_groups; }},
    {"a group too many", status::invalid_plan_groups, [](qsa_plan& p, int&) { ++p.num_groups; }},
    {"no room", status::invalid_plan_capacity, [](qsa_plan& p, int&) { p.capacity = -4; }},
    {"half a tile", status::invalid_plan_capacity, [](qsa_plan& p, int&) { p.capacity += 2; }},
    {"no addresses", status::null_plan, [](qsa_plan& p, int&) { p.addresses = nullptr; }},
    {"no masks", status::null_plan, [](qsa_plan& p, int&) { p.masks = nullptr; }},
    {"no counts", status::null_plan, [](qsa_plan& p, int&) { p.num_pages = nullptr; }},
    {"addresses are at 8 bytes", status::misaligned_plan,
     [](qsa_plan& p, int&) { move_bytes(p.addresses, 8); }},
    {"masks are at 4 bytes", status::misaligned_plan,
     [](qsa_plan& p, int&) { move_bytes(p.masks, 4); }},
    {"counts are at 2 bytes", status::misaligned_plan,
     [](qsa_plan& p, int&) { move_bytes(p.num_pages, 2); }},
};

//! True if a status is about what grouped_attention() is given besides the plan.
bool is_about_operands(status s) {
  constexpr status such[] = {status::null_q,
                             status::null_k,
                             status::null_v,
                             status::null_out,
                             status::misaligned_q,
                             status::misaligned_k,
                             status::misaligned_v,
                             status::misaligned_out,
                             status::misaligned_lse,
                             status::invalid_num_heads,
                             status::invalid_num_kv_heads,
                             status::invalid_heads_per_kv,
                             status::invalid_head_dim,
                             status::invalid_num_blocks,
                             status::invalid_block_tokens,
                             status::invalid_q_stride,
                             status::invalid_k_stride,
                             status::invalid_v_stride,
                             status::invalid_out_stride,
                             status::invalid_lse_stride,
                             status::invalid_scale,
                             status::invalid_out_type,
                             status::invalid_lse_base};
  return std::find(std::begin(such), std::end(such), s) != std::end(such);
}

//! Calls with arguments whose memory nobody may touch, and replays what was enqueued.
std::string answer_to(std::int32_t num_rows, attention_operands const& operands,
                      qsa_plan const& planned) {
  status answer = status::ok;
  captured_graph graph([&](cudaStream_t stream) {
    answer = grouped_attention<geometry<qsa_policy>>(num_rows, operands, planned, stream);
    return answer;
  });
  REQUIRE_NOTHROW(graph.replay());
  return to_string(answer);
}

}  // namespace

TEST_CASE("a bad plan or operand is named, nothing is enqueued and outputs stay as they were",
          "[grouped][arguments]") {
  problem_spec spec = spec_of<qsa_policy>();
  spec.num_rows     = 20;
  spec.num_kv_heads = 2;
  grouped_run<qsa_policy> call(make_problem(spec));
  call.device().poison_outputs();
  // Only what is written is real: nothing may read or write anything.
  auto const given = [&] {
    call_arguments arguments    = good_arguments();
    arguments.operands.out.data = call.device().operands().out.data;
    arguments.operands.lse.data = call.device().operands().lse.data;
    return arguments;
  };
  qsa_plan planned;
  planned.addresses  = pretended_address<page_address>(20);
  planned.masks      = pretended_address<std::uint32_t>(21);
  planned.num_pages  = pretended_address<std::int32_t>(22);
  planned.num_groups = 3;
  planned.capacity   = 160;
  for (bad_plan const& bad : bad_plans) {
    qsa_plan spoilt       = planned;
    std::int32_t num_rows = 20;
    bad.spoil(spoilt, num_rows);
    CAPTURE(bad.what);
    CHECK(answer_to(num_rows, given().operands, spoilt) == to_string(bad.expected));
  }
  int num_tried = 0;
  for (bad_argument const& bad : bad_arguments()) {
    if (is_about_operands(bad.expected)) {
      call_arguments arguments = given();
      bad.spoil(arguments);
      CAPTURE(bad.what);
      CHECK(answer_to(20, arguments.operands, planned) == to_string(bad.expected));
      ++num_tried;
    }
  }
  CHECK(num_tried > 30);
  // Outputs on the plan, on inputs and on each other.
  attention_operands operands = given().operands;
  operands.out.data           = planned.masks;
  CHECK(answer_to(20, operands, planned) == to_string(status::overlapping_out));
  operands          = given().operands;
  operands.out.data = const_cast<__half*>(operands.q.data);
  CHECK(answer_to(20, operands, planned) == to_string(status::overlapping_out));
  operands          = given().operands;
  operands.lse.data = reinterpret_cast<float*>(planned.addresses);
  CHECK(answer_to(20, operands, planned) == to_string(status::overlapping_lse));
  operands          = given().operands;
  operands.lse.data = static_cast<float*>(operands.out.data) + 4;
  CHECK(answer_to(20, operands, planned) == to_string(status::overlapping_out));
  REQUIRE(call.device().is_output_untouched());
}
