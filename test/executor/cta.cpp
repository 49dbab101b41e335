// SPDX-License-Identifier: Apache-2.0
#include "cta.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

#if defined(__SANITIZE_ADDRESS__)
#define EXECUTOR_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define EXECUTOR_ASAN 1
#endif
#endif
#ifdef EXECUTOR_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace executor {

namespace context = boost::context::detail;

namespace {

thread_local cta_runner* current_runner = nullptr;

// AddressSanitizer has to know every change of stack. Elsewhere these do nothing.
void before_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] void const* bottom,
                   [[maybe_unused]] std::size_t bytes) {
#ifdef EXECUTOR_ASAN
  __sanitizer_start_switch_fiber(fake_stack, bottom, bytes);
#endif
}
void after_switch([[maybe_unused]] void* fake_stack, [[maybe_unused]] void const** old_bottom,
                  [[maybe_unused]] std::size_t* old_bytes) {
#ifdef EXECUTOR_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, old_bottom, old_bytes);
#endif
}
//! Forgets the frames of a fiber that was left in their middle.
void forget_frames([[maybe_unused]] fiber_stack const& stack) {
#ifdef EXECUTOR_ASAN
  __asan_unpoison_memory_region(stack.bottom(), fiber_stack::bytes);
#endif
}

bool is_same(site a, site b) {
  return a.line == b.line && (a.file == b.file || std::strcmp(a.file, b.file) == 0);
}
bool is_same(warp_call const& a, warp_call const& b) {
  return a.perform == b.perform && a.mask == b.mask && is_same(a.where, b.where) &&
         (a.name == b.name || std::strcmp(a.name, b.name) == 0);
}

std::string text(site where) { return std::string(where.file) + ":" + std::to_string(where.line); }

}  // namespace

fiber_stack::fiber_stack() {
  std::size_t constexpr guard = 4096;
  void* const memory =
      mmap(nullptr, bytes + guard, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    throw std::bad_alloc();
  }
  bottom_ = static_cast<char*>(memory) + guard;
  if (mprotect(bottom_, bytes, PROT_READ | PROT_WRITE) != 0) {
    throw std::bad_alloc();
  }
}

fiber_stack::~fiber_stack() { munmap(static_cast<char*>(bottom_) - 4096, bytes + 4096); }

cta_runner* cta_runner::current() { return current_runner; }

// ---- scheduling ---------------------------------------------------------------------------------

std::string cta_runner::run(kernel_launch const& launch, dim3 index, std::uint64_t seed) {
  launch_ = &launch;
  std::string().swap(report_);  // without a buffer, so that fault() leaves none behind
  performing_    = nowhere;
  random_        = random_source(seed);
  num_threads_   = launch.block.x * launch.block.y * launch.block.z;
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
      forget_frames(*stack);
    }
  }
  return report_;
}

//! Fresh threads and poisoned shared memory, of exactly the size that the launch asked for.
void cta_runner::start() {
  if (smem_ == nullptr || smem_bytes_ != launch_->smem_bytes) {
    std::size_t constexpr alignment = 128;
    void* memory                    = nullptr;
    if (posix_memalign(&memory, alignment, launch_->smem_bytes) != 0) {
      throw std::bad_alloc();
    }
    smem_       = {static_cast<unsigned char*>(memory), std::free};
    smem_bytes_ = launch_->smem_bytes;
  }
  bool const is_random = random_() % 2 != 0;
  for (std::size_t i = 0; i < smem_bytes_; ++i) {
    smem_.get()[i] = is_random ? static_cast<unsigned char>(random_()) : 0xff;
  }
  unsigned const num_warps = (num_threads_ + warp_lanes - 1) / warp_lanes;
  races_.begin_cta(smem_.get(), smem_bytes_, num_warps);
  num_live_       = num_threads_;
  num_at_barrier_ = votes_for_ = 0;
  lanes_.assign(num_threads_, lane{});
  warps_.resize(num_warps);
  for (unsigned w = 0; w < num_warps; ++w) {
    unsigned const lanes = std::min(num_threads_ - w * warp_lanes, unsigned{warp_lanes});
    warps_[w].live = warps_[w].runnable = lanes == warp_lanes ? every_lane : (1u << lanes) - 1;
    warps_[w].pending.clear();
  }
  while (stacks_.size() < num_threads_) {
    stacks_.push_back(std::make_unique<fiber_stack>());
  }
  for (unsigned t = 0; t < num_threads_; ++t) {
    lanes_[t].context = context::make_fcontext(stacks_[t]->top(), fiber_stack::bytes, &enter);
  }
}

