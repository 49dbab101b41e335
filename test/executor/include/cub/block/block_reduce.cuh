// SPDX-License-Identifier: Apache-2.0
//! @file
//! Stands in for CUB's header of the same name.
#pragma once

#include <executor/collectives.hpp>
