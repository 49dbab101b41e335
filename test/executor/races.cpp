// SPDX-License-Identifier: Apache-2.0
#include "races.hpp"

#include <cstdio>
#include <utility>

#include <executor/launch.hpp>
#include <executor/simt.hpp>

#include "address.hpp"

namespace executor {

race_detector races;

namespace {

bool hooks_were_called = false;

}  // namespace

void race_detector::begin_cta(void const* smem, std::size_t bytes, unsigned num_warps) {
  smem_  = static_cast<unsigned char const*>(smem);
  bytes_ = bytes;
  if (records_.size() < bytes || clock_ > 0xf0000000u) {
    records_.assign(bytes, {});
    clock_ = 0;
  }
  segments_.resize(num_warps);
  end_phase();
}

void race_detector::end_phase() {
  phase_ = clock_;
  for (std::uint32_t& segment : segments_) {
    segment = ++clock_;
  }
}

//! True if the accesses of a record are ordered before an access of the current warp.
bool race_detector::is_ordered(record const& earlier, access const& mine) const {
  if (earlier.segment <= phase_) {
    return true;
  }
  if (earlier.has_other_warps || earlier.warp != warp_) {
    return false;
  }
  bool const is_one_thread = earlier.lanes == mine.lanes && (mine.lanes & (mine.lanes - 1)) == 0;
  return earlier.segment < segments_[warp_] || is_one_thread;
}

//! Adds an access to a record of accesses of its kind.
void race_detector::add(record& to, access const& mine) const {
  to.where = mine.where;
  to.kind  = mine.kind;
  if (to.segment == segments_[warp_]) {
    to.lanes |= mine.lanes;
    return;
  }
  to.has_other_warps = to.segment > phase_ && (to.has_other_warps || to.warp != warp_);
  to.segment         = segments_[warp_];
  to.warp            = static_cast<std::uint8_t>(warp_);
  to.lanes           = mine.lanes;
}

void race_detector::check_bytes(std::size_t first, std::size_t end, access const& mine) {
  bool const is_atomic = mine.kind == access_kind::atomic;
  for (std::size_t byte = first; byte < end && byte < bytes_; ++byte) {
    record& write = records_[byte].write;
    record& read  = records_[byte].read;
    if (mine.kind == access_kind::read) {
      if (!is_ordered(write, mine)) {
        report(byte, write, mine);
      }
      add(read, mine);
      continue;
    }
    // Two stores of a whole warp are two WMMA stores: each element has the same lane in both.
    bool const are_atomic = is_atomic && write.kind == access_kind::atomic;
    bool const are_of_wmma =
        write.segment == segments_[warp_] && write.lanes == every_lane && mine.lanes == every_lane;
    if (!are_atomic && !are_of_wmma && !is_ordered(write, mine)) {
      report(byte, write, mine);
    }
    if (!is_ordered(read, mine)) {
      report(byte, read, mine);
    }
    if (!are_atomic) {
      write.segment = 0;  // everything before is ordered before this access
    }
    add(write, mine);
  }
}

void race_detector::report(std::size_t byte, record const& earlier, access const& mine) const {
  static auto const text = [](access_kind kind, void const* where) {
    static char const* const verbs[] = {"read", "wrote", "changed atomically"};
    return std::string(verbs[static_cast<int>(kind)]) + " it at " +
           place_of(static_cast<char const*>(where) - 1);  // within the call before it
  };
  char lanes[32];
  std::snprintf(lanes, sizeof(lanes), "0x%08x", earlier.lanes);
  std::string found = "race on shared memory, byte " + std::to_string(byte) + "\n  this thread " +
                      text(mine.kind, mine.where) + "\n  with no barrier since " +
                      (earlier.has_other_warps ? "several warps, the last of them " : "") +
                      "warp " + std::to_string(earlier.warp) + ", lanes " + lanes + ", " +
                      text(earlier.kind, earlier.where);
  fault(std::move(found));
}

bool detects_races() { return hooks_were_called; }

}  // namespace executor

// What -fsanitize=thread makes the compiler call. Its library is not linked.
extern "C" {

#define EXECUTOR_HOOK(name, parameters, size, verb)                   \
  void __tsan_##name parameters {                                     \
    executor::races.check(address, size, executor::access_kind::verb, \
                          __builtin_return_address(0));               \
  }
#define EXECUTOR_HOOKS(size)                                             \
  EXECUTOR_HOOK(read##size, (void const* address), size, read)           \
  EXECUTOR_HOOK(write##size, (void const* address), size, write)         \
  EXECUTOR_HOOK(unaligned_read##size, (void const* address), size, read) \
  EXECUTOR_HOOK(unaligned_write##size, (void const* address), size, write)
EXECUTOR_HOOKS(1)
EXECUTOR_HOOKS(2)
EXECUTOR_HOOKS(4)
EXECUTOR_HOOKS(8)
EXECUTOR_HOOKS(16)
EXECUTOR_HOOK(read_range, (void const* address, std::size_t bytes), bytes, read)
EXECUTOR_HOOK(write_range, (void const* address, std::size_t bytes), bytes, write)

void __tsan_init() { executor::hooks_were_called = true; }
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void*) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
// Of host code in the same files.
int __tsan_atomic32_fetch_add(int volatile* address, int value, int) {
  return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
}
int __tsan_atomic32_fetch_or(int volatile* address, int value, int) {
  return __atomic_fetch_or(address, value, __ATOMIC_SEQ_CST);
}
int __tsan_atomic32_exchange(int volatile* address, int value, int) {
  return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);
}
int __tsan_atomic32_load(int const volatile* address, int) {
  return __atomic_load_n(address, __ATOMIC_SEQ_CST);
}
long __tsan_atomic64_fetch_add(long volatile* address, long value, int) {
  return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
}
char __tsan_atomic8_exchange(char volatile* address, char value, int) {
  return __atomic_exchange_n(address, value, __ATOMIC_SEQ_CST);
}
}
