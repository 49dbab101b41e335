// SPDX-License-Identifier: Apache-2.0
//! @file
//! One CTA on one host thread: its threads as fibers, its shared memory, the
//! scheduler.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

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
  using result_type = std::uint32_t;
  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return 0xffffffffu; }

  explicit random_source(std::uint64_t state = 1) : state_(state | 1u) {}
  result_type operator()() {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return static_cast<result_type>(state_ * 0x2545f4914f6cdd1dull >> 32);
  }

 private:
  std::uint64_t state_;
};

//! Runs CTAs one after the other. Keeps what they need from one to the next.
class cta_runner {
 public:
  ~cta_runner();
  //! Runs a CTA. Returns its report, "" if nothing was wrong.
  std::string run(kernel_launch const& launch, dim3 index, std::uint64_t seed);

  // What device code reaches through current().
  void join(joint_call const& call, void* mine);
  void maybe_yield();
  [[noreturn]] void fault(std::string&& what);
  void* shared_memory(std::size_t bytes);
  unsigned thread() const { return current_; }
  race_detector& races() { return races_; }

  //! The runner of the CTA that runs on this host thread, null outside of a
  //! CTA.
  static cta_runner* current();

 private:
  //! A CUDA thread.
  struct fiber {
    boost::context::detail::fcontext_t context = nullptr;
    joint_call const* waits_in                 = nullptr;
    bool has_exited                            = false;
    void* fake_stack                           = nullptr;  //!< AddressSanitizer's
  };
  //! A joint call that waits for more threads.
  struct meeting {
    joint_call const* call;  //!< of the first that came, on its stack
    unsigned first_thread;   //!< thread that brought[0] is for
    unsigned num_missing;
    arguments brought;
  };

  void start();
  void run_some_warp();
  void resume(unsigned thread);
  void suspend();
  void set_runnable(unsigned thread, bool is_runnable);
  std::string states() const;
  static void enter(boost::context::detail::transfer_t from);

  kernel_launch const* launch_ = nullptr;
  unsigned num_threads_        = 0;
  unsigned num_live_           = 0;
  unsigned current_            = 0;  // thread that runs, or ran last
  std::string report_;
  random_source random_;
  std::vector<fiber> fibers_;
  std::vector<unsigned> runnable_;  // lanes of each warp that can run, one bit each
  std::vector<meeting> meetings_;
  arguments brought_;                      // to the call that is performed
  joint_call const* performed_ = nullptr;  // that call, or the one that a thread begins
  std::vector<boost::context::stack_context> stacks_;
  std::unique_ptr<unsigned char, void (*)(void*)> smem_{nullptr, nullptr};
  race_detector races_;

  boost::context::detail::fcontext_t scheduler_ = nullptr;
  void* scheduler_fake_stack_                   = nullptr;
  void const* scheduler_stack_                  = nullptr;  // of the host thread, bottom
  std::size_t scheduler_stack_bytes_            = 0;
};

}  // namespace executor