//! Runs lanes of a warp, in a new order each time, until none can go on or chance ends it.
void cta_runner::run_some_warp() {
  auto const num_warps = static_cast<unsigned>(warps_.size());
  unsigned w           = random_.below(num_warps);
  for (unsigned tries = 0; warps_[w].runnable == 0; ++tries) {
    if (tries == num_warps) {
      report_ = with_states("threads wait for each other");
      return;
    }
    w = (w + 1) % num_warps;
  }
  do {
    // lane = (i * odd) xor any: a permutation of 0 .. 31
    unsigned const odd = random_() | 1u;
    unsigned const any = random_();
    for (unsigned i = 0; i < warp_lanes; ++i) {
      unsigned const lane = (i * odd ^ any) % warp_lanes;
      if ((warps_[w].runnable >> lane & 1u) != 0) {
        resume(w * warp_lanes + lane);
        if (!report_.empty()) {
          return;
        }
      }
    }
  } while (warps_[w].runnable != 0 && random_() % 8 != 0);
}

void cta_runner::resume(unsigned thread) {
  lane& chosen     = lanes_[thread];
  current_         = thread;
  unsigned const x = launch_->block.x;
  unsigned const y = launch_->block.y;
  threadIdx        = {thread % x, thread / x % y, thread / x / y};
  races_.set_thread(thread / warp_lanes, 1u << thread % warp_lanes);
  before_switch(&scheduler_fake_stack_, stacks_[thread]->bottom(), fiber_stack::bytes);
  context::fcontext_t const back = context::jump_fcontext(chosen.context, this).fctx;
  after_switch(scheduler_fake_stack_, nullptr, nullptr);
  chosen.context = back;
}

