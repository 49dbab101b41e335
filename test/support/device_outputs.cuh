// SPDX-License-Identifier: Apache-2.0
//! @file
//! An attention's output and lse in device memory: poisoned, read back, and what nobody may write.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <pageunion/operands.hpp>

#include "device_array.cuh"
#include "random.hpp"

namespace pageunion::test {

//! Out and lse of a call, in arrays of any strides.
class device_outputs {
 public:
  //! @param out, lse types and strides; their addresses are not looked at
  device_outputs(int num_rows, int num_heads, int head_dim, output_view const& out,
                 lse_view const& lse)
      : num_rows_(num_rows),
        num_heads_(num_heads),
        head_dim_(head_dim),
        out_(size_of(out) * element_bytes(out.type)),
        lse_(size_of(lse) * sizeof(float)),
        out_view_(out),
        lse_view_(lse) {
    out_view_.data = out_.data();
    lse_view_.data = lse_.as<float>();
  }

  output_view const& view_of_out() const { return out_view_; }
  lse_view const& view_of_lse() const { return lse_view_; }

  void poison() const {
    out_.poison();
    lse_.poison();
  }

  //! The output, [num_rows, num_heads, head_dim].
  std::vector<double> out() const {
    std::vector<unsigned char> const bytes = out_.download<unsigned char>();
    std::vector<double> values;
    for (std::int64_t item = 0; item < num_items(); ++item) {
      for (int dim = 0; dim < head_dim_; ++dim) {
        values.push_back(value_at(bytes.data() + out_byte(item) + dim * element_bytes(type())));
      }
    }
    return values;
  }

  //! The lse, [num_rows, num_heads], in the base that the call asks for.
  std::vector<double> lse() const {
    std::vector<float> const stored = lse_.download<float>();
    std::vector<double> values;
    for (std::int64_t item = 0; item < num_items(); ++item) {
      values.push_back(stored[lse_byte(item) / sizeof(float)]);
    }
    return values;
  }

  //! Every byte of out and lse, gaps included: equal bits, equal vectors.
  std::vector<unsigned char> bytes() const {
    std::vector<unsigned char> bytes     = out_.download<unsigned char>();
    std::vector<unsigned char> const lse = lse_.download<unsigned char>();
    bytes.insert(bytes.end(), lse.begin(), lse.end());
    return bytes;
  }

  //! Replaces in bytes() those of a row's head.
  void overwrite(std::vector<unsigned char>& bytes, int row, int head, unsigned char value) const {
    std::int64_t const item = std::int64_t{row} * num_heads_ + head;
    std::memset(bytes.data() + out_byte(item), value, head_dim_ * element_bytes(type()));
    std::memset(bytes.data() + out_.size_bytes() + lse_byte(item), value, sizeof(float));
  }

  //! Those of bytes() that belong to a row.
  std::vector<unsigned char> bytes_of_row(std::vector<unsigned char> const& bytes, int row) const {
    auto const out = bytes.begin() + row * out_view_.row_stride * element_bytes(type());
    auto const lse = bytes.begin() + out_.size_bytes() + row * lse_view_.row_stride * sizeof(float);
    std::vector<unsigned char> found(out, out + out_view_.row_stride * element_bytes(type()));
    found.insert(found.end(), lse, lse + lse_view_.row_stride * sizeof(float));
    return found;
  }

  //! True if no byte of out and lse was written since they were poisoned.
  bool are_untouched() const { return are_poison(bytes()); }

  //! Names what a call must not have written and did; empty if nothing.
  std::string damage() const {
    std::vector<unsigned char> gaps = bytes();
    for (int row = 0; row < num_rows_; ++row) {
      for (int head = 0; head < num_heads_; ++head) {
        overwrite(gaps, row, head, poison_value);
      }
    }
    std::string found;
    found += out_.is_guarded() ? "" : "guard bytes of out; ";
    found += lse_.is_guarded() ? "" : "guard bytes of lse; ";
    found += are_poison(gaps) ? "" : "gaps of out or lse; ";
    return found;
  }

 private:
  static constexpr unsigned char poison_value = 0xff;

  element_type type() const { return out_view_.type; }
  static int element_bytes(element_type type) { return type == element_type::f16 ? 2 : 4; }

  //! Elements of an array: up to the end of the outer of its two axes.
  template <class View>
  std::size_t size_of(View const& view) const {
    std::int64_t const rows = num_rows_ * view.row_stride, heads = num_heads_ * view.head_stride;
    return num_rows_ == 0 ? 0 : static_cast<std::size_t>(rows > heads ? rows : heads);
  }

  std::int64_t num_items() const { return std::int64_t{num_rows_} * num_heads_; }

  //! Where the output of an item, a row's head, begins in its array.
  std::size_t out_byte(std::int64_t item) const {
    return element_bytes(type()) * at(item, out_view_);
  }
  std::size_t lse_byte(std::int64_t item) const { return sizeof(float) * at(item, lse_view_); }
  template <class View>
  std::size_t at(std::int64_t item, View const& view) const {
    return static_cast<std::size_t>(item / num_heads_ * view.row_stride +
                                    item % num_heads_ * view.head_stride);
  }

  double value_at(unsigned char const* bytes) const {
    if (type() == element_type::f32) {
      float value = 0.0f;
      std::memcpy(&value, bytes, sizeof(value));
      return value;
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes, sizeof(bits));
    return half_value(bits);
  }

  static bool are_poison(std::vector<unsigned char> const& bytes) {
    return std::all_of(bytes.begin(), bytes.end(), [](auto byte) { return byte == poison_value; });
  }

  int num_rows_;
  int num_heads_;
  int head_dim_;
  device_array out_;
  device_array lse_;
  output_view out_view_;
  lse_view lse_view_;
};

}  // namespace pageunion::test
