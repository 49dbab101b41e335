// SPDX-License-Identifier: Apache-2.0
//! @file
//! What device code calls when it runs on the CPU: indices, convergence points, atomics' scheduling
//! points, notes of memory accesses. Knows the current thread; not how fibers are made or chosen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace executor {

inline constexpr int warp_lanes            = 32;
inline constexpr int max_threads           = 1024;   // of a CTA
inline constexpr std::size_t max_smem      = 98304;  // bytes of a CTA: a V100's
inline constexpr unsigned every_lane       = 0xffffffffu;
inline constexpr unsigned max_ctas_along_y = 65535;

//! A place in the source. As a defaulted argument it is the caller's.
struct site {
  char const* file;
  int line;
  static constexpr site here(char const* file = __builtin_FILE(),
                             int line         = __builtin_LINE()) noexcept {
    return {file, line};
  }
};
inline constexpr site nowhere{"", 0};

//! Ends the current launch with a report. Called from device code only. The caller's stack is left as
//! it is: what it owns leaks, so the text is handed over.
[[noreturn]] void fault(std::string&& what);

//! One call of a warp-wide operation by one lane.
struct warp_call {
  char const* name;
  unsigned mask;
  site where;
  //! Runs the operation once for the warp, by the last lane that arrives.
  //! `arguments[lane]` is what the lane brought; null outside the mask.
  void (*perform)(unsigned mask, void* const* arguments);
};

//! Waits until every lane of the call's mask has made the same call, at the same place.
void converge(warp_call const& call, void* arguments);

template <class Arguments>
void converge(char const* name, unsigned mask, site where, Arguments& arguments) {
  converge({name, mask, where, &Arguments::perform}, &arguments);
}

//! What a CTA barrier found out about its threads' predicates.
struct votes {
  int count = 0;  //!< predicates that were not 0
  int all   = 0;  //!< 1 if none was 0
};
//! Waits until every thread of the CTA has made the same call, at the same place.
votes barrier(char const* name, int predicate, site where);

//! Orders the memory accesses of a warp's lanes. The full mask only: no kernel of ours uses less.
void warp_barrier(unsigned mask, site where);

//! A place where another thread may be scheduled: every atomic.
void maybe_yield();

enum class access : int { read, write, atomic };
//! Tells the race detector of an access that the compiler did not instrument.
//! @param lanes of the current warp that may have made it
void note_access(void const* address, std::size_t bytes, access kind, unsigned lanes,
                 void const* where);

//! The CTA's dynamic shared memory, which has to be at least this big.
void* shared_memory(std::size_t bytes);

//! Lane of the current thread.
unsigned current_lane();

}  // namespace executor
