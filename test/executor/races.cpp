// SPDX-License-Identifier: Apache-2.0
#include "races.hpp"

#include <cstdio>
#include <string>

#include "address.hpp"
#include "cta.hpp"

namespace executor {

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

//! True if the accesses of a record are ordered before an access of these lanes
//! of the current warp.
bool race_detector::is_ordered(record const& earlier, unsigned lanes) const {
  if (earlier.segment <= phase_) {
    return true;
  }
  if (earlier.has_other_warps != 0 || earlier.warp != warp_) {
    return false;
  }
  bool const is_one_thread = earlier.lanes == lanes && (lanes & (lanes - 1)) == 0;
  return earlier.segment < segments_[warp_] || is_one_thread;
}

//! Adds an access to a record of accesses of its kind.
void race_detector::add(record& to, unsigned lanes, void const* where) const {
  to.where = reinterpret_cast<std::uint64_t>(where);
  if (to.segment == segments_[warp_]) {
    to.lanes |= lanes;
    return;
  }
  to.has_other_warps = to.segment > phase_ && (to.has_other_warps != 0 || to.warp != warp_) ? 1 : 0;
  to.segment         = segments_[warp_];
  to.warp            = warp_ & 0xffu;
  to.lanes           = lanes;
}

void race_detector::check_bytes(std::size_t first, std::size_t end, access kind, unsigned lanes,
                                void const* where) {
  for (std::size_t byte = first; byte < end && byte < bytes_; ++byte) {
    record& write = records_[byte].write;
    record& read  = records_[byte].read;
    // Two stores of a whole warp are two WMMA stores: each element has the same
    // lane in both.
    bool const may_meet_write =
        kind != access::read &&
        ((write.is_atomic != 0 && kind == access::atomic) ||
         (write.segment == segments_[warp_] && write.lanes == every_lane && lanes == every_lane));
    if (!may_meet_write && !is_ordered(write, lanes)) {
      fault(describe(byte, write, true, kind, where));
    }
    if (kind == access::read) {
      add(read, lanes, where);
      continue;
    }
    if (!is_ordered(read, lanes)) {
      fault(describe(byte, read, false, kind, where));
    }
    if (kind == access::write || write.is_atomic == 0) {
      write.segment = 0;  // everything before is ordered before this access
    }
    add(write, lanes, where);
    write.is_atomic = kind == access::atomic ? 1 : 0;
  }
}

std::string race_detector::describe(std::size_t byte, record const& earlier, bool earlier_is_write,
                                    access kind, void const* where) const {
  static char const* const verbs[] = {"reads", "writes", "changes atomically"};
  char lanes[32];
  std::snprintf(lanes, sizeof(lanes), "0x%08x", earlier.lanes);
  return "race on shared memory, byte " + std::to_string(byte) + "\n  this thread " +
         verbs[static_cast<int>(kind)] + " it at " + caller_of(where) +
         "\n  with no barrier since " +
         (earlier.has_other_warps != 0 ? "several warps, the last of them " : "") + "warp " +
         std::to_string(earlier.warp) + ", lanes " + lanes + ", " +
         (earlier_is_write ? "wrote" : "read") + " it at " +
         caller_of(reinterpret_cast<void const*>(earlier.where));
}

void note_access(void const* address, std::size_t bytes, access kind, unsigned lanes,
                 void const* where) {
  if (hooks_were_called) {
    cta_runner::current()->races().check(address, bytes, kind, lanes, where);
  }
}

bool detects_races() { return hooks_were_called; }

}  // namespace executor

// What -fsanitize=thread makes the compiler call. Its library is not linked.

#define EXECUTOR_HOOK(name, bytes, kind)                                                          \
  extern "C" void name(void const* address) {                                                     \
    if (executor::cta_runner* const runner = executor::cta_runner::current()) {                   \
      runner->races().check(address, bytes, executor::access::kind, __builtin_return_address(0)); \
    }                                                                                             \
  }
#define EXECUTOR_HOOKS(bytes)                              \
  EXECUTOR_HOOK(__tsan_read##bytes, bytes, read)           \
  EXECUTOR_HOOK(__tsan_write##bytes, bytes, write)         \
  EXECUTOR_HOOK(__tsan_unaligned_read##bytes, bytes, read) \
  EXECUTOR_HOOK(__tsan_unaligned_write##bytes, bytes, write)
EXECUTOR_HOOKS(1)
EXECUTOR_HOOKS(2)
EXECUTOR_HOOKS(4)
EXECUTOR_HOOKS(8)
EXECUTOR_HOOKS(16)

#define EXECUTOR_RANGE_HOOK(name, kind)                                                           \
  extern "C" void name(void const* address, std::size_t bytes) {                                  \
    if (executor::cta_runner* const runner = executor::cta_runner::current()) {                   \
      runner->races().check(address, bytes, executor::access::kind, __builtin_return_address(0)); \
    }                                                                                             \
  }
EXECUTOR_RANGE_HOOK(__tsan_read_range, read)
EXECUTOR_RANGE_HOOK(__tsan_write_range, write)

extern "C" {
void __tsan_init() { executor::hooks_were_called = true; }
void __tsan_func_entry(void*) {}
void __tsan_func_exit(void*) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
// Of host code in the same files.
int __tsan_atomic32_fetch_add(int volatile* address, int value, int) {
  return __atomic_fetch_add(address, value, __ATOMIC_SEQ_CST);
}
}
