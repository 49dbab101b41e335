// SPDX-License-Identifier: Apache-2.0
//! @file
//! What the entry points refuse. Needs no GPU: a call that got as far as a launch would answer
//! cuda_error here, or touch addresses that do not exist.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include <pageunion/geometry.hpp>
#include <pageunion/grouped_attention.cuh>
#include <pageunion/planner.cuh>
#include <pageunion/prefill.cuh>
#include <pageunion/status.hpp>

#include "support/bad_arguments.hpp"
#include "support/catch.hpp"
#include "support/policies.hpp"

using pageunion::prefill_args;
using pageunion::qsa_policy;
using pageunion::route;
using pageunion::status;
using pageunion::test::bad_argument;
using pageunion::test::bad_arguments;
using pageunion::test::call_arguments;
using pageunion::test::good_arguments;

namespace {

using qsa = pageunion::geometry<qsa_policy>;

//! Texts, so that a failure says more than a number.
std::string text(status s) { return pageunion::to_string(s); }

prefill_args args_of(call_arguments const& call) {
  prefill_args args;
  args.rows      = call.rows;
  args.selected  = call.selected;
  args.attention = call.operands;
  args.report    = call.report;
  return args;
}

__global__ void empty_kernel(int) {}

//! A plan of 20 rows in memory that nobody may follow, of no more than the least capacity.
pageunion::plan<qsa> pretended_plan() {
  pageunion::plan<qsa> planned;
  planned.addresses  = pageunion::test::pretended_address<pageunion::page_address>(20);
  planned.masks      = pageunion::test::pretended_address<std::uint32_t>(21);
  planned.num_pages  = pageunion::test::pretended_address<std::int32_t>(22);
  planned.num_groups = 3;
  planned.capacity   = 160;
  return planned;
}

}  // namespace

TEST_CASE("can_prefill answers without a GPU", "[entry]") {
  call_arguments const call = good_arguments();
  std::size_t bytes         = 0;
  REQUIRE(text(pageunion::workspace_bytes<qsa_policy>(args_of(call), bytes)) == "ok");
  CHECK(bytes > 0);
  CHECK(text(pageunion::can_prefill<qsa_policy>(args_of(call), call.workspace, bytes)) == "ok");
  CHECK(pageunion::can_prefill<qsa_policy>(args_of(call), call.workspace, bytes - 1) ==
        status::workspace_too_small);
}

TEST_CASE("QSA's workspace has the size that examples/README.md gives", "[entry]") {
  struct row_count {
    std::int32_t rows;
    double megabytes;
  };
  auto const [rows, megabytes] =
      GENERATE(row_count{512, 12.6}, row_count{1024, 25.3}, row_count{1025, 6.4},
               row_count{2048, 12.7}, row_count{8192, 50.7});
  call_arguments call                   = good_arguments();
  call.rows.num_rows                    = rows;
  call.selected.tokens.width            = 2051;
  call.selected.tokens.row_stride       = 2051;
  call.selected.tokens.max_pages        = 513;
  call.operands.q.num_heads             = 6;
  call.operands.cache.num_kv_heads      = 1;
  call.operands.cache.blocks.width      = 4096;
  call.operands.cache.blocks.row_stride = 4096;
  std::size_t bytes                     = 0;
  REQUIRE(text(pageunion::workspace_bytes<qsa_policy>(args_of(call), bytes)) == "ok");
  CAPTURE(rows);
  CHECK(std::abs(static_cast<double>(bytes) * 1e-6 - megabytes) < 0.05);
}

TEST_CASE("can_prefill and prefill name each bad argument", "[entry]") {
  auto const wanted = GENERATE(route::automatic, route::grouped, route::row);
  for (bad_argument const& bad : bad_arguments()) {
    call_arguments call = good_arguments();
    bad.spoil(call);
    CAPTURE(wanted, bad.what);
    prefill_args args = args_of(call);
    args.route        = wanted;
    CHECK(text(pageunion::can_prefill<qsa_policy>(args, call.workspace, call.workspace_bytes)) ==
          text(bad.expected));
    CHECK(text(pageunion::prefill<qsa_policy>(args, call.workspace, call.workspace_bytes,
                                              nullptr)) == text(bad.expected));
  }
}

TEST_CASE("can_prefill lets pass what looks odd and is legal", "[entry]") {
  auto const wanted = GENERATE(route::automatic, route::grouped, route::row);
  for (bad_argument const& odd : pageunion::test::legal_oddities()) {
    call_arguments call = good_arguments();
    odd.spoil(call);
    CAPTURE(wanted, odd.what);
    prefill_args args = args_of(call);
    args.route        = wanted;
    CHECK(text(pageunion::can_prefill<qsa_policy>(args, call.workspace, call.workspace_bytes)) ==
          "ok");
  }
}

