// SPDX-License-Identifier: Apache-2.0
//! @file
//! Problems in .safetensors files: read, checked, and written. The format is in bench/README.md.
//! Host memory only; little-endian machines.
#pragma once

#include <string>

#include "workload.hpp"

namespace pageunion::bench {

//! Writes a problem, its Q, K and V included, so that read_problem() gives the same bits.
//! @return empty, or a sentence that says what failed
std::string write_problem(std::string const& path, host_problem const& p);

//! Reads a problem. Q, or K and V, that the file leaves out are drawn at random.
//! Values that the library drops by rule (entries, positions, physical blocks) are not errors.
//! @param p changed only if the file is right
//! @return empty, or a sentence that names the tensor or metadata and what was expected of it
std::string read_problem(std::string const& path, host_problem& p);

}  // namespace pageunion::bench
