// SPDX-License-Identifier: Apache-2.0
#include <pageunion/pageunion.cuh>
#include <pageunion/reference.hpp>

//! Bytes of the workspace; 0 if the arguments are refused.
std::size_t workspace_bytes_of_other(pageunion::prefill_args const& args) {
  std::size_t bytes = 0;
  return pageunion::workspace_bytes(args, bytes) == pageunion::status::ok ? bytes : 0;
}
