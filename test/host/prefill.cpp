// SPDX-License-Identifier: Apache-2.0
#include <pageunion/prefill.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>

#include "support/bad_arguments.hpp"
#include "support/catch.hpp"
#include "support/policies.hpp"

using namespace pageunion::test;
using pageunion::can_prefill;
using pageunion::prefill_args;
using pageunion::qsa_policy;
using pageunion::route;
using pageunion::status;
using pageunion::workspace_bytes;

namespace {

//! Texts, so that a failure says more than a number.
std::string text(status s) { return pageunion::to_string(s); }

//! Bytes of a call's workspace, which must be ok.
template <class Policy>
std::size_t required_bytes(prefill_args const& args) {
  std::size_t bytes = 0;
  REQUIRE(text(workspace_bytes<Policy, policy_tuning>(args, bytes)) == "ok");
  return bytes;
}

}  // namespace

TEST_CASE("can_prefill answers without a GPU", "[entry]") {
  call_arguments const call = good_arguments();
  prefill_args const args   = args_of(call);
  std::size_t const bytes   = required_bytes<qsa_policy>(args);
  CHECK(bytes > 0);
  CHECK(text(can_prefill<qsa_policy>(args, call.workspace, bytes)) == "ok");
  CHECK(can_prefill<qsa_policy>(args, call.workspace, bytes - 1) == status::workspace_too_small);
}

TEST_CASE("QSA's workspace has the size that examples/README.md gives", "[entry]") {
  struct row_count {
    std::int32_t rows;
    double megabytes;
  };
  auto const [rows, megabytes] =
      GENERATE(row_count{512, 9.5}, row_count{1024, 18.9}, row_count{2048, 18.9},
               row_count{4096, 25.4}, row_count{8192, 50.7});
  call_arguments call = qsa_arguments();
  call.rows.num_rows  = rows;
  CAPTURE(rows);
  auto const bytes = static_cast<double>(required_bytes<qsa_policy>(args_of(call)));
  CHECK(std::abs(bytes * 1e-6 - megabytes) < 0.05);
}

TEMPLATE_TEST_CASE("what a call needs is enough for every call of fewer rows", "[entry]",
                   qsa_policy, short_partition_policy, every_row_policy) {
  call_arguments call = GENERATE(good_arguments(), qsa_arguments(), most_partitions(0));
  auto const wanted   = GENERATE(route::automatic, route::grouped, route::row);
  bool const by_pages = GENERATE(false, true);
  CAPTURE(wanted, by_pages, call.selected.tokens.width);
  if (by_pages) {
    call.selected.kind             = pageunion::selection_kind::pages;
    call.selected.pages.width      = call.selected.tokens.width / 4;
    call.selected.pages.row_stride = call.selected.pages.width;
  }
  std::size_t largest = 0;
  for (int rows = 0; rows < 100000; rows = rows < 3000 ? rows + 1 : rows + rows / 7) {
    call.rows.num_rows = rows;
    std::size_t bytes  = 0;
    status const sized = workspace_bytes<TestType, policy_tuning>(args_of(call, wanted), bytes);
    if (wanted == route::row && sized == status::invalid_num_rows) {
      break;  // more partitions than a grid holds, for more rows as well
    }
    CAPTURE(rows);
    REQUIRE(text(sized) == "ok");
    REQUIRE(bytes >= largest);
    largest = bytes;
  }
}

TEST_CASE("workspace_bytes looks at shapes alone, can_prefill at pointers too", "[entry]") {
  auto const wanted       = GENERATE(route::automatic, route::grouped, route::row);
  std::size_t const bytes = required_bytes<qsa_policy>(args_of(good_arguments(), wanted));
  CAPTURE(wanted);
  check_answers(bad_arguments(), good_arguments(), [&](call_arguments const& call) {
    return can_prefill<qsa_policy>(args_of(call, wanted), call.workspace, call.workspace_bytes);
  });
  for (bad_argument const& bad : bad_arguments()) {
    call_arguments call = good_arguments();
    bad.spoil(call);
    bool const is_of_shapes =
        bad.expected >= status::invalid_num_rows && bad.expected <= status::invalid_route;
    CAPTURE(bad.what);
    std::size_t found = 77;
    CHECK(text(workspace_bytes<qsa_policy>(args_of(call, wanted), found)) ==
          text(is_of_shapes ? bad.expected : status::ok));
    CHECK(found == (is_of_shapes ? 77 : bytes));
  }
}

TEST_CASE("can_prefill lets pass what looks odd and is legal", "[entry]") {
  auto const wanted = GENERATE(route::automatic, route::grouped, route::row);
  CAPTURE(wanted);
  check_answers(legal_oddities(), good_arguments(), [&](call_arguments const& call) {
    return can_prefill<qsa_policy>(args_of(call, wanted), call.workspace, call.workspace_bytes);
  });
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
  CHECK(pageunion::detail::is_faster_by_row<qsa_policy>(
            pageunion::default_tuning::select<qsa_policy>(700), shape.rows, shape.requests,
            shape.kv_heads, 80) == shape.by_row);
}

TEST_CASE("rows of more partitions than a grid holds are refused on the row route alone",
          "[entry]") {
  call_arguments const most = most_partitions(8191);
  call_arguments const more = most_partitions(8192);
  std::size_t bytes         = 0;
  CHECK(workspace_bytes<every_row_policy, policy_tuning>(args_of(more, route::row), bytes) ==
        status::invalid_num_rows);
  CHECK(bytes == 0);
  // What the most rows need by row, more than the plan of one row more.
  bytes = required_bytes<every_row_policy>(args_of(most, route::row));
  CHECK(bytes == required_bytes<every_row_policy>(args_of(most)));
  CHECK(bytes == required_bytes<every_row_policy>(args_of(more)));
  CHECK(bytes > required_bytes<every_row_policy>(args_of(more, route::grouped)));
}

TEST_CASE("a call for another policy's shapes is refused", "[entry]") {
  call_arguments call = good_arguments();
  std::size_t bytes   = 77;
  CHECK(workspace_bytes<short_head_policy>(args_of(call), bytes) == status::invalid_head_dim);
  call.operands.q.head_dim = 128;
  CHECK(workspace_bytes<short_head_policy>(args_of(call), bytes) == status::invalid_heads_per_kv);
  CHECK(bytes == 77);
}
