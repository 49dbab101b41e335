// SPDX-License-Identifier: Apache-2.0
//! @file
//! Names of code addresses, for reports. Asks addr2line.
#pragma once

#include <string>

namespace executor {

//! Name of the function that begins at an address, and its place.
std::string function_at(void const* address);

//! "file:line" of the call that returns to an address; of the innermost frame
//! outside of the executor's own headers.
std::string caller_of(void const* return_address);

}  // namespace executor
