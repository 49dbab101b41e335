// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 7. Attention of groups over the pages of a plan. Does not know how the plan was made.
#pragma once

#include <pageunion/detail/host/launch.cuh>

#include <cstddef>

#include <pageunion/detail/attention/attention_kernel.cuh>
#include <pageunion/detail/attention/attention_shape.hpp>
#include <pageunion/detail/attention/epilogue.cuh>
#include <pageunion/detail/attention/group_pages.cuh>
#include <pageunion/detail/attention/loops.cuh>
#include <pageunion/detail/host/call_checks.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! The kernel of the grouped attention for code of an architecture.
template <class Policy, class Selector, int Architecture>
struct grouped_attention_code {
  using shape    = attention_shape<Policy, grouped_tuning<Policy, Selector, Architecture>>;
  using loop     = typename loop_of<shape>::type;
  using pages    = group_pages<shape>;
  using epilogue = store_epilogue<shape>;
  static constexpr int architecture       = Architecture;
  static constexpr auto kernel            = &attention_kernel<loop, pages, epilogue>;
  static constexpr std::size_t smem_bytes = attention_smem_bytes<loop, pages>();
};

//! grouped_attention() without its checks.
template <class Code, class Plan>
[[nodiscard]] status enqueue_grouped_attention(Code, std::int32_t num_rows,
                                               attention_operands const& operands,
                                               Plan const& planned, cudaStream_t stream) noexcept {
  if (planned.num_groups == 0) {
    return status::ok;
  }
  return launch(Code::kernel, static_cast<std::uint32_t>(planned.num_groups),
                static_cast<std::uint32_t>(operands.cache.num_kv_heads), Code::shape::threads,
                Code::smem_bytes, stream,
                attention_params<typename Code::pages, typename Code::epilogue>{
                    operands.q,
                    operands.cache,
                    scale_of_base_two(operands.scale),
                    {planned, num_rows},
                    {operands.out, operands.lse}});
}

PAGEUNION_DEVICE_DETAIL_NAMESPACE_END
PAGEUNION_DEVICE_NAMESPACE_BEGIN

//! Attention of groups of rows over the pages of a plan: prefill()'s second half.
//!
//! Formula, shapes, units, accuracy and determinism: as prefill() in prefill.cuh, with S(r) what the
//! plan says. Attends to every page of the plan as its mask says and checks none of it.
//! Stream: enqueues one kernel on `stream`, after the planner on the same stream; `planned`'s arrays
//! must stay alive and unchanged until the stream has passed this call. Allocates nothing.
//!
//! @tparam Policy   what the call was compiled for
//! @tparam Selector its tuning, as default_tuning
//! @param num_rows rows of the batch that was planned
//! @return ok; the first bad argument; unsupported_device; cuda_error from the launch. Unless it is the
//!         last, nothing was enqueued.
template <class Policy = qsa_policy, class Selector = default_tuning>
[[nodiscard]] status grouped_attention(std::int32_t num_rows, attention_operands const& operands,
                                       plan<plan_shape_of<Policy>> const& planned,
                                       cudaStream_t stream) noexcept {
  status const checked = detail::check_grouped_attention<Policy>(num_rows, operands, planned);
  if (checked != status::ok) {
    return checked;
  }
  return detail::with_loaded_code<detail::grouped_attention_code, Policy, Selector>([&](auto code) {
    return detail::enqueue_grouped_attention(code, num_rows, operands, planned, stream);
  });
}

PAGEUNION_DEVICE_NAMESPACE_END
