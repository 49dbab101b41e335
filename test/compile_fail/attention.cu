// SPDX-License-Identifier: Apache-2.0
// Case 0 is the control: it compiles. Every other case breaks one rule of the attention's memory or of
// its slices; geometry keeps most of them by itself, so that they are broken behind its back.
// expect-error 1: a key slice must be a warp's tokens
// expect-error 2: a step must be a whole number of value slices
// expect-error 3: the shared memory of ctas_per_sm CTAs must fit an SM
// expect-error 4: the weights' memory must hold one float per warp and m-row
// expect-error 5: the pages of a partition must fit in shared memory
// no-case, a property of nvcuda::wmma: a thread must hold 8 of the 256 elements of an accumulator
#include <pageunion/grouped_attention.cuh>
#include <pageunion/row_attention.cuh>

struct policy : pageunion::qsa_policy {
#if PAGEUNION_CASE == 3
  static constexpr int group_rows  = 16;
  static constexpr int warps       = 8;
  static constexpr int warp_tiles  = 1;
  static constexpr int ctas_per_sm = 2;
#elif PAGEUNION_CASE == 5
  static constexpr int partition_tokens = 16384;
#endif
};

struct geometry : pageunion::geometry<policy> {
#if PAGEUNION_CASE == 1
  static constexpr int key_dims = 2 * pageunion::geometry<policy>::key_dims;
#elif PAGEUNION_CASE == 2
  static constexpr int value_dims       = 16;
  static constexpr int step_tiles       = 5;
#elif PAGEUNION_CASE == 4
  static constexpr int warps       = 8;
  static constexpr int step_tokens = 0;
#endif
};

using namespace pageunion::detail;

template <class Geometry>
constexpr std::size_t group_bytes =
    sizeof(typename attention_cta<Geometry, group_pages<Geometry>>::shared_storage);

static_assert(group_bytes<geometry> != 0);
static_assert(
    sizeof(row_attention_storage<pageunion::row_geometry<geometry>, pageunion::token_table>) != 0);
