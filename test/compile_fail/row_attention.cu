// SPDX-License-Identifier: Apache-2.0
// Case 0 is the control: it compiles. Every other case breaks one rule of row attention.
// expect-error 1: the pages of a partition must fit in shared memory beside the attention
#include <pageunion/row_attention.cuh>

struct policy : pageunion::qsa_policy {
#if PAGEUNION_CASE == 1
  static constexpr int partition_tokens = 8192;
#endif
};

using table = pageunion::page_table;
using rows  = pageunion::row_geometry<pageunion::geometry<policy>>;
template __global__ void pageunion::detail::row_attention_kernel<rows, table>(
    pageunion::detail::row_attention_params<table> const);
