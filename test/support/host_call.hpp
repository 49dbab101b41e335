// SPDX-License-Identifier: Apache-2.0
//! @file
//! A call that a file of the C++ compiler makes for one of nvcc.
#pragma once

#include <cstddef>

#include <pageunion/prefill.hpp>
#include <pageunion/status.hpp>

namespace pageunion::test {

//! good_arguments() by the row route, and the bytes of their workspace.
//! @return what can_prefill() says of them and of so many bytes
status make_host_call(prefill_args& args, std::size_t& bytes);

}  // namespace pageunion::test
