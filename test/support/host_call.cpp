// SPDX-License-Identifier: Apache-2.0
//! @file
//! A call that a file of the C++ compiler makes for one of nvcc, host/entry_points.cu.
#include "support/good_arguments.hpp"

namespace pageunion::test {

status make_host_call(prefill_args& args, std::size_t& bytes) {
  call_arguments const call = good_arguments();
  args                      = args_of(call, route::row);
  status const sized        = workspace_bytes<qsa_policy>(args, bytes);
  return sized != status::ok ? sized : can_prefill<qsa_policy>(args, call.workspace, bytes);
}

}  // namespace pageunion::test
