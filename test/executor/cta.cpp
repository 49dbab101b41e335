// SPDX-License-Identifier: Apache-2.0
#include "cta.hpp"

#include <boost/align/aligned_allocator.hpp>
#include <boost/context/detail/fcontext.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include <executor/simt.hpp>

#include "races.hpp"

// AddressSanitizer has to know every change of stack, and that a fiber was left in its middle.
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

namespace context = boost::context;

namespace {

//! A CUDA thread.
struct fiber {
  context::detail::fcontext_t position = nullptr;
  joint_call const* waits_in           = nullptr;
  void* fake_stack                     = nullptr;  //!< AddressSanitizer's
};

//! A joint call that waits for more threads.
struct meeting {
  joint_call const* call;  //!< of the first that came, on its stack
  unsigned first_thread;   //!< thread that brought[0] is for
  unsigned num_missing;
  arguments brought;
};

//! The one CTA that runs, or the last one: device code has no other way to know it.
struct {
  kernel_launch const* launch = nullptr;
  unsigned num_warps          = 0;
  unsigned num_live           = 0;  // threads that have not exited
  unsigned thread             = 0;  // that runs, or ran last
  std::string report;
  std::mt19937 random;
  std::vector<fiber> fibers;
  std::vector<meeting> meetings;
  arguments brought;                           // to the call that is performed
  joint_call const* performed = nullptr;       // that call, or the one that a thread begins
  std::vector<context::stack_context> stacks;  // kept until the process ends
  std::vector<unsigned char, boost::alignment::aligned_allocator<unsigned char, 128>> smem;

  context::detail::fcontext_t scheduler = nullptr;
  void* scheduler_fake_stack            = nullptr;
  void const* scheduler_stack           = nullptr;  // its bottom
  std::size_t scheduler_stack_bytes     = 0;
} cta;

joint_call const exit_call{"exit", site(), whole_cta, nullptr};

unsigned lane_bit() { return 1u << current_lane(); }

void* bottom(context::stack_context const& stack) {
  return static_cast<char*>(stack.sp) - stack.size;
}

//! Runs a fiber until it suspends itself.
void resume(unsigned thread) {
  cta.thread = thread;
  threadIdx  = {thread, 0, 0};
  races.set_thread(thread / warp_lanes, lane_bit());
  fiber& next = cta.fibers[thread];
  __sanitizer_start_switch_fiber(&cta.scheduler_fake_stack, bottom(cta.stacks[thread]),
                                 cta.stacks[thread].size);
  next.position = context::detail::jump_fcontext(next.position, nullptr).fctx;
  __sanitizer_finish_switch_fiber(cta.scheduler_fake_stack, nullptr, nullptr);
}

//! Back to the scheduler, from a fiber.
void suspend() {
  fiber& self = cta.fibers[cta.thread];
  __sanitizer_start_switch_fiber(self.waits_in == &exit_call ? nullptr : &self.fake_stack,
                                 cta.scheduler_stack, cta.scheduler_stack_bytes);
  cta.scheduler = context::detail::jump_fcontext(cta.scheduler, nullptr).fctx;
  __sanitizer_finish_switch_fiber(self.fake_stack, &cta.scheduler_stack,
                                  &cta.scheduler_stack_bytes);
}

//! What a fiber does.
void run_thread(context::detail::transfer_t from) {
  cta.scheduler = from.fctx;
  __sanitizer_finish_switch_fiber(nullptr, &cta.scheduler_stack, &cta.scheduler_stack_bytes);
  cta.launch->body();
  cta.fibers[cta.thread].waits_in = &exit_call;
  --cta.num_live;
  suspend();
}

//! Fresh threads and poisoned shared memory, of exactly the size that the launch asked for.
void start(kernel_launch const& launch) {
  cta.launch = &launch;
  cta.smem   = decltype(cta.smem)(launch.smem_bytes, 0xff);
  if (cta.random() % 2 != 0) {
    std::generate(cta.smem.begin(), cta.smem.end(), std::ref(cta.random));
  }
  cta.num_live  = launch.block.x;
  cta.num_warps = (cta.num_live + warp_lanes - 1) / warp_lanes;
  cta.performed = nullptr;
  cta.meetings.clear();
  cta.fibers.assign(cta.num_live, {});
  while (cta.stacks.size() < cta.num_live) {
    cta.stacks.push_back(context::protected_fixedsize_stack(256 * 1024).allocate());
  }
  for (unsigned t = 0; t < cta.num_live; ++t) {
    context::stack_context const& stack = cta.stacks[t];
    cta.fibers[t].position = context::detail::make_fcontext(stack.sp, stack.size, &run_thread);
  }
  races.begin_cta(cta.smem.data(), cta.smem.size(), cta.num_warps);
}

//! Runs lanes of a warp, in a new order each time, until none can go on or chance ends it. Returns
//! false if none could.
bool run_warp(unsigned warp) {
  bool has_run = false;
  bool goes_on = true;
  while (goes_on) {
    goes_on = false;
    // lane = (i * odd) xor any: a permutation of 0 .. 31
    auto const odd = static_cast<unsigned>(cta.random() | 1u);
    auto const any = static_cast<unsigned>(cta.random());
    for (unsigned i = 0; i < warp_lanes && cta.report.empty(); ++i) {
      unsigned const t = warp * warp_lanes + (i * odd ^ any) % warp_lanes;
      if (t < cta.fibers.size() && cta.fibers[t].waits_in == nullptr) {
        resume(t);
        goes_on = has_run = true;
      }
    }
    goes_on = goes_on && cta.random() % 8 != 0;
  }
  return has_run;
}

bool is_same(joint_call const& a, joint_call const& b) {
  return a.perform == b.perform && a.mask == b.mask && a.where.line == b.where.line &&
         std::strcmp(a.where.file, b.where.file) == 0 && std::strcmp(a.name, b.name) == 0;
}

std::string text(joint_call const& call) {
  return std::string(call.name) + " at " + call.where.file + ":" + std::to_string(call.where.line);
}

//! Where the threads are, if none of them can run: the threads of each place together.
std::string states() {
  std::map<std::string, std::string> threads;
  for (std::size_t t = 0; t < cta.fibers.size(); ++t) {
    joint_call const& call = *cta.fibers[t].waits_in;
    threads[&call == &exit_call ? "exited" : "in " + text(call)] += "," + std::to_string(t);
  }
  std::string lines;
  for (auto const& [state, list] : threads) {
    lines += "\n  " + state + ": threads " + list.substr(1);
  }
  return lines;
}

}  // namespace