//! Back to the scheduler, from a fiber.
void cta_runner::suspend() {
  lane& self        = lanes_[current_];
  bool const exited = self.state == lane_state::exited;
  before_switch(exited ? nullptr : &self.fake_stack, scheduler_stack_, scheduler_stack_bytes_);
  scheduler_ = context::jump_fcontext(scheduler_, nullptr).fctx;
  after_switch(self.fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
}

void cta_runner::enter(context::transfer_t from) {
  cta_runner& self = *static_cast<cta_runner*>(from.data);
  self.scheduler_  = from.fctx;
  after_switch(nullptr, &self.scheduler_stack_, &self.scheduler_stack_bytes_);
  self.launch_->body();
  unsigned const w = self.current_ / warp_lanes;
  unsigned const l = 1u << self.current_ % warp_lanes;
  self.warps_[w].live &= ~l;
  self.warps_[w].runnable &= ~l;
  self.lanes_[self.current_].state = lane_state::exited;
  --self.num_live_;
  self.suspend();
}

void cta_runner::wait(lane_state state, char const* name, site where) {
  lane& self = lanes_[current_];
  self.state = state;
  self.name  = name;
  self.where = where;
  warps_[current_ / warp_lanes].runnable &= ~(1u << current_ % warp_lanes);
  suspend();
}

void cta_runner::make_runnable(unsigned warp_index, unsigned lanes) {
  warps_[warp_index].runnable |= lanes;
  for (unsigned l = 0; l < warp_lanes; ++l) {
    if ((lanes >> l & 1u) != 0) {
      lanes_[warp_index * warp_lanes + l].state = lane_state::runnable;
    }
  }
}

void cta_runner::maybe_yield() {
  if (random_() % 8 == 0) {
    suspend();
  }
}

// ---- convergence ----------------------------------------------------------------------------------

void cta_runner::converge(warp_call const& call, void* arguments) {
  unsigned const w   = current_ / warp_lanes;
  unsigned const l   = current_ % warp_lanes;
  unsigned const bit = 1u << l;
  auto& pending      = warps_[w].pending;
  if ((call.mask & bit) == 0) {
    fault(std::string(call.name) + " with a mask that lacks the calling lane", call.where);
  }
  if ((call.mask & ~warps_[w].live) != 0) {
    fault(with_states(std::string(call.name) + " waits for a lane that has exited"), call.where);
  }
  auto found = std::find_if(pending.begin(), pending.end(),
                            [&](auto const& other) { return is_same(other.call, call); });
  if (found == pending.end()) {
    pending.push_back({call, 0, {}});
    found = pending.end() - 1;
  }
  found->arrived |= bit;
  found->arguments[l] = arguments;
  if (found->arrived == call.mask) {
    auto const all = found->arguments;
    pending.erase(found);
    performing_ = call.where;
    call.perform(call.mask, all.data());
    performing_ = nowhere;
    make_runnable(w, call.mask);
    // The last to arrive need not be the first to go on.
    suspend();
    return;
  }
  wait(lane_state::at_warp_call, call.name, call.where);
}

namespace {

//! A call that does nothing but wait and order memory.
struct meeting {
  static void perform(unsigned, void* const*) { current_runner->races().end_warp_segment(); }
};

}  // namespace

void cta_runner::warp_barrier(unsigned mask, site where) {
  if (mask != every_lane) {
    fault("__syncwarp of part of a warp: the executor knows whole warps only", where);
  }
  converge({"__syncwarp", mask, where, &meeting::perform}, nullptr);
}

votes cta_runner::barrier(char const* name, int predicate, site where) {
  votes_for_ += predicate != 0 ? 1u : 0u;
  ++num_at_barrier_;
  if (num_at_barrier_ == num_threads_) {
    for (unsigned t = 0; t < num_threads_; ++t) {
      if (t != current_ && (lanes_[t].name != name || !is_same(lanes_[t].where, where))) {
        fault(with_states(std::string(name) + " meets another barrier"), where);
      }
    }
    outcome_        = {static_cast<int>(votes_for_), votes_for_ == num_threads_ ? 1 : 0};
    num_at_barrier_ = votes_for_ = 0;
    races_.end_phase();
    for (unsigned w = 0; w < warps_.size(); ++w) {
      make_runnable(w, warps_[w].live);
    }
    suspend();
  } else {
    wait(lane_state::at_barrier, name, where);
  }
  // No thread can pass the next barrier, and change this, before every thread was here.
  return outcome_;
}

// ---- reports --------------------------------------------------------------------------------------

//! A text, and where the threads are: the threads of each state together.
std::string cta_runner::with_states(std::string what) const {
  std::vector<std::pair<std::string, std::string>> threads_by_state;
  for (unsigned t = 0; t < num_threads_; ++t) {
    lane const& l = lanes_[t];
    std::string state;
    if (l.state == lane_state::exited) {
      state = "exited";
    } else if (l.state == lane_state::runnable) {
      state = t == current_ ? "here" : "running";
    } else {
      state = "in " + std::string(l.name) + " at " + text(l.where);
    }
    auto found = std::find_if(threads_by_state.begin(), threads_by_state.end(),
                              [&](auto const& entry) { return entry.first == state; });
    if (found == threads_by_state.end()) {
      found = threads_by_state.insert(found, {state, ""});
    }
    found->second += (found->second.empty() ? "" : ",") + std::to_string(t);
  }
  for (auto const& [state, threads] : threads_by_state) {
    what += "\n  " + state + ": threads " + threads;
  }
  return what;
}

void cta_runner::fault(std::string what, site where) {
  report_ = std::move(what);
  report_ += "\n  thread " + std::to_string(current_) + " (warp " +
             std::to_string(current_ / warp_lanes) + ", lane " +
             std::to_string(current_ % warp_lanes) + ")";
  if (where.line == 0) {
    where = performing_;
  }
  if (where.line != 0) {
    report_ += " at " + text(where);
  }
  suspend();
  std::abort();  // the scheduler never resumes a fiber of a CTA with a report
}

void* cta_runner::shared_memory(std::size_t bytes) {
  if (bytes > smem_bytes_) {
    fault("the kernel uses " + std::to_string(bytes) + " bytes of shared memory, the launch gave " +
              std::to_string(smem_bytes_),
          nowhere);
  }
  return smem_.get();
}

// ---- what device code calls -------------------------------------------------------------------------

void converge(warp_call const& call, void* arguments) { current_runner->converge(call, arguments); }
votes barrier(char const* name, int predicate, site where) {
  return current_runner->barrier(name, predicate, where);
}
void warp_barrier(unsigned mask, site where) { current_runner->warp_barrier(mask, where); }
void maybe_yield() { current_runner->maybe_yield(); }
void* shared_memory(std::size_t bytes) { return current_runner->shared_memory(bytes); }
unsigned current_lane() { return current_runner->thread() % warp_lanes; }
void fault(std::string&& what) { current_runner->fault(std::move(what), nowhere); }

}  // namespace executor
