// SPDX-License-Identifier: Apache-2.0
// Each case breaks one rule of the attention's memory or of its slices; attention_shape keeps some by
// itself, so that they are broken behind its back.
// expect-error SHAPE(value_dims = 16, step_tiles = 5): a step must be a whole number of value slices
// expect-error POLICY(group_rows = 16) TUNING(grouped.ctas_per_sm = 2): the shared memory of ctas_per_sm CTAs must fit an SM
// expect-error SHAPE(warps = 8, step_tokens = 0): the weights' memory must hold one float per warp and m-row
// expect-error TUNING(partition_tokens = 0): partition_tokens must be a positive multiple of the tokens of a row's step
// expect-error TUNING(partition_tokens = 1000): partition_tokens must be a positive multiple of the tokens of a row's step
// expect-error TUNING(partition_tokens = 16384): the shared memory of ctas_per_sm CTAs must fit an SM
// no-case, a property of nvcuda::wmma: a thread must hold 8 of the 256 elements of an accumulator
#include <pageunion/grouped_attention.cuh>
#include <pageunion/row_attention.cuh>

struct policy : pageunion::qsa_policy {
#ifdef POLICY
  static constexpr int POLICY;
#endif
};

struct selector {
  template <class Policy>
  static constexpr pageunion::tuning select(int architecture) noexcept {
    pageunion::tuning chosen = pageunion::default_tuning::select<Policy>(architecture);
#ifdef TUNING
    chosen.TUNING;
#endif
    return chosen;
  }
};

using namespace pageunion::detail;
using grouped = grouped_attention_code<policy, selector, 700>;
using row     = row_attention_code<policy, selector, 700>;

struct shape : grouped::shape {
#ifdef SHAPE
  static constexpr int SHAPE;
#endif
};

static_assert(sizeof(wmma_loop<shape>) + grouped::smem_bytes + row::smem_bytes != 0);
static_assert(sizeof(row::pages) != 0);
