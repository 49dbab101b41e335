// SPDX-License-Identifier: Apache-2.0
// The whole family of policies: which fit, and that default_tuning makes each of those fit an SM. Needs
// nvcc, for the sizes of what kernels keep in shared memory, and no device.
#include <pageunion/grouped_attention.cuh>
#include <pageunion/row_attention.cuh>

#include <cstddef>

#include "support/catch.hpp"
#include "support/shape.hpp"

using pageunion::default_tuning;
using pageunion::sm70_limits;
using pageunion::detail::group_limits;
using pageunion::test::shape;

namespace {

//! Shapes seen so far.
struct family {
  int num_shapes  = 0;
  int num_fitting = 0;
};

template <class Shape>
void look_at(family& seen) {
  constexpr bool does_fit = group_limits<Shape>::fits(Shape::group_rows);
  ++seen.num_shapes;
  seen.num_fitting += does_fit ? 1 : 0;
  CAPTURE(Shape::page_tokens, Shape::group_rows, Shape::heads_per_kv, Shape::head_dim);
  if constexpr (does_fit) {
    using grouped = pageunion::detail::grouped_attention_code<Shape, default_tuning, 700>;
    using row     = pageunion::detail::row_attention_code<Shape, default_tuning, 700>;
    using G       = typename grouped::shape;
    constexpr std::size_t limit = sm70_limits::smem_bytes_per_sm;
    CHECK(grouped::smem_bytes * G::ctas_per_sm <= limit);
    CHECK(row::smem_bytes * row::shape::ctas_per_sm <= limit);
    // Eight warps of an SM, two for each of its quarters.
    CHECK(G::warps * G::ctas_per_sm == 8);
  } else {
    CHECK(group_limits<Shape>::widest < Shape::group_rows);
    CHECK(group_limits<Shape>::fits(group_limits<Shape>::widest));
  }
}

template <int PageTokens, int GroupRows, int HeadsPerKv>
void look_at_head_dims(family& seen) {
  look_at<shape<PageTokens, GroupRows, HeadsPerKv, 64>>(seen);
  look_at<shape<PageTokens, GroupRows, HeadsPerKv, 128>>(seen);
  look_at<shape<PageTokens, GroupRows, HeadsPerKv, 256>>(seen);
}

template <int PageTokens, int GroupRows>
void look_at_heads(family& seen) {
  look_at_head_dims<PageTokens, GroupRows, 1>(seen);
  look_at_head_dims<PageTokens, GroupRows, 2>(seen);
  look_at_head_dims<PageTokens, GroupRows, 4>(seen);
  look_at_head_dims<PageTokens, GroupRows, 6>(seen);
  look_at_head_dims<PageTokens, GroupRows, 8>(seen);
  look_at_head_dims<PageTokens, GroupRows, 12>(seen);
  look_at_head_dims<PageTokens, GroupRows, 16>(seen);
}

template <int PageTokens>
void look_at_groups(family& seen) {
  look_at_heads<PageTokens, 4>(seen);
  look_at_heads<PageTokens, 8>(seen);
  look_at_heads<PageTokens, 16>(seen);
}

}  // namespace

TEST_CASE("every policy that fits has kernels, and every other has a nearest that fits",
          "[shapes]") {
  family seen;
  look_at_groups<4>(seen);
  look_at_groups<8>(seen);
  look_at_groups<16>(seen);
  CHECK(seen.num_shapes == 189);
  CHECK(seen.num_fitting == 117);
}
