// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include <pageunion/geometry.hpp>
#include <pageunion/planner.cuh>
#include <pageunion/reference.hpp>

#include "../device_problem.hpp"
#include "../policies.hpp"
#include "../synchronous_tile.cuh"
#include "../workload.hpp"
#include "support/catch.hpp"

namespace bench = pageunion::bench;
using namespace pageunion;

namespace {

//! Largest difference; NaN counts as infinite.
template <class T>
double largest_difference(std::vector<T> const& values, std::vector<double> const& expected) {
  REQUIRE(values.size() == expected.size());
  double largest = 0.0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    double const difference = std::fabs(static_cast<double>(values[i]) - expected[i]);
    largest                 = difference <= largest ? largest : difference;
    largest                 = std::isnan(difference) ? HUGE_VAL : largest;
  }
  return largest;
}

template <class G, int Warps>
void check_against_reference(bench::problem const& p) {
  bench::device_problem const device(p);
  bench::device_plan<G> const planned(p);
  device.poison_outputs();
  REQUIRE(make_plan<G>(device.rows(), device.selected(), device.operands().cache, planned.view(),
                       nullptr, nullptr) == status::ok);
  REQUIRE(bench::synchronous_attention<G, Warps>(p.num_rows, device.operands(), planned.view(),
                                                 nullptr) == status::ok);
  REQUIRE(cudaDeviceSynchronize() == cudaSuccess);

  reference_result expected;
  reference_attention(p.rows(), p.selection_view(), p.operands(), p.page_tokens, expected);
  std::vector<float> out;
  for (__half const value : device.out().download()) {
    out.push_back(__half2float(value));
  }
  // Values of V reach 4: a weight of 1 rounded to half and an output rounded to half.
  CHECK(largest_difference(out, expected.out) < 4.0 / 1024.0);
  CHECK(largest_difference(device.lse().download(), expected.lse) < 1e-5);
}

}  // namespace

TEST_CASE("the synchronous-tile yardstick is right, so that its time means something",
          "[yardstick]") {
  int const num_rows     = GENERATE(1, 8, 19);
  int const context      = GENERATE(19, 700);
  int const num_kv_heads = GENERATE(1, 2);
  auto const layout      = GENERATE(bench::kv_layout::separate, bench::kv_layout::interleaved);
  CAPTURE(num_rows, context, num_kv_heads, static_cast<int>(layout));
  bench::workload_shape shape = *bench::named_workload("verify");
  shape.num_rows              = num_rows;
  shape.context               = context;
  shape.num_kv_heads          = num_kv_heads;
  shape.num_heads             = 6 * num_kv_heads;
  shape.selected_pages        = 40;
  shape.block_tokens          = 36;
  shape.layout                = layout;
  bench::problem const p      = bench::make_workload(shape);
  check_against_reference<geometry<qsa_policy>, 16>(p);
  check_against_reference<geometry<qsa_policy>, 8>(p);
}

TEST_CASE("the yardstick is right with twelve heads on a KV head too", "[yardstick]") {
  bench::workload_shape shape = *bench::named_workload("verify");
  shape.num_rows              = 7;  // the last group is partial
  shape.context               = 700;
  shape.num_kv_heads          = 2;
  shape.num_heads             = 24;
  shape.selected_pages        = 40;
  shape.block_tokens          = 36;
  bench::problem const p      = bench::make_workload(shape);
  check_against_reference<geometry<bench::heads12_policy>, 16>(p);
  check_against_reference<geometry<bench::heads12_policy>, 8>(p);
}
