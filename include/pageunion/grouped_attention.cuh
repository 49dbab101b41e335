// SPDX-License-Identifier: Apache-2.0
//! @file
//! Room 7. Attention of groups of rows over the pages of a plan. Knows the plan's arrays and the
//! operands; not how the plan was made.
#pragma once

#include <cuda_runtime.h>
#include <pageunion/detail/launch.cuh>

#include <cstddef>
#include <cstdint>

#include <pageunion/detail/argument_checks.hpp>
#include <pageunion/detail/attention_cta.cuh>
#include <pageunion/detail/memory_ranges.hpp>
#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/status.hpp>

PAGEUNION_DEVICE_DETAIL_NAMESPACE_BEGIN

//! The pages of one group, straight from the plan. Where they are is found anew for every step: in the
//! attention's loop every register counts.
template <class Geometry>
class group_pages {
 public:
  __device__ group_pages(plan<Geometry> const& planned, std::int32_t group)
      : planned_(planned), group_(group), num_pages_(planned.num_pages[group]) {}

  __device__ int num_pages() const { return num_pages_; }
  __device__ page_entry<Geometry> load(int index) const {
    std::int64_t const entry   = std::int64_t{group_} * planned_.capacity + index;
    page_address const address = planned_.addresses[entry];
    return {address.block, address.first_token, planned_.masks[entry]};
  }

 private:
  plan<Geometry> const& planned_;
  std::int32_t const group_;
  int const num_pages_;
};

template <class Geometry>
struct grouped_attention_params {
  attention_params attention;
  plan<Geometry> planned;
};

//! Entry of the device code: CTA (x, y) is group num_groups - 1 - x and KV head y. Later rows see
//! more tokens, so that the CTAs that start last are the short ones.
template <class Geometry>
__global__ void __launch_bounds__(Geometry::threads, Geometry::ctas_per_sm)
    grouped_attention_kernel(grouped_attention_params<Geometry> const params) {
  using cta        = attention_cta<Geometry, group_pages<Geometry>>;
  auto const group = params.planned.num_groups - 1 - static_cast<std::int32_t>(blockIdx.x);
  std::int32_t const first_row = group * Geometry::group_rows;
  std::int32_t const rows_left = params.attention.num_rows - first_row;
  group_pages<Geometry> const pages(params.planned, group);
  cta(params.attention, pages, dynamic_smem<typename cta::shared_storage>(), first_row,
      rows_left < Geometry::group_rows ? rows_left : Geometry::group_rows,
      static_cast<std::int32_t>(blockIdx.y))
      .run();
}

//! Shared memory of a CTA, bytes.
template <class Geometry>
constexpr std::size_t grouped_attention_smem_bytes =
    sizeof(typename attention_cta<Geometry, group_pages<Geometry>>::shared_storage);

//! What grouped_attention() would find the device unable to do, before what goes before it is enqueued.
template <class Geometry>
[[nodiscard]] status allow_grouped_attention() noexcept {
  return allow_smem(&grouped_attention_kernel<Geometry>, grouped_attention_smem_bytes<Geometry>);
}

//! Everything that the host can know about a call of grouped_attention().
template <class Geometry>
[[nodiscard]] status check_grouped_attention(std::int32_t num_rows,
                                             attention_operands const& operands,
                                             plan<Geometry> const& planned) noexcept {
  status checked = check_plan(planned, num_rows);
  if (checked == status::ok) {
    checked = check_operands<Geometry>(operands, num_rows);
  }
  if (checked != status::ok) {
    return checked;
  }
  query_view const& q = operands.q;
  memory_ranges inputs;
  inputs.add(operands.cache, q.head_dim);
  inputs.add(q, num_rows);
  inputs.add(ranges_of(planned));
  return check_overlaps(
      inputs, {{range_of(operands.out, num_rows, q.num_heads, q.head_dim), status::overlapping_out},
               {range_of(operands.lse, num_rows, q.num_heads), status::overlapping_lse}});
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
//! @param num_rows rows of the batch that was planned
//! @return ok; the first bad argument; unsupported_device; cuda_error from the launch. Unless it is the
//!         last, nothing was enqueued.
template <class Geometry>
[[nodiscard]] status grouped_attention(std::int32_t num_rows, attention_operands const& operands,
                                       plan<Geometry> const& planned,
                                       cudaStream_t stream) noexcept {
  status const checked = detail::check_grouped_attention(num_rows, operands, planned);
  if (checked != status::ok || planned.num_groups == 0) {
    return checked;
  }
  return detail::launch(
      &detail::grouped_attention_kernel<Geometry>, static_cast<std::uint32_t>(planned.num_groups),
      static_cast<std::uint32_t>(operands.cache.num_kv_heads), Geometry::threads,
      detail::grouped_attention_smem_bytes<Geometry>, stream,
      detail::grouped_attention_params<Geometry>{
          {operands, detail::scale_of_base_two(operands.scale), num_rows}, planned});
}

PAGEUNION_DEVICE_NAMESPACE_END
