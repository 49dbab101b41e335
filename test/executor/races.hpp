// SPDX-License-Identifier: Apache-2.0
//! @file
//! Finds races on shared memory: two accesses to one byte, one of them a write, by different threads
//! with no barrier in between. Sees what the compiler instruments (-fsanitize=thread, without that
//! sanitizer's library) and what note_access() tells.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <executor/simt.hpp>

namespace executor {

//! What orders accesses here: a CTA barrier orders everything before it with everything after it, a
//! warp barrier the same for one warp. Time of a warp between two barriers is a segment; segments are
//! numbered over all warps. Shuffles, votes and WMMA operations order nothing.
class race_detector {
 public:
  void begin_cta(void const* smem, std::size_t bytes, unsigned num_warps);
  void end_cta() { bytes_ = 0; }
  //! Who runs from now on.
  void set_thread(unsigned warp, unsigned lane_bit) {
    warp_ = warp;
    lane_ = lane_bit;
  }
  //! A barrier of the current warp.
  void end_warp_segment() { segments_[warp_] = ++clock_; }
  //! A barrier of the CTA.
  void end_phase();

  //! Faults if the access races with one before it.
  void check(void const* address, std::size_t bytes, access kind, unsigned lanes,
             void const* where) {
    auto const first = static_cast<std::size_t>(static_cast<unsigned char const*>(address) - smem_);
    if (first < bytes_) {
      check_bytes(first, first + bytes, kind, lanes, where);
    }
  }
  void check(void const* address, std::size_t bytes, access kind, void const* where) {
    check(address, bytes, kind, lane_, where);
  }

 private:
  //! The last accesses of a kind to a byte: all that a later access has to be ordered after.
  struct record {
    std::uint32_t segment = 0;
    unsigned lanes        = 0;  // of the segment's warp
    std::uint64_t where : 48;   // code address of the last one
    std::uint64_t warp : 8;
    std::uint64_t is_atomic : 4;
    std::uint64_t has_other_warps : 4;  // unordered accesses of other warps came before
    record() : where(0), warp(0), is_atomic(0), has_other_warps(0) {}
  };
  struct byte_records {
    record write;
    record read;
  };

  void check_bytes(std::size_t first, std::size_t end, access kind, unsigned lanes,
                   void const* where);
  bool is_ordered(record const& earlier, unsigned lanes) const;
  void add(record& to, unsigned lanes, void const* where) const;
  std::string describe(std::size_t byte, record const& earlier, bool earlier_is_write, access kind,
                       void const* where) const;

  unsigned char const* smem_ = nullptr;
  std::size_t bytes_         = 0;
  unsigned warp_             = 0;
  unsigned lane_             = 0;
  std::uint32_t clock_       = 0;
  std::uint32_t phase_       = 0;  // segments up to this one ended before the last CTA barrier
  std::vector<std::uint32_t> segments_;  // current segment of every warp
  std::vector<byte_records> records_;
};

}  // namespace executor
