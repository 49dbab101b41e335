// SPDX-License-Identifier: Apache-2.0
// The planner against a brute-force plan of the host on random adversarial problems: plan and report,
// by the shape in use and by one so small that every problem needs several windows and lists.
#include <cstdint>

#include <pageunion/plan.hpp>

#include "support/catch.hpp"
#include "support/planner_problem.hpp"
#include "support/planner_run.cuh"
#include "support/shape.hpp"
#include "support/test_size.hpp"

namespace {

using namespace pageunion;
using namespace pageunion::test;

// 5 x 420 problems on a GPU.
constexpr std::uint64_t num_problems = test_size(420, 40);

}  // namespace

TEMPLATE_TEST_CASE_SIG("random adversarial problems plan as on the host", "[planner]",
                       ((int PageTokens, int GroupRows, int HeadsPerKv), PageTokens, GroupRows,
                        HeadsPerKv),
                       (4, 8, 6), (4, 8, 4), (8, 8, 2), (4, 16, 6), (16, 4, 4)) {
  for (std::uint64_t seed = 1; seed <= num_problems; ++seed) {
    CAPTURE(seed);
    adversarial_problem const drawn(PageTokens, seed);
    REQUIRE(plan_and_compare<plan_shape<PageTokens, GroupRows, HeadsPerKv>>(drawn.get()) == "");
  }
}