std::string run_cta(kernel_launch const& launch, dim3 index, std::mt19937 const& random) {
  std::string().swap(cta.report);  // without a buffer, so that fault() leaves none behind
  cta.random = random;
  blockIdx   = {index.x, index.y, 0};
  blockDim   = launch.block;
  gridDim    = launch.grid;
  start(launch);
  while (cta.num_live != 0 && cta.report.empty()) {
    auto const first = static_cast<unsigned>(cta.random());
    unsigned tried   = 0;
    while (tried < cta.num_warps && !run_warp((first + tried) % cta.num_warps)) {
      ++tried;
    }
    if (tried == cta.num_warps) {
      cta.report = "threads wait for each other" + states();
    }
  }
  races.end_cta();
  if (!cta.report.empty()) {
    for (context::stack_context const& stack : cta.stacks) {
      __asan_unpoison_memory_region(bottom(stack), stack.size);
    }
  }
  return cta.report;
}

// ---- what device code calls ----

unsigned current_lane() { return cta.thread % warp_lanes; }

void* shared_memory(std::size_t bytes) {
  if (bytes > cta.smem.size()) {
    fault("the kernel uses " + std::to_string(bytes) + " bytes of shared memory, the launch gave " +
          std::to_string(cta.smem.size()));
  }
  return cta.smem.data();
}

void fault(std::string&& what) {
  cta.report = std::move(what);
  cta.report += "\n  thread " + std::to_string(cta.thread) + " (warp " +
                std::to_string(cta.thread / warp_lanes) + ", lane " +
                std::to_string(current_lane()) + ")";
  if (cta.performed != nullptr) {
    cta.report += ", in " + text(*cta.performed);
  }
  suspend();
  std::abort();  // the scheduler never resumes a fiber of a CTA with a report
}

void join(joint_call const& call, void* mine) {
  bool const is_of_warp = call.mask != whole_cta;
  unsigned const first  = is_of_warp ? cta.thread - current_lane() : 0;
  cta.performed         = &call;
  if (is_of_warp && (call.mask & lane_bit()) == 0) {
    fault("the mask lacks the calling lane");
  }
  auto found = std::find_if(cta.meetings.begin(), cta.meetings.end(), [&](meeting const& other) {
    return other.first_thread == first && is_same(*other.call, call);
  });
  if (found == cta.meetings.end()) {
    std::size_t const size = is_of_warp ? warp_lanes : cta.fibers.size();
    unsigned const num_missing =
        is_of_warp ? static_cast<unsigned>(__builtin_popcount(call.mask)) : blockDim.x;
    cta.meetings.push_back({&call, first, num_missing, arguments(size, nullptr)});
    found = cta.meetings.end() - 1;
  }
  found->brought[cta.thread - first] = mine;
  if (--found->num_missing != 0) {
    cta.performed                   = nullptr;
    cta.fibers[cta.thread].waits_in = &call;
    suspend();
    return;
  }
  cta.brought = std::move(found->brought);
  cta.meetings.erase(found);
  call.perform(cta.brought);
  cta.performed = nullptr;
  if (!is_of_warp) {
    races.end_phase();  // whatever a whole CTA does together is a barrier
  }
  for (std::size_t i = 0; i < cta.brought.size(); ++i) {
    if (cta.brought[i] != nullptr) {
      cta.fibers[first + i].waits_in = nullptr;
    }
  }
  // The last to come need not be the first to go on.
  suspend();
}

void vote::perform(arguments const& all) {
  unsigned ballot = 0;
  for_each<vote>(
      all, [&](unsigned i, vote& mine) { ballot |= mine.predicate ? 1u << i % warp_lanes : 0u; });
  for_each<vote>(all, [&](unsigned, vote& mine) { mine.ballot = ballot; });
}

void warp_barrier::perform(arguments const&) { races.end_warp_segment(); }

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
  if (cta.random() % 8 == 0) {
    suspend();
  }
  races.check(address, sizeof(T), {access_kind::atomic, lane_bit(), __builtin_return_address(0)});
  return std::exchange(*address, next(*address, operand));
}
template <class T>
using binary = T(T, T);
template unsigned change_atomically(unsigned*, unsigned, binary<unsigned>*);
template unsigned long long change_atomically(unsigned long long*, unsigned long long,
                                              binary<unsigned long long>*);

}  // namespace executor
