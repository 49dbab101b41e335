// SPDX-License-Identifier: Apache-2.0
//! @file
//! A named range on a profiler's timeline, from construction to destruction.
#pragma once

#include <nvtx3/nvToolsExt.h>

namespace pageunion::bench {

//! Names what is enqueued while it lives.
class nvtx_range {
 public:
  explicit nvtx_range(char const* name) { nvtxRangePushA(name); }
  nvtx_range(nvtx_range const&)            = delete;
  nvtx_range& operator=(nvtx_range const&) = delete;
  ~nvtx_range() { nvtxRangePop(); }
};

}  // namespace pageunion::bench
