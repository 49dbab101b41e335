// SPDX-License-Identifier: Apache-2.0
//! @file
//! Every entry point of the library at the production geometry, instantiated by name: what each toolkit
//! compiles for each architecture.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include <pageunion/pageunion.cuh>
#include <pageunion/reference.hpp>

namespace pageunion {

using qsa = plan_shape_of<qsa_policy>;

template status workspace_bytes<>(prefill_args const&, std::size_t&) noexcept;
template status can_prefill<>(prefill_args const&, void const*, std::size_t) noexcept;
template status prefill<>(prefill_args const&, void*, std::size_t, cudaStream_t,
                          prefill_info*) noexcept;
template status make_plan<qsa>(batch const&, selection const&, kv_cache const&, plan<qsa> const&,
                               plan_report*, cudaStream_t) noexcept;
template status grouped_attention<>(std::int32_t, attention_operands const&, plan<qsa> const&,
                                    cudaStream_t) noexcept;
template status row_attention<>(batch const&, selection const&, attention_operands const&,
                                row_partials const&, plan_report*, cudaStream_t) noexcept;
template status merge_partials<256>(partial_view const&, std::int32_t, std::int32_t, std::int32_t,
                                    output_view const&, lse_view const&, cudaStream_t) noexcept;

}  // namespace pageunion
