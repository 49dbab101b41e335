// SPDX-License-Identifier: Apache-2.0
//! @file
//! What the entry points refuse. Needs no GPU: a call that got as far as a launch would answer
//! cuda_error here, or touch addresses that do not exist.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <pageunion/plan.hpp>
#include <pageunion/planner.cuh>
#include <pageunion/prefill.cuh>
#include <pageunion/status.hpp>

#include "support/bad_arguments.hpp"
#include "support/catch.hpp"
#include "support/policies.hpp"

using namespace pageunion::test;
using pageunion::prefill_args;
using pageunion::qsa_policy;
using pageunion::route;
using pageunion::status;

namespace pageunion::test {

//! Of a file of the C++ compiler: good_arguments() by the row route and the bytes of their workspace.
//! @return what can_prefill() says of them and of so many bytes
status make_host_call(prefill_args& args, std::size_t& bytes);

}  // namespace pageunion::test

namespace {

using qsa = pageunion::plan_shape_of<qsa_policy>;

//! Texts, so that a failure says more than a number.
std::string text(status s) { return pageunion::to_string(s); }

__global__ void empty_kernel(int) {}

}  // namespace

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
  REQUIRE(text(make_host_call(args, bytes)) == "ok");
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
              policy_tuning::select<every_row_policy>(700), args_of(most_partitions(8192)),
              info)) == "ok");
  CHECK(info.route == route::grouped);
}

TEST_CASE("make_plan names each bad argument that it is given", "[entry]") {
  auto const answer = [](planned_arguments const& call) {
    return pageunion::make_plan<qsa>(call.rows, call.selected, call.operands.cache, call.planned,
                                     call.report, nullptr);
  };
  using call = planned_arguments&;
  std::vector<spoilt_call<planned_arguments>> const bad_plans{
      {"no masks", status::null_plan, [](call c) { c.planned.masks = nullptr; }},
      {"masks are addresses", status::overlapping_plan,
       [](call c) { c.planned.masks = alias<std::uint32_t>(c.planned.addresses); }},
      {"counts are the last mask", status::overlapping_plan,
       [](call c) { c.planned.num_pages = alias<std::int32_t>(c.planned.masks + 3 * 160 - 1); }},
      {"counts are in row_request", status::overlapping_plan,
       [](call c) { c.planned.num_pages = alias<std::int32_t>(c.rows.row_request); }},
      {"addresses are the tokens", status::overlapping_plan,
       [](call c) { c.planned.addresses = alias<pageunion::page_address>(c.tokens().tokens); }},
      {"masks are the block table", status::overlapping_plan,
       [](call c) { c.planned.masks = alias<std::uint32_t>(c.blocks().table); }},
      {"the report is in the addresses", status::overlapping_plan,
       [](call c) { c.report = alias<pageunion::plan_report>(c.planned.addresses); }},
      {"a group too many", status::invalid_plan_groups, [](call c) { ++c.planned.num_groups; }},
      {"a tile too few", status::invalid_plan_capacity,
       [](call c) { c.planned.capacity -= qsa::tile_pages; }},
  };
  planned_arguments const good = good_planned_arguments();
  check_answers(bad_blocks(), good, answer);
  check_answers(bad_selections(), good, answer);
  check_answers(bad_plans, good, answer);
}

TEST_CASE("a launch says whether the device is too small or something else is wrong", "[entry]") {
  int devices           = 0;
  bool const has_device = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  CHECK(
      text(pageunion::detail::launch(&empty_kernel, 1, 1, 32, std::size_t{1} << 20, nullptr, 0)) ==
      text(has_device ? status::unsupported_device : status::cuda_error));
}
