// SPDX-License-Identifier: Apache-2.0
// Case 0 is the control: it compiles. Every other case breaks one rule of the attention's memory or of
// its slices; attention_shape keeps some by itself, so that they are broken behind its back.
// expect-error 1: a step must be a whole number of value slices
// expect-error 2: the shared memory of ctas_per_sm CTAs must fit an SM
// expect-error 3: the weights' memory must hold one float per warp and m-row
// expect-error 4: partition_tokens must be a positive multiple of the tokens of a row's step
// expect-error 5: partition_tokens must be a positive multiple of the tokens of a row's step
// expect-error 6: the shared memory of ctas_per_sm CTAs must fit an SM
// no-case, a property of nvcuda::wmma: a thread must hold 8 of the 256 elements of an accumulator
#include <pageunion/grouped_attention.cuh>
#include <pageunion/row_attention.cuh>

struct policy : pageunion::qsa_policy {
#if PAGEUNION_CASE == 2
  static constexpr int group_rows = 16;
#endif
};

struct selector {
  template <class Policy>
  static constexpr pageunion::tuning select(int architecture) noexcept {
    pageunion::tuning chosen = pageunion::default_tuning::select<Policy>(architecture);
#if PAGEUNION_CASE == 2
    chosen.grouped.ctas_per_sm = 2;
#elif PAGEUNION_CASE == 4
    chosen.partition_tokens = 0;
#elif PAGEUNION_CASE == 5
    chosen.partition_tokens = 1000;
#elif PAGEUNION_CASE == 6
    chosen.partition_tokens = 16384;
#endif
    return chosen;
  }
};

using namespace pageunion::detail;
using grouped = grouped_attention_code<policy, selector, 700>;
using row     = row_attention_code<policy, selector, 700>;

struct shape : grouped::shape {
#if PAGEUNION_CASE == 1
  static constexpr int value_dims = 16;
  static constexpr int step_tiles = 5;
#elif PAGEUNION_CASE == 3
  static constexpr int warps = 8;
  static constexpr int step_tokens = 0;
#endif
};

static_assert(sizeof(wmma_loop<shape>) + grouped::smem_bytes + row::smem_bytes != 0);
static_assert(sizeof(row::pages) != 0);
