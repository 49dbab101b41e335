// SPDX-License-Identifier: Apache-2.0
//! @file
//! Finds races on shared memory: two accesses to one byte, one of them a write, by different threads
//! with no barrier in between. Sees what the compiler instruments (-fsanitize=thread, without that
//! sanitizer's library) and what check() is told besides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace executor {

enum class access_kind : unsigned char { read, write, atomic };

struct access {
  access_kind kind;
  unsigned lanes;     //!< of the current warp that may have made it
  void const* where;  //!< code address that follows it
};

//! What orders accesses here: a CTA barrier orders everything before it with everything after it, a
//! warp barrier the same for one warp. Time of a warp between two barriers is a segment; segments are
//! numbered over all warps. Shuffles, votes and WMMA operations order nothing.
class race_detector {
 public:
  void begin_cta(void const* smem, std::size_t bytes, unsigned num_warps);
  void end_cta() { bytes_ = 0; }
  //! Who runs from now on.
  void set_thread(unsigned warp, unsigned lane_bit) {
    warp_     = warp;
    lane_bit_ = lane_bit;
  }
  //! A barrier of the current warp.
  void end_warp_segment() { segments_[warp_] = ++clock_; }
  //! A barrier of the CTA.
  void end_phase();

  //! Faults if an access races with one before it.
  void check(void const* address, std::size_t bytes, access const& mine) {
    auto const first = static_cast<std::size_t>(static_cast<unsigned char const*>(address) - smem_);
    if (first < bytes_) {
      check_bytes(first, first + bytes, mine);
    }
  }
  void check(void const* address, std::size_t bytes, access_kind kind, void const* where) {
    check(address, bytes, {kind, lane_bit_, where});
  }

 private:
  //! The last accesses of a kind to a byte: all that a later access has to be ordered after.
  struct record {
    std::uint32_t segment = 0;
    unsigned lanes        = 0;        // of the segment's warp
    void const* where     = nullptr;  // code address of the last one
    std::uint8_t warp     = 0;
    bool has_other_warps  = false;  // unordered accesses of other warps came before
    access_kind kind      = access_kind::read;
  };
  struct byte_records {
    record write;
    record read;
  };

  void check_bytes(std::size_t first, std::size_t end, access const& mine);
  bool is_ordered(record const& earlier, access const& mine) const;
  void add(record& to, access const& mine) const;
  [[noreturn]] void report(std::size_t byte, record const& earlier, access const& mine) const;

  unsigned char const* smem_ = nullptr;
  std::size_t bytes_         = 0;
  unsigned warp_             = 0;
  unsigned lane_bit_         = 0;
  std::uint32_t clock_       = 0;
  std::uint32_t phase_       = 0;  // segments up to this one ended before the last CTA barrier
  std::vector<std::uint32_t> segments_;  // current segment of every warp
  std::vector<byte_records> records_;
};

//! Of the CTA that runs.
extern race_detector races;

}  // namespace executor
