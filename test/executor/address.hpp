// SPDX-License-Identifier: Apache-2.0
//! @file
//! Code addresses in words, for reports. Asks addr2line.
#pragma once

#include <string>

namespace executor {

//! "file:line" of a code address; of the innermost frame outside of the executor's own headers and of
//! the toolkit's.
//! @param options more for addr2line: "-C -f" puts the name of the function before it
std::string place_of(void const* address, char const* options = "");

}  // namespace executor
