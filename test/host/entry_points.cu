// SPDX-License-Identifier: Apache-2.0
//! @file
//! What the entry points refuse. Needs no GPU: a call that got as far as a launch would answer
//! cuda_error here, or touch addresses that do not exist.
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>

#include <pageunion/grouped_attention.cuh>
#include <pageunion/plan.hpp>
#include <pageunion/planner.cuh>
#include <pageunion/prefill.cuh>
#include <pageunion/status.hpp>

#include "support/bad_arguments.hpp"
#include "support/catch.hpp"
#include "support/host_call.hpp"
#include "support/policies.hpp"

using pageunion::prefill_args;
using pageunion::qsa_policy;
using pageunion::route;
using pageunion::status;
using pageunion::test::bad_argument;
using pageunion::test::bad_arguments;
using pageunion::test::call_arguments;
using pageunion::test::every_row_policy;
using pageunion::test::good_arguments;
using pageunion::test::policy_tuning;

namespace {

using qsa = pageunion::plan_shape_of<qsa_policy>;

//! Texts, so that a failure says more than a number.
std::string text(status s) { return pageunion::to_string(s); }

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

TEST_CASE("prefill names each bad argument", "[entry]") {
  auto const wanted = GENERATE(route::automatic, route::grouped, route::row);
  for (bad_argument const& bad : bad_arguments()) {
    call_arguments call = good_arguments();
    bad.spoil(call);
    CAPTURE(wanted, bad.what);
    CHECK(text(pageunion::prefill<qsa_policy>(args_of(call, wanted), call.workspace,
                                              call.workspace_bytes, nullptr)) ==
          text(bad.expected));
  }
}

TEST_CASE("prefill refuses a route that does not exist, and leaves its info alone", "[entry]") {
  call_arguments const call   = good_arguments();
  char const* const untouched = "untouched";
  pageunion::prefill_info info;
  info.reason = untouched;
  CHECK(pageunion::prefill<qsa_policy>(args_of(call, static_cast<route>(GENERATE(-1, 100))),
                                       call.workspace, call.workspace_bytes, nullptr,
                                       &info) == status::invalid_route);
  CHECK(info.reason == untouched);
}

TEST_CASE("a host file's call is the one that prefill gets", "[entry]") {
  call_arguments const call = good_arguments();
  prefill_args args;
  std::size_t bytes = 0, own_bytes = 0;
  REQUIRE(text(pageunion::test::make_host_call(args, bytes)) == "ok");
  REQUIRE(text(pageunion::workspace_bytes<qsa_policy>(args, own_bytes)) == "ok");
  CHECK(bytes == own_bytes);
  CHECK(args.route == route::row);
  CHECK(args.report == call.report);
  CHECK(pageunion::prefill<qsa_policy>(args, call.workspace, bytes - 1, nullptr) ==
        status::workspace_too_small);
}

TEST_CASE("automatic routing groups rows that row attention cannot index", "[entry]") {
  pageunion::prefill_info info;
  REQUIRE(text(pageunion::detail::choose_route<every_row_policy, policy_tuning>(
              policy_tuning::select<every_row_policy>(700),
              args_of(pageunion::test::most_partitions(8192)), info)) == "ok");
  CHECK(info.route == route::grouped);
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
      CHECK(text(pageunion::grouped_attention<qsa_policy>(call.rows.num_rows, call.operands,
                                                          pretended_plan(), nullptr)) ==
            text(bad.expected));
    }
  }
  call_arguments call          = good_arguments();
  pageunion::plan<qsa> planned = pretended_plan();
  planned.addresses            = nullptr;
  CHECK(pageunion::grouped_attention<qsa_policy>(20, call.operands, planned, nullptr) ==
        status::null_plan);
  CHECK(pageunion::grouped_attention<qsa_policy>(28, call.operands, pretended_plan(), nullptr) ==
        status::invalid_plan_groups);
  call.operands.out.data = pretended_plan().masks;
  CHECK(pageunion::grouped_attention<qsa_policy>(20, call.operands, pretended_plan(), nullptr) ==
        status::overlapping_out);
}
