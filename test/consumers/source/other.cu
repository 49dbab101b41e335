// SPDX-License-Identifier: Apache-2.0
#include <pageunion/pageunion.cuh>
#include <pageunion/reference.hpp>
