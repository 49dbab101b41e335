// SPDX-License-Identifier: Apache-2.0
//! @file
//! Votes, shuffles and atomics, each once for its warp or thread.
#include <algorithm>

#include <cuda_runtime.h>

namespace executor {

void ballot::perform(unsigned mask, void* const* lanes) {
  unsigned result = 0;
  for (unsigned l = 0; l < warp_lanes; ++l) {
    if ((mask >> l & 1u) != 0 && static_cast<ballot const*>(lanes[l])->predicate) {
      result |= 1u << l;
    }
  }
  for (unsigned l = 0; l < warp_lanes; ++l) {
    if ((mask >> l & 1u) != 0) {
      static_cast<ballot*>(lanes[l])->result = result;
    }
  }
}

void shuffle::perform(unsigned mask, void* const* lanes) {
  std::uint64_t bits[warp_lanes] = {};
  for (unsigned l = 0; l < warp_lanes; ++l) {
    if ((mask >> l & 1u) != 0) {
      bits[l] = static_cast<shuffle const*>(lanes[l])->bits;
    }
  }
  for (unsigned l = 0; l < warp_lanes; ++l) {
    if ((mask >> l & 1u) != 0) {
      auto& mine = *static_cast<shuffle*>(lanes[l]);
      if ((mask >> mine.source & 1u) == 0) {
        fault("lane " + std::to_string(l) + " shuffles from lane " + std::to_string(mine.source) +
              ", which the mask lacks");
      }
      mine.bits = bits[mine.source];
    }
  }
}

template <class T>
T apply_atomic(T* address, atomic_operation operation, T operand, T compare) {
  maybe_yield();
  note_access(address, sizeof(T), access::atomic, 1u << current_lane(),
              __builtin_return_address(0));
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  T next{};
  do {
    switch (operation) {
      case atomic_operation::add:
        next = static_cast<T>(static_cast<unsigned long long>(old) +
                              static_cast<unsigned long long>(operand));
        break;
      case atomic_operation::bit_or:
        next = old | operand;
        break;
      case atomic_operation::bit_and:
        next = old & operand;
        break;
      case atomic_operation::maximum:
        next = std::max(old, operand);
        break;
      case atomic_operation::minimum:
        next = std::min(old, operand);
        break;
      case atomic_operation::exchange:
        next = operand;
        break;
      case atomic_operation::compare_and_swap:
        next = old == compare ? operand : old;
        break;
    }
  } while (
      !__atomic_compare_exchange_n(address, &old, next, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return old;
}

template int apply_atomic(int*, atomic_operation, int, int);
template unsigned apply_atomic(unsigned*, atomic_operation, unsigned, unsigned);
template unsigned long long apply_atomic(unsigned long long*, atomic_operation, unsigned long long,
                                         unsigned long long);

}  // namespace executor
