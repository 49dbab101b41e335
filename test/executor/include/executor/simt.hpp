// SPDX-License-Identifier: Apache-2.0
//! @file
//! What device code calls when it runs on the CPU. Knows the current thread; not how fibers are made
//! or chosen.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace executor {

inline constexpr int warp_lanes      = 32;
inline constexpr unsigned every_lane = 0xffffffffu;
inline constexpr unsigned whole_cta  = 0;  // as a mask

//! A place in the source. A default argument {} is the caller's.
struct site {
  constexpr site(char const* file_ = __builtin_FILE(), int line_ = __builtin_LINE()) noexcept
      : file(file_), line(line_) {}
  char const* file;
  int line;
};

//! What the threads of a joint call brought, by lane or by thread of the CTA; null for lanes that do
//! not take part.
using arguments = std::vector<void*>;

//! A call that threads make together: a barrier, a vote, a matrix product.
struct joint_call {
  char const* name;
  site where;
  unsigned mask;                      //!< lanes of the warp that take part, or whole_cta
  void (*perform)(arguments const&);  //!< runs once, in the last thread that comes
};

//! Waits until every thread that takes part has made the same call at the same place.
void join(joint_call const& call, void* mine);

template <class Mine>
void join(char const* name, unsigned mask, site where, Mine& mine) {
  join({name, where, mask, &Mine::perform}, &mine);
}

//! Calls use(lane or thread, what it brought) for all that take part, in order.
template <class Mine, class Use>
void for_each(arguments const& all, Use use) {
  for (unsigned i = 0; i < all.size(); ++i) {
    if (all[i] != nullptr) {
      use(i, *static_cast<Mine*>(all[i]));
    }
  }
}

//! Ends the current launch with a report. Called from device code only. The caller's stack is left as
//! it is: what it owns leaks, so the text is handed over.
[[noreturn]] void fault(std::string&& what);

//! The CTA's dynamic shared memory, which has to be at least this big.
void* shared_memory(std::size_t bytes);

//! Lane of the current thread.
unsigned current_lane();

}  // namespace executor
