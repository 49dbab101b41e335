// SPDX-License-Identifier: Apache-2.0
//! @file
//! Device memory between guard bytes. A CUDA error in a test is an exception.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace pageunion::test {

//! Throws if a call of the CUDA runtime failed.
inline void require_cuda(cudaError_t error, char const* what) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
  }
}

//! Bytes of device memory that nobody initialised but to 0xff: NaN as half or float, -1 as an
//! integer. Guard bytes stand directly before and after them. 256-byte aligned.
class device_array {
 public:
  explicit device_array(std::size_t bytes) : bytes_(bytes) {
    require_cuda(cudaMalloc(&base_, bytes_ + 2 * guard_bytes), "cudaMalloc");
    require_cuda(cudaMemset(base_, guard_value, bytes_ + 2 * guard_bytes), "cudaMemset");
    poison();
  }

  //! A copy of a host array.
  template <class Value>
  explicit device_array(std::vector<Value> const& values)
      : device_array(values.size() * sizeof(Value)) {
    upload(values);
  }

  device_array(device_array&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  device_array& operator=(device_array&& other) noexcept {
    std::swap(base_, other.base_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  // Nothing can be done about an error here.
  ~device_array() { static_cast<void>(cudaFree(base_)); }

  void* data() const { return base_ + guard_bytes; }
  std::size_t size_bytes() const { return bytes_; }

  //! The array as Value.
  template <class Value>
  Value* as() const {
    return static_cast<Value*>(data());
  }

  //! Waits: the default stream's work is not ordered before that of a test's non-blocking stream.
  void poison() const {
    require_cuda(cudaMemset(data(), 0xff, bytes_), "cudaMemset");
    require_cuda(cudaDeviceSynchronize(), "poison");
  }

  //! Replaces the contents by a host array of the same size, and waits likewise.
  template <class Value>
  void upload(std::vector<Value> const& values) {
    if (values.size() * sizeof(Value) != bytes_) {
      throw std::runtime_error("upload: the sizes differ");
    }
    require_cuda(cudaMemcpy(data(), values.data(), bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
    require_cuda(cudaDeviceSynchronize(), "upload");
  }

  //! The contents as Value, after all work of the device.
  template <class Value>
  std::vector<Value> download() const {
    std::vector<Value> values(bytes_ / sizeof(Value));
    read(data(), values.data(), values.size() * sizeof(Value));
    return values;
  }

  //! True if nothing wrote to the guard bytes.
  bool is_guarded() const {
    std::vector<unsigned char> guards(2 * guard_bytes);
    read(base_, guards.data(), guard_bytes);
    read(base_ + guard_bytes + bytes_, guards.data() + guard_bytes, guard_bytes);
    for (unsigned char const byte : guards) {
      if (byte != guard_value) {
        return false;
      }
    }
    return true;
  }

 private:
#ifdef EXECUTOR_ASAN
  static constexpr std::size_t guard_bytes = 0;  // AddressSanitizer has its own, and sees reads too
#else
  static constexpr std::size_t guard_bytes = 1024;
#endif
  //! NaN as half or float, a large negative number as an integer: what is read here by mistake
  //! shows in a result, or is an entry that the rules drop.
  static constexpr int guard_value = 0xfd;

  static void read(void const* from, void* to, std::size_t bytes) {
    require_cuda(cudaDeviceSynchronize(), "an earlier kernel");
    require_cuda(cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost), "cudaMemcpy");
  }

  unsigned char* base_ = nullptr;
  std::size_t bytes_   = 0;
};

}  // namespace pageunion::test
