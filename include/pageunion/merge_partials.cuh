// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 7. Merging of partial results by their lse. Knows arrays of numbers alone.
#pragma once

#include <pageunion/detail/host/launch.cuh>

#include <pageunion/detail/host/call_checks.hpp>
#include <pageunion/detail/merge/partial_merge.cuh>

PAGEUNION_DEVICE_NAMESPACE_BEGIN

//! Merges partial results of the same rows and heads over disjoint sets of tokens into the result over
//! all of the tokens: the partitions of a row, or the shards of a cache that several GPUs hold.
//!
//! For row r, head h and the partials i that have a token there (lse above -inf):
//!   out[r, h] = sum over i of w_i * partial_out[i, r, h], w_i = exp(lse_i) / sum over j of exp(lse_j)
//!   lse[r, h] = log(sum over i of exp(lse_i))
//! Where no partial has a token, out is +0 and lse is -inf; what out holds there is not looked at.
//! A NaN in lse or out makes the result NaN; an Inf stays one, however small its weight.
//!
//! Shapes, strides, alignment: at the members of the views; rows x heads at most 2^31 - 1.
//! Units: strides in elements.
//! Accuracy: float throughout; a half output is rounded once.
//! Determinism: partials are added in their order; the same inputs give the same bits.
//! Stream: enqueues on `stream` and returns without waiting; can be captured. The arrays must stay
//! alive until the stream has passed the call. Allocates nothing.
//!
//! @tparam HeadDim      elements of a head
//! @param num_partials  0 or more; of none, every result is empty
//! @param lse           of a base of its own; data null to skip
//! @return ok; a status that names the argument: partials, out or lse null, misaligned, of invalid
//!         strides or overlapping, counts negative or too large; cuda_error from the launch. Unless it
//!         is the last, nothing was enqueued.
template <int HeadDim>
[[nodiscard]] status merge_partials(partial_view const& partials, std::int32_t num_partials,
                                    std::int32_t num_rows, std::int32_t num_heads,
                                    output_view const& out, lse_view const& lse,
                                    cudaStream_t stream) noexcept {
  status const checked =
      detail::check_merge(partials, num_partials, {num_rows, num_heads, HeadDim}, out, lse);
  if (checked != status::ok || num_rows == 0) {
    return checked;
  }
  return detail::enqueue_merge<HeadDim>(partials, num_partials, num_rows, num_heads, out, lse,
                                        stream);
}

PAGEUNION_DEVICE_NAMESPACE_END
