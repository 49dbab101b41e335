// SPDX-License-Identifier: Apache-2.0
//! @file
//! Code addresses in words, for reports. Asks addr2line.
#pragma once

#include <string>

namespace executor {

//! "function at file:line" of a code address; of the innermost frame outside of the executor's own
//! headers and of the toolkit's.
std::string place_of(void const* address);

}  // namespace executor
