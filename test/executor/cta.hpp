// SPDX-License-Identifier: Apache-2.0
//! @file
//! One CTA: its threads as fibers, its shared memory, the scheduler.
#pragma once

#include <random>
#include <string>

#include <executor/launch.hpp>

namespace executor {

//! Runs a CTA, with orders that `random` chooses. Returns its report, "" if nothing was wrong.
std::string run_cta(kernel_launch const& launch, dim3 index, std::mt19937 const& random);

}  // namespace executor
