// SPDX-License-Identifier: Apache-2.0
//! @file
//! Device memory that frees itself, and a problem's copy in it. Errors of the CUDA runtime end the
//! program with a message: a benchmark has nobody to hand them to.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include <pageunion/operands.hpp>
#include <pageunion/plan.hpp>
#include <pageunion/rules.hpp>
#include <pageunion/selection.hpp>
#include <pageunion/status.hpp>

#include "workload.hpp"

namespace pageunion::bench {

//! Ends the program unless the CUDA runtime agreed.
inline void check(cudaError_t error, char const* what) {
  if (error != cudaSuccess) {
    std::fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
    std::exit(EXIT_FAILURE);
  }
}

//! Ends the program unless the library agreed.
inline void check(status s, char const* what) {
  if (s != status::ok) {
    std::fprintf(stderr, "%s: %s\n", what, to_string(s));
    std::exit(EXIT_FAILURE);
  }
}

//! `size` elements of device memory, poisoned with 0xFF.
template <class T>
class device_array {
 public:
  device_array() = default;
  explicit device_array(std::size_t size) : size_(size) {
    check(cudaMalloc(&data_, bytes() == 0 ? 1 : bytes()), "cudaMalloc");
    check(cudaMemset(data_, 0xFF, bytes()), "cudaMemset");
  }
  explicit device_array(std::vector<T> const& values) : device_array(values.size()) {
    check(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), "upload");
  }
  device_array(device_array&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  device_array& operator=(device_array&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~device_array() { cudaFree(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t bytes() const { return size_ * sizeof(T); }
  std::vector<T> download() const {
    std::vector<T> values(size_);
    check(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost), "download");
    return values;
  }

 private:
  T* data_          = nullptr;
  std::size_t size_ = 0;
};

//! A problem on the device, with outputs.
class device_problem {
 public:
  explicit device_problem(problem const& p)
      : rows_(p.rows()),
        selected_(p.selection_view()),
        operands_(p.operands()),
        row_request_(p.row_request),
        row_position_(p.row_position),
        sequence_length_(p.sequence_length),
        block_table_(p.block_table),
        entries_(p.selected),
        counts_(p.counts),
        q_(p.q),
        kv_storage_(p.kv_storage),
        out_(p.q.size()),
        lse_(static_cast<std::size_t>(p.num_rows) * p.num_heads) {
    rows_.row_request            = row_request_.data();
    rows_.row_position           = row_position_.data();
    rows_.sequence_length        = sequence_length_.data();
    selected_.tokens.tokens      = entries_.data();
    selected_.tokens.counts      = p.counts.empty() ? nullptr : counts_.data();
    selected_.pages.pages        = entries_.data();
    operands_.q.data             = q_.data();
    operands_.cache.k            = kv_storage_.data() + p.k_offset;
    operands_.cache.v            = kv_storage_.data() + p.v_offset;
    operands_.cache.blocks.table = block_table_.data();
    operands_.out.data           = out_.data();
    operands_.lse.data           = lse_.data();
  }

  batch const& rows() const { return rows_; }
  selection const& selected() const { return selected_; }
  attention_operands const& operands() const { return operands_; }
  device_array<__half> const& out() const { return out_; }
  device_array<float> const& lse() const { return lse_; }

  //! Overwrites the outputs, so that a kernel that writes nothing is not taken for a right one.
  void poison_outputs() const {
    check(cudaMemset(out_.data(), 0xFF, out_.bytes()), "cudaMemset");
    check(cudaMemset(lse_.data(), 0xFF, lse_.bytes()), "cudaMemset");
  }

 private:
  batch rows_;
  selection selected_;
  attention_operands operands_;
  device_array<std::int32_t> row_request_;
  device_array<std::int64_t> row_position_;
  device_array<std::int32_t> sequence_length_;
  device_array<std::int32_t> block_table_;
  device_array<std::int32_t> entries_;
  device_array<std::int32_t> counts_;
  device_array<__half> q_;
  device_array<__half> kv_storage_;
  device_array<__half> out_;
  device_array<float> lse_;
};

//! Device memory of a plan for a problem's worst case.
template <class Geometry>
class device_plan {
 public:
  explicit device_plan(problem const& p)
      : device_plan(num_groups<Geometry>(p.num_rows),
                    static_cast<std::int32_t>(group_capacity<Geometry>(max_pages_per_row(
                        p.selection_view(), p.page_tokens, p.block_tokens, p.table_width)))) {}

  plan<Geometry> const& view() const { return view_; }

  device_array<page_address> const& addresses() const { return addresses_; }
  device_array<typename Geometry::mask_type> const& masks() const { return masks_; }
  device_array<std::int32_t> const& num_pages() const { return num_pages_; }

 private:
  device_plan(std::int32_t groups, std::int32_t capacity)
      : addresses_(static_cast<std::size_t>(groups) * capacity),
        masks_(static_cast<std::size_t>(groups) * capacity),
        num_pages_(static_cast<std::size_t>(groups)),
        view_{addresses_.data(), masks_.data(), num_pages_.data(), groups, capacity} {}

  device_array<page_address> addresses_;
  device_array<typename Geometry::mask_type> masks_;
  device_array<std::int32_t> num_pages_;
  plan<Geometry> view_;
};

}  // namespace pageunion::bench
