// SPDX-License-Identifier: Apache-2.0
// A host file of the program: the C++ compiler reads it, not nvcc.
#include <pageunion/prefill.hpp>

//! Bytes of the workspace; 0 if the arguments are refused.
std::size_t workspace_bytes_of_engine(pageunion::prefill_args const& args) {
  std::size_t bytes = 0;
  return pageunion::workspace_bytes(args, bytes) == pageunion::status::ok &&
                 pageunion::can_prefill(args, nullptr, bytes) == pageunion::status::ok
             ? bytes
             : 0;
}
