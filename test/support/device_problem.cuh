// SPDX-License-Identifier: Apache-2.0
//! @file
//! A host_problem's arrays in device memory, poisoned outputs, and what must hold after a call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "device_array.cuh"
#include "problem.hpp"
#include "random.hpp"

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
        out_(p.out_elements() * p.out_element_bytes()),
        lse_(p.lse_elements() * sizeof(float)) {}

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

  void poison_outputs() {
    out_.poison();
    lse_.poison();
  }

  //! The output, [num_rows, num_heads, head_dim].
  std::vector<double> out() const {
    std::vector<unsigned char> const bytes = out_.download<unsigned char>();
    std::vector<double> values;
    for_each_output([&](std::size_t element) {
      unsigned char const* const at = bytes.data() + element * host_.out_element_bytes();
      if (host_.spec.out_type == element_type::f32) {
        float value = 0.0f;
        std::memcpy(&value, at, sizeof(value));
        values.push_back(static_cast<double>(value));
      } else {
        std::uint16_t bits = 0;
        std::memcpy(&bits, at, sizeof(bits));
        values.push_back(half_value(bits));
      }
    });
    return values;
  }

  //! The lse, [num_rows, num_heads], in the base that the problem asks for.
  std::vector<double> lse() const {
    std::vector<float> const stored = lse_.download<float>();
    std::vector<double> values;
    for (std::size_t row = 0; row < num_rows(); ++row) {
      for (std::size_t h = 0; h < num_heads(); ++h) {
        values.push_back(
            static_cast<double>(stored[row * static_cast<std::size_t>(host_.lse_row_stride) + h]));
      }
    }
    return values;
  }

  //! Every byte of out and lse, gaps included: equal bits, equal vectors.
  std::vector<unsigned char> output_bytes() const {
    std::vector<unsigned char> bytes     = out_.download<unsigned char>();
    std::vector<unsigned char> const lse = lse_.download<unsigned char>();
    bytes.insert(bytes.end(), lse.begin(), lse.end());
    return bytes;
  }

  //! True if no byte of out and lse was written since they were poisoned.
  bool is_output_untouched() const {
    for (unsigned char const byte : output_bytes()) {
      if (byte != 0xff) {
        return false;
      }
    }
    return true;
  }

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
    found += out_.is_guarded() ? "" : "guard bytes of out; ";
    found += lse_.is_guarded() ? "" : "guard bytes of lse; ";
    found += are_gaps_untouched() ? "" : "gaps of out or lse; ";
    return found;
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
    a.counts          = host_.counts.empty() ? nullptr : counts_.as<std::int32_t>();
    a.out             = out_.data();
    a.lse             = lse_.as<float>();
    return a;
  }

  std::size_t num_rows() const { return static_cast<std::size_t>(host_.spec.num_rows); }
  std::size_t num_heads() const { return static_cast<std::size_t>(host_.num_heads()); }

  //! Calls body(offset in out) for every element of the output, in order.
  template <class Body>
  void for_each_output(Body body) const {
    for (std::size_t row = 0; row < num_rows(); ++row) {
      for (std::size_t h = 0; h < num_heads(); ++h) {
        std::size_t const first = row * static_cast<std::size_t>(host_.out_row_stride) +
                                  h * static_cast<std::size_t>(host_.out_head_stride);
        for (std::size_t d = 0; d < static_cast<std::size_t>(host_.spec.head_dim); ++d) {
          body(first + d);
        }
      }
    }
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

  bool are_gaps_untouched() const {
    std::size_t const element_bytes  = host_.out_element_bytes();
    std::vector<unsigned char> bytes = out_.download<unsigned char>();
    for_each_output([&](std::size_t element) {
      std::memset(bytes.data() + element * element_bytes, 0xff, element_bytes);
    });
    std::vector<unsigned char> lse = lse_.download<unsigned char>();
    for (std::size_t row = 0; row < num_rows(); ++row) {
      std::memset(lse.data() + row * static_cast<std::size_t>(host_.lse_row_stride) * sizeof(float),
                  0xff, num_heads() * sizeof(float));
    }
    bytes.insert(bytes.end(), lse.begin(), lse.end());
    for (unsigned char const byte : bytes) {
      if (byte != 0xff) {
        return false;
      }
    }
    return true;
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
  device_array out_;
  device_array lse_;
};

}  // namespace pageunion::test
