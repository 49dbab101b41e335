// SPDX-License-Identifier: Apache-2.0
//! @file
//! One CTA on one host thread: its threads as fibers, its warps, its shared memory, the scheduler.
#pragma once

#include <boost/context/detail/fcontext.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <executor/launch.hpp>
#include <executor/simt.hpp>

#include "races.hpp"

namespace executor {

//! xorshift64*: cheap, and good enough to choose orders.
class random_source {
 public:
  explicit random_source(std::uint64_t state = 1) : state_(state | 1u) {}
  std::uint32_t operator()() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<std::uint32_t>(state_ * 0x2545f4914f6cdd1dull >> 32);
  }
  //! A number below `end`.
  std::uint32_t below(std::uint32_t end) {
    return static_cast<std::uint32_t>(std::uint64_t{(*this)()} * end >> 32);
  }

 private:
  std::uint64_t state_;
};

//! A fiber's stack between guard pages, kept for the fibers that follow.
class fiber_stack {
 public:
  static constexpr std::size_t bytes = 256 * 1024;

  fiber_stack();
  ~fiber_stack();
  fiber_stack(fiber_stack const&)            = delete;
  fiber_stack& operator=(fiber_stack const&) = delete;

  void* bottom() const { return bottom_; }
  void* top() const { return static_cast<char*>(bottom_) + bytes; }

 private:
  void* bottom_;
};

enum class lane_state : std::uint8_t { runnable, at_warp_call, at_barrier, exited };

//! A CUDA thread.
struct lane {
  boost::context::detail::fcontext_t context = nullptr;
  lane_state state                           = lane_state::runnable;
  char const* name                           = "";       //!< of the call that it waits in
  site where                                 = nowhere;  //!< of that call
  void* fake_stack                           = nullptr;  //!< AddressSanitizer's
};

struct warp {
  //! Lanes that have arrived at a call that waits for more.
  struct pending_call {
    warp_call call;
    unsigned arrived;
    std::array<void*, warp_lanes> arguments;
  };

  unsigned runnable = 0;  //!< lanes that can run, one bit each
  unsigned live     = 0;  //!< lanes that have not exited
  std::vector<pending_call> pending;
};

//! Runs CTAs one after the other. Keeps what they need from one to the next.
class cta_runner {
 public:
  //! Runs a CTA. Returns its report, "" if nothing was wrong.
  std::string run(kernel_launch const& launch, dim3 index, std::uint64_t seed);

  // What device code reaches through current().
  void converge(warp_call const& call, void* arguments);
  votes barrier(char const* name, int predicate, site where);
  void warp_barrier(unsigned mask, site where);
  void maybe_yield();
  [[noreturn]] void fault(std::string what, site where);
  void* shared_memory(std::size_t bytes);
  unsigned thread() const { return current_; }
  race_detector& races() { return races_; }

  //! The runner of the CTA that runs on this host thread, null outside of a CTA.
  static cta_runner* current();

 private:
  void start();
  void run_some_warp();
  void resume(unsigned thread);
  void suspend();
  void wait(lane_state state, char const* name, site where);
  void make_runnable(unsigned warp_index, unsigned lanes);
  void end_barrier();
  std::string with_states(std::string what) const;
  static void enter(boost::context::detail::transfer_t from);

  kernel_launch const* launch_ = nullptr;
  unsigned num_threads_        = 0;
  unsigned current_            = 0;  // thread that runs, or ran last
  unsigned num_live_           = 0;
  unsigned num_at_barrier_     = 0;
  unsigned votes_for_          = 0;
  votes outcome_;              // of the barrier that ended last
  site performing_ = nowhere;  // the warp operation in progress
  std::string report_;
  random_source random_;
  std::vector<lane> lanes_;
  std::vector<warp> warps_;
  std::vector<std::unique_ptr<fiber_stack>> stacks_;
  std::unique_ptr<unsigned char, void (*)(void*)> smem_{nullptr, nullptr};
  std::size_t smem_bytes_ = 0;
  race_detector races_;

  boost::context::detail::fcontext_t scheduler_ = nullptr;
  void* scheduler_fake_stack_                   = nullptr;
  void const* scheduler_stack_                  = nullptr;  // of the host thread, bottom
  std::size_t scheduler_stack_bytes_            = 0;
};

}  // namespace executor
