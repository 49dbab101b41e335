// SPDX-License-Identifier: Apache-2.0
#include <pageunion/planner.cuh>
#include <pageunion/policy.hpp>

#include "../policies.hpp"
#include "../synchronous_tile.cuh"
#include "../workload.hpp"
#include "support/attention_run.cuh"
#include "support/catch.hpp"
#include "support/device_plan.cuh"
#include "support/device_problem.cuh"

namespace bench = pageunion::bench;
using namespace pageunion;

namespace {

template <class Policy, int Warps>
void check_against_reference(bench::host_problem const& p) {
  bench::device_problem const device(p);
  bench::device_plan<plan_shape_of<Policy>> const planned(p);
  device.poison_outputs();
  REQUIRE(make_plan(device.rows(), device.selected(), device.operands().cache, planned.view(),
                    nullptr, nullptr) == status::ok);
  REQUIRE(bench::synchronous_attention<Policy, Warps>(p.num_rows, device.operands(), planned.view(),
                                                      nullptr) == status::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(test::faults_of_rows(device, test::all_rows(p)) == "");
}

}  // namespace

TEST_CASE("the synchronous-tile yardstick is right, so that its time means something",
          "[yardstick]") {
  int const num_rows     = GENERATE(1, 8, 19);
  int const context      = GENERATE(19, 700);
  int const num_kv_heads = GENERATE(1, 2);
  auto const layout = GENERATE(bench::kv_layout::separate, bench::kv_layout::interleaved_blocks);
  CAPTURE(num_rows, context, num_kv_heads, static_cast<int>(layout));
  bench::problem_spec shape = *bench::named_workload("verify");
  shape.num_rows            = num_rows;
  bench::set_context(shape, context);
  shape.num_kv_heads          = num_kv_heads;
  shape.pages_per_row         = 40;
  shape.block_tokens          = 36;
  shape.layout                = layout;
  bench::host_problem const p = bench::make_workload(shape);
  check_against_reference<qsa_policy, 16>(p);
  check_against_reference<qsa_policy, 8>(p);
}

TEST_CASE("the yardstick is right with twelve heads on a KV head too", "[yardstick]") {
  bench::problem_spec shape = *bench::named_workload("verify");
  shape.num_rows            = 7;  // the last group is partial
  bench::set_context(shape, 700);
  shape.num_kv_heads          = 2;
  shape.heads_per_kv          = 12;
  shape.pages_per_row         = 40;
  shape.block_tokens          = 36;
  bench::host_problem const p = bench::make_workload(shape);
  check_against_reference<bench::heads12_policy, 16>(p);
  check_against_reference<bench::heads12_policy, 8>(p);
}