TEST_CASE("automatic routing weighs rows and KV heads against SMs and requests", "[entry]") {
  struct call_shape {
    std::int32_t rows, requests, kv_heads;
    bool by_row;
  };
  // 80 SMs take 192 pairs of one request. Of 64 requests of 5 rows, a group has 1 + 7 * 63 / 320.
  auto const shape = GENERATE(
      call_shape{0, 0, 1, true}, call_shape{192, 1, 1, true}, call_shape{193, 1, 1, false},
      call_shape{96, 1, 2, true}, call_shape{97, 1, 2, false}, call_shape{320, 64, 1, true},
      call_shape{320, 16, 1, false}, call_shape{193, 0, 1, false}, call_shape{1024, 1024, 1, true},
      call_shape{1024, 1 << 30, 1, true}, call_shape{1024, 1024, 2, false});
  CAPTURE(shape.rows, shape.requests, shape.kv_heads);
  CHECK(pageunion::detail::is_faster_by_row<qsa_policy>(shape.rows, shape.requests, shape.kv_heads,
                                                        80) == shape.by_row);
}

TEST_CASE("prefill refuses a route that does not exist", "[entry]") {
  call_arguments const call = good_arguments();
  prefill_args args         = args_of(call);
  args.route                = static_cast<route>(GENERATE(-1, 100));
  CHECK(pageunion::can_prefill<qsa_policy>(args, call.workspace, call.workspace_bytes) ==
        status::invalid_route);
  CHECK(pageunion::prefill<qsa_policy>(args, call.workspace, call.workspace_bytes, nullptr) ==
        status::invalid_route);
}

TEST_CASE("more partitions of rows than a grid holds are refused on the row route", "[entry]") {
  // 70,000 rows of 65,536 partitions: 2^32 CTAs and more.
  call_arguments call                   = good_arguments();
  call.rows.num_rows                    = 70000;
  call.selected.tokens.width            = 1 << 26;
  call.selected.tokens.row_stride       = 1 << 26;
  call.selected.tokens.max_pages        = 0;
  call.operands.cache.block_tokens      = 1 << 20;
  call.operands.cache.blocks.width      = 2000;
  call.operands.cache.blocks.row_stride = 2000;
  call.operands.cache.k_strides.block   = std::int64_t{512} << 20;
  call.operands.cache.v_strides.block   = std::int64_t{512} << 20;
  prefill_args args                     = args_of(call);
  std::size_t bytes                     = 0;
  args.route                            = route::row;
  CHECK(text(pageunion::workspace_bytes<qsa_policy>(args, bytes)) ==
        text(status::invalid_num_rows));
  CHECK(bytes == 0);
  args.route = route::grouped;
  CHECK(text(pageunion::workspace_bytes<qsa_policy>(args, bytes)) == "ok");
}

TEST_CASE("prefill leaves its info alone when it refuses", "[entry]") {
  call_arguments const call   = good_arguments();
  char const* const untouched = "untouched";
  pageunion::prefill_info info;
  info.reason = untouched;
  CHECK(pageunion::prefill<qsa_policy>(args_of(call), nullptr, 0, nullptr, &info) ==
        status::null_workspace);
  CHECK(info.reason == untouched);
}

TEST_CASE("a call for another policy's shapes is refused", "[entry]") {
  using pageunion::test::short_head_policy;
  call_arguments call = good_arguments();
  std::size_t bytes   = 77;
  CHECK(pageunion::workspace_bytes<short_head_policy>(args_of(call), bytes) ==
        status::invalid_head_dim);
  call.operands.q.head_dim = 128;
  CHECK(pageunion::workspace_bytes<short_head_policy>(args_of(call), bytes) ==
        status::invalid_heads_per_kv);
  CHECK(bytes == 77);
}

TEST_CASE("make_plan names each bad argument that it is given", "[entry]") {
  std::set<status> const given{status::null_selection,           status::null_row_request,
                               status::null_row_position,        status::null_sequence_length,
                               status::null_block_table,         status::misaligned_selection,
                               status::misaligned_batch,         status::misaligned_report,
                               status::invalid_num_rows,         status::invalid_num_requests,
                               status::invalid_num_blocks,       status::invalid_block_tokens,
                               status::invalid_table_width,      status::invalid_selection_width,
                               status::invalid_max_pages,        status::invalid_block_table_stride,
                               status::invalid_selection_stride, status::invalid_count_stride,
                               status::invalid_selection_kind};
  for (bad_argument const& bad : bad_arguments()) {
    call_arguments call = good_arguments();
    bad.spoil(call);
    if (given.count(bad.expected) != 0) {
      CAPTURE(bad.what);
      CHECK(text(pageunion::make_plan<qsa>(call.rows, call.selected, call.operands.cache,
                                           pretended_plan(), call.report, nullptr)) ==
            text(bad.expected));
    }
  }
  call_arguments const call    = good_arguments();
  pageunion::plan<qsa> planned = pretended_plan();
  planned.masks                = nullptr;
  CHECK(pageunion::make_plan<qsa>(call.rows, call.selected, call.operands.cache, planned, nullptr,
                                  nullptr) == status::null_plan);
}

