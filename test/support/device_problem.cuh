// SPDX-License-Identifier: Apache-2.0
//! @file
//! A host_problem's arrays in device memory, its outputs, and what must hold after a call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "device_array.cuh"
#include "device_outputs.cuh"
#include "problem.hpp"

namespace pageunion::test {

//! The problem on the device. Every array is an allocation of its own between guard bytes.
class device_problem {
 public:
  explicit device_problem(host_problem const& p)
      : host_(p),
        row_request_(p.row_request),
        row_position_(p.row_position),
        sequence_length_(p.sequence_length),
        q_(p.q_data),
        k_(p.k_data),
        v_(p.v_data),
        block_entries_(p.block_entries),
        entries_(p.entries),
        counts_(p.counts),
        outputs_(p.num_rows, p.num_heads(), p.head_dim, p.operands().out, p.operands().lse) {}

  //! Replaces the contents of every input by another problem's of the same shapes: what happens
  //! between two replays of a graph. Pointers stay.
  void upload(host_problem const& p) {
    row_request_.upload(p.row_request);
    row_position_.upload(p.row_position);
    sequence_length_.upload(p.sequence_length);
    q_.upload(p.q_data);
    k_.upload(p.k_data);
    v_.upload(p.v_data);
    block_entries_.upload(p.block_entries);
    entries_.upload(p.entries);
    counts_.upload(p.counts);
    host_ = p;
  }

  host_problem const& host() const { return host_; }
  device_outputs const& outputs() const { return outputs_; }
  batch rows() const { return host_.rows(arrays()); }
  selection selected() const { return host_.selected(arrays()); }
  //! Without a cache block K and V are null, which is legal then.
  attention_operands operands() const {
    attention_operands all = host_.operands(arrays());
    if (host_.num_blocks == 0) {
      all.cache.k = nullptr;
      all.cache.v = nullptr;
    }
    return all;
  }

  void poison_outputs() const { outputs_.poison(); }
  std::vector<double> out() const { return outputs_.out(); }
  std::vector<double> lse() const { return outputs_.lse(); }
  std::vector<unsigned char> output_bytes() const { return outputs_.bytes(); }
  bool is_output_untouched() const { return outputs_.are_untouched(); }

  //! Names what a call must not have changed and did: guard bytes, inputs, the gaps between output
  //! rows and heads. Empty if nothing.
  std::string damage() const {
    std::string found;
    check_input(found, "row_request", row_request_, host_.row_request);
    check_input(found, "row_position", row_position_, host_.row_position);
    check_input(found, "sequence_length", sequence_length_, host_.sequence_length);
    check_input(found, "q", q_, host_.q_data);
    check_input(found, "k", k_, host_.k_data);
    check_input(found, "v", v_, host_.v_data);
    check_input(found, "block_table", block_entries_, host_.block_entries);
    check_input(found, "entries", entries_, host_.entries);
    check_input(found, "counts", counts_, host_.counts);
    return found + outputs_.damage();
  }

 private:
  problem_arrays arrays() const {
    problem_arrays a;
    a.row_request     = row_request_.as<std::int32_t>();
    a.row_position    = row_position_.as<std::int64_t>();
    a.sequence_length = sequence_length_.as<std::int32_t>();
    a.q               = q_.as<std::uint16_t>();
    a.k               = k_.as<std::uint16_t>();
    a.v               = host_.v_data.empty() ? nullptr : v_.as<std::uint16_t>();
    a.block_entries   = block_entries_.as<std::int32_t>();
    a.entries         = entries_.as<std::int32_t>();
    a.counts          = counts_.as<std::int32_t>();
    a.out             = outputs_.view_of_out().data;
    a.lse             = outputs_.view_of_lse().data;
    return a;
  }

  template <class Value>
  static void check_input(std::string& found, char const* name, device_array const& array,
                          std::vector<Value> const& expected) {
    if (!array.is_guarded()) {
      found += std::string("guard bytes of ") + name + "; ";
    }
    if (array.download<Value>() != expected) {
      found += std::string("input ") + name + "; ";
    }
  }

  host_problem host_;
  device_array row_request_;
  device_array row_position_;
  device_array sequence_length_;
  device_array q_;
  device_array k_;
  device_array v_;
  device_array block_entries_;
  device_array entries_;
  device_array counts_;
  device_outputs outputs_;
};

}  // namespace pageunion::test
