// SPDX-License-Identifier: Apache-2.0
#include "cta.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <utility>

// AddressSanitizer has to know every change of stack, and that a fiber was left
// in its middle.
#ifdef EXECUTOR_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#else
namespace {
void __sanitizer_start_switch_fiber(void**, void const*, std::size_t) {}
void __sanitizer_finish_switch_fiber(void*, void const**, std::size_t*) {}
void __asan_unpoison_memory_region(void const volatile*, std::size_t) {}
}  // namespace
#endif

namespace executor {

namespace context = boost::context::detail;

namespace {

constexpr std::size_t stack_bytes = 256 * 1024;

thread_local cta_runner* current_runner = nullptr;

void* bottom(boost::context::stack_context const& stack) {
  return static_cast<char*>(stack.sp) - stack.size;
}

bool is_same(joint_call const& a, joint_call const& b) {
  return a.perform == b.perform && a.mask == b.mask && a.where.line == b.where.line &&
         std::strcmp(a.where.file, b.where.file) == 0 && std::strcmp(a.name, b.name) == 0;
}

std::string text(site where) { return std::string(where.file) + ":" + std::to_string(where.line); }

}  // namespace

cta_runner* cta_runner::current() { return current_runner; }

cta_runner::~cta_runner() {
  for (auto& stack : stacks_) {
    boost::context::protected_fixedsize_stack(stack_bytes).deallocate(stack);
  }
}

std::string cta_runner::run(kernel_launch const& launch, dim3 index, std::uint64_t seed) {
  launch_ = &launch;
  std::string().swap(report_);  // without a buffer, so that fault() leaves none behind
  performed_     = nullptr;
  random_        = random_source(seed);
  current_runner = this;
  blockIdx       = {index.x, index.y, index.z};
  blockDim       = launch.block;
  gridDim        = launch.grid;
  start();
  while (num_live_ != 0 && report_.empty()) {
    run_some_warp();
  }
  races_.end_cta();
  current_runner = nullptr;
  if (!report_.empty()) {
    for (auto const& stack : stacks_) {
      __asan_unpoison_memory_region(bottom(stack), stack.size);
    }
  }
  return report_;
}

//! Fresh threads and poisoned shared memory, of exactly the size that the
//! launch asked for.
void cta_runner::start() {
  std::size_t constexpr alignment = 128;
  void* memory                    = nullptr;
  if (posix_memalign(&memory, alignment, launch_->smem_bytes) != 0) {
    throw std::bad_alloc();
  }
  smem_                = {static_cast<unsigned char*>(memory), std::free};
  bool const is_random = random_() % 2 != 0;
  std::generate_n(smem_.get(), launch_->smem_bytes, [&] {
    return is_random ? static_cast<unsigned char>(random_()) : static_cast<unsigned char>(0xff);
  });
  num_threads_ = num_live_ = launch_->block.x * launch_->block.y * launch_->block.z;
  fibers_.assign(num_threads_, {});
  runnable_.assign((num_threads_ + warp_lanes - 1) / warp_lanes, 0);
  meetings_.clear();
  races_.begin_cta(smem_.get(), launch_->smem_bytes, static_cast<unsigned>(runnable_.size()));
  for (unsigned t = 0; t < num_threads_; ++t) {
    if (stacks_.size() == t) {
      stacks_.push_back(boost::context::protected_fixedsize_stack(stack_bytes).allocate());
    }
    fibers_[t].context = context::make_fcontext(stacks_[t].sp, stacks_[t].size, &enter);
    set_runnable(t, true);
  }
}

void cta_runner::set_runnable(unsigned thread, bool is_runnable) {
  unsigned const lane = 1u << thread % warp_lanes;
  unsigned& lanes     = runnable_[thread / warp_lanes];
  lanes               = is_runnable ? lanes | lane : lanes & ~lane;
}

//! Runs lanes of a warp, in a new order each time, until none can go on or
//! chance ends it.
void cta_runner::run_some_warp() {
  auto const num_warps = static_cast<unsigned>(runnable_.size());
  unsigned w           = random_() % num_warps;
  for (unsigned tries = 0; runnable_[w] == 0; ++tries) {
    if (tries == num_warps) {
      report_ = "threads wait for each other" + states();
      return;
    }
    w = (w + 1) % num_warps;
  }
  do {
    // lane = (i * odd) xor any: a permutation of 0 .. 31
    unsigned const odd = random_() | 1u;
    unsigned const any = random_();
    for (unsigned i = 0; i < warp_lanes && report_.empty(); ++i) {
      unsigned const lane = (i * odd ^ any) % warp_lanes;
      if ((runnable_[w] >> lane & 1u) != 0) {
        resume(w * warp_lanes + lane);
      }
    }
  } while (runnable_[w] != 0 && report_.empty() && random_() % 8 != 0);
}

void cta_runner::resume(unsigned thread) {
  current_         = thread;
  unsigned const x = launch_->block.x;
  unsigned const y = launch_->block.y;
  threadIdx        = {thread % x, thread / x % y, thread / x / y};
  races_.set_thread(thread / warp_lanes, 1u << thread % warp_lanes);
  __sanitizer_start_switch_fiber(&scheduler_fake_stack_, bottom(stacks_[thread]),
                                 stacks_[thread].size);
  fibers_[thread].context = context::jump_fcontext(fibers_[thread].context, this).fctx;
  __sanitizer_finish_switch_fiber(scheduler_fake_stack_, nullptr, nullptr);
}

//! Back to the scheduler, from a fiber.
void cta_runner::suspend() {
  fiber& self = fibers_[current_];
  __sanitizer_start_switch_fiber(self.has_exited ? nullptr : &self.fake_stack, scheduler_stack_,
                                 scheduler_stack_bytes_);
  scheduler_ = context::jump_fcontext(scheduler_, nullptr).fctx;
  __sanitizer_finish_switch_fiber(self.fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
}

void cta_runner::enter(context::transfer_t from) {
  cta_runner& self = *static_cast<cta_runner*>(from.data);
  self.scheduler_  = from.fctx;
  __sanitizer_finish_switch_fiber(nullptr, &self.scheduler_stack_, &self.scheduler_stack_bytes_);
  self.launch_->body();
  self.set_runnable(self.current_, false);
  self.fibers_[self.current_].has_exited = true;
  --self.num_live_;
  self.suspend();
}

void cta_runner::maybe_yield() {
  if (random_() % 8 == 0) {
    suspend();
  }
}

void cta_runner::join(joint_call const& call, void* mine) {
  bool const is_of_warp = call.mask != whole_cta;
  unsigned const first  = is_of_warp ? current_ / warp_lanes * warp_lanes : 0;
  unsigned const bit    = 1u << current_ % warp_lanes;
  unsigned const members =
      is_of_warp ? static_cast<unsigned>(__builtin_popcount(call.mask)) : num_threads_;
  performed_ = &call;
  if (is_of_warp && (call.mask & bit) == 0) {
    fault("the mask lacks the calling lane");
  }
  auto found = std::find_if(meetings_.begin(), meetings_.end(), [&](meeting const& other) {
    return other.first_thread == first && is_same(*other.call, call);
  });
  if (found == meetings_.end()) {
    std::size_t const size = is_of_warp ? warp_lanes : num_threads_;
    meetings_.push_back({&call, first, members, arguments(size, nullptr)});
    found = meetings_.end() - 1;
  }
  found->brought[current_ - first] = mine;
  if (--found->num_missing != 0) {
    performed_                 = nullptr;
    fibers_[current_].waits_in = &call;
    set_runnable(current_, false);
    suspend();
    return;
  }
  brought_ = std::move(found->brought);
  meetings_.erase(found);
  call.perform(brought_);
  performed_ = nullptr;
  for (unsigned i = 0; i < brought_.size(); ++i) {
    if (brought_[i] != nullptr) {
      fibers_[first + i].waits_in = nullptr;
      set_runnable(first + i, true);
    }
  }
  // The last to come need not be the first to go on.
  suspend();
}

//! Where the threads are: the threads of each state together.
std::string cta_runner::states() const {
  std::map<std::string, std::string> threads_by_state;
  for (unsigned t = 0; t < num_threads_; ++t) {
    joint_call const* const call = fibers_[t].waits_in;
    std::string const state      = fibers_[t].has_exited ? "exited"
                                   : call == nullptr
                                       ? "running"
                                       : "in " + std::string(call->name) + " at " + text(call->where);
    std::string& threads         = threads_by_state[state];
    threads += (threads.empty() ? "" : ",") + std::to_string(t);
  }
  std::string lines;
  for (auto const& [state, threads] : threads_by_state) {
    lines += "\n  " + state + ": threads " + threads;
  }
  return lines;
}

void cta_runner::fault(std::string&& what) {
  report_ = std::move(what);
  report_ += "\n  thread " + std::to_string(current_) + " (warp " +
             std::to_string(current_ / warp_lanes) + ", lane " +
             std::to_string(current_ % warp_lanes) + ")";
  if (performed_ != nullptr) {
    report_ += ", in " + std::string(performed_->name) + " at " + text(performed_->where);
  }
  suspend();
  std::abort();  // the scheduler never resumes a fiber of a CTA with a report
}

void* cta_runner::shared_memory(std::size_t bytes) {
  if (bytes > launch_->smem_bytes) {
    fault("the kernel uses " + std::to_string(bytes) + " bytes of shared memory, the launch gave " +
          std::to_string(launch_->smem_bytes));
  }
  return smem_.get();
}

// ---- what device code calls
// -------------------------------------------------------------------------

void join(joint_call const& call, void* mine) { current_runner->join(call, mine); }
void maybe_yield() { current_runner->maybe_yield(); }
void* shared_memory(std::size_t bytes) { return current_runner->shared_memory(bytes); }
unsigned current_lane() { return current_runner->thread() % warp_lanes; }
void fault(std::string&& what) { current_runner->fault(std::move(what)); }

void vote::perform(arguments const& all) {
  vote outcome{};
  for_each<vote>(all, [&](unsigned i, vote& mine) {
    outcome.count += mine.predicate ? 1 : 0;
    outcome.ballot |= mine.predicate ? 1u << i % warp_lanes : 0u;
  });
  for_each<vote>(all, [&](unsigned, vote& mine) { mine = outcome; });
}

void cta_barrier::perform(arguments const& all) {
  vote::perform(all);
  current_runner->races().end_phase();
}

void warp_barrier::perform(arguments const&) { current_runner->races().end_warp_segment(); }

void shuffle::perform(arguments const& all) {
  std::uint64_t bits[warp_lanes] = {};
  for_each<shuffle>(all, [&](unsigned lane, shuffle& mine) { bits[lane] = mine.bits; });
  for_each<shuffle>(all, [&](unsigned lane, shuffle& mine) {
    if (all[mine.source] == nullptr) {
      fault("lane " + std::to_string(lane) + " shuffles from lane " + std::to_string(mine.source) +
            ", which the mask lacks");
    }
    mine.bits = bits[mine.source];
  });
}

template <class T>
T change_atomically(T* address, T operand, T (*next)(T, T)) {
  maybe_yield();
  note_access(address, sizeof(T), access::atomic, 1u << current_lane(),
              __builtin_return_address(0));
  T old = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (!__atomic_compare_exchange_n(address, &old, next(old, operand), false, __ATOMIC_RELAXED,
                                      __ATOMIC_RELAXED)) {
  }
  return old;
}
template unsigned change_atomically(unsigned*, unsigned, unsigned (*)(unsigned, unsigned));
template unsigned long long change_atomically(unsigned long long*, unsigned long long,
                                              unsigned long long (*)(unsigned long long,
                                                                     unsigned long long));

}  // namespace executor