TEST_CASE("make_plan refuses a plan that another array overlaps, or that is too small", "[entry]") {
  using qsa_plan = pageunion::plan<qsa>;
  struct bad_plan {
    char const* what;
    status expected;
    void (*spoil)(call_arguments&, qsa_plan&);
  };
  bad_plan const all[] = {
      {"masks are addresses", status::overlapping_plan,
       [](call_arguments&, qsa_plan& p) {
         p.masks = reinterpret_cast<std::uint32_t*>(p.addresses);
       }},
      {"counts are the last mask", status::overlapping_plan,
       [](call_arguments&, qsa_plan& p) {
         p.num_pages = reinterpret_cast<std::int32_t*>(p.masks + 3 * 160 - 1);
       }},
      {"counts are in row_request", status::overlapping_plan,
       [](call_arguments& c, qsa_plan& p) {
         p.num_pages = const_cast<std::int32_t*>(c.rows.row_request);
       }},
      {"addresses are the tokens", status::overlapping_plan,
       [](call_arguments& c, qsa_plan& p) {
         p.addresses = reinterpret_cast<pageunion::page_address*>(
             const_cast<std::int32_t*>(c.selected.tokens.tokens));
       }},
      {"masks are the block table", status::overlapping_plan,
       [](call_arguments& c, qsa_plan& p) {
         p.masks = reinterpret_cast<std::uint32_t*>(
             const_cast<std::int32_t*>(c.operands.cache.blocks.table));
       }},
      {"the report is in the addresses", status::overlapping_plan,
       [](call_arguments& c, qsa_plan& p) {
         c.report = reinterpret_cast<pageunion::plan_report*>(p.addresses);
       }},
      {"the report is in row_position", status::overlapping_report,
       [](call_arguments& c, qsa_plan&) {
         c.report = reinterpret_cast<pageunion::plan_report*>(
             const_cast<std::int64_t*>(c.rows.row_position));
       }},
      {"a tile too few", status::invalid_plan_capacity,
       [](call_arguments&, qsa_plan& p) { p.capacity -= qsa::tile_pages; }},
  };
  for (bad_plan const& bad : all) {
    call_arguments call = good_arguments();
    qsa_plan planned    = pretended_plan();
    bad.spoil(call, planned);
    CAPTURE(bad.what);
    CHECK(text(pageunion::make_plan<qsa>(call.rows, call.selected, call.operands.cache, planned,
                                         call.report, nullptr)) == text(bad.expected));
  }
}

TEST_CASE("a launch says whether the device is too small or something else is wrong", "[entry]") {
  int devices           = 0;
  bool const has_device = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  CHECK(
      text(pageunion::detail::launch(&empty_kernel, 1, 1, 32, std::size_t{1} << 20, nullptr, 0)) ==
      text(has_device ? status::unsupported_device : status::cuda_error));
}

TEST_CASE("grouped_attention names each bad argument that it is given", "[entry]") {
  std::set<status> const given{status::null_q,
                               status::null_k,
                               status::null_v,
                               status::null_out,
                               status::null_block_table,
                               status::misaligned_q,
                               status::misaligned_k,
                               status::misaligned_v,
                               status::misaligned_out,
                               status::misaligned_lse,
                               status::invalid_num_rows,
                               status::invalid_num_heads,
                               status::invalid_num_kv_heads,
                               status::invalid_heads_per_kv,
                               status::invalid_head_dim,
                               status::invalid_num_blocks,
                               status::invalid_block_tokens,
                               status::invalid_table_width,
                               status::invalid_q_stride,
                               status::invalid_k_stride,
                               status::invalid_v_stride,
                               status::invalid_out_stride,
                               status::invalid_lse_stride,
                               status::invalid_scale,
                               status::invalid_out_type,
                               status::invalid_lse_base};
  std::set<std::string> const overlaps{"out is q", "out ends in k",
                                       "out begins in the last element of v", "out is lse"};
  for (bad_argument const& bad : bad_arguments()) {
    call_arguments call = good_arguments();
    bad.spoil(call);
    if (given.count(bad.expected) != 0 || overlaps.count(bad.what) != 0) {
      CAPTURE(bad.what);
      CHECK(text(pageunion::grouped_attention<qsa>(call.rows.num_rows, call.operands,
                                                   pretended_plan(), nullptr)) ==
            text(bad.expected));
    }
  }
  call_arguments call          = good_arguments();
  pageunion::plan<qsa> planned = pretended_plan();
  planned.addresses            = nullptr;
  CHECK(pageunion::grouped_attention<qsa>(20, call.operands, planned, nullptr) ==
        status::null_plan);
  CHECK(pageunion::grouped_attention<qsa>(28, call.operands, pretended_plan(), nullptr) ==
        status::invalid_plan_groups);
  call.operands.out.data = pretended_plan().masks;
  CHECK(pageunion::grouped_attention<qsa>(20, call.operands, pretended_plan(), nullptr) ==
        status::overlapping_out);
}
