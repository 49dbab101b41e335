// SPDX-License-Identifier: Apache-2.0
//! @file
//! Names of code addresses, for reports.
#pragma once

#include <string>

namespace executor {

//! Name of the function at an address.
std::string function_of(void const* address);

//! "file:line" of the call that returns to an address; of the innermost frame outside of the executor's
//! own headers.
std::string source_of(void const* return_address);

}  // namespace executor
