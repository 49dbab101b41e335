// SPDX-License-Identifier: Apache-2.0
//! @file
//! An array of a call moved to where its places lie gigabytes apart: what its offsets are computed in
//! shows there.
#pragma once

#include <cuda_runtime.h>
#ifdef PAGEUNION_EXECUTOR
#include <sys/mman.h>
#endif

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "device_array.cuh"

namespace pageunion::test {

//! A stride by which the last of so many places lies just behind element 2^32: in 32 bits, with a
//! sign or without, its offset would be a small one and wrong. A multiple of 8.
constexpr std::int64_t far_stride(std::int32_t places) {
  return ((std::int64_t{1} << 32) / (places - 1) + 7) / 8 * 8 + 4096;
}

//! An axis of an array, and where the call keeps its stride.
struct axis_of_call {
  std::int32_t count;
  std::int64_t* stride;
};

//! An axis of the array that goes by a name.
struct named_axis {
  std::string name;
  std::size_t axis;
};

//! All axes of arrays, each given with the number of its axes.
inline std::vector<named_axis> axes_of(
    std::vector<std::pair<std::string, std::size_t>> const& arrays) {
  std::vector<named_axis> all;
  for (auto const& [name, num_axes] : arrays) {
    for (std::size_t axis = 0; axis < num_axes; ++axis) {
      all.push_back({name, axis});
    }
  }
  return all;
}

//! Device memory that takes the place of an array of a call, with one axis stretched by far_stride().
//! Only what the array holds is ever touched: on the executor no more of it exists.
class far_array {
 public:
  //! Copies the array, and sets its address and strides to those of the copy.
  //! @param data          the address, as the call keeps it
  //! @param axes          the array's, outermost first
  //! @param stretched     the axis to stretch, of at least two places
  //! @param run_elements  contiguous elements at each place
  template <class Data>
  far_array(Data*& data, std::vector<axis_of_call> const& axes, std::size_t stretched,
            std::int32_t run_elements, std::size_t element_bytes)
      : near_(static_cast<unsigned char*>(const_cast<void*>(static_cast<void const*>(data)))),
        run_bytes_(static_cast<std::size_t>(run_elements) * element_bytes) {
    places_ = {{0, 0}};
    for (std::size_t axis = 0; axis < axes.size(); ++axis) {
      std::int64_t const near        = *axes[axis].stride;
      std::int64_t const far         = axis == stretched ? far_stride(axes[axis].count) : near;
      *axes[axis].stride             = far;
      std::vector<place> const outer = places_;
      places_.clear();
      for (place const& at : outer) {
        for (std::int64_t i = 0; i < axes[axis].count; ++i) {
          places_.push_back({at.near_bytes + bytes(i * near, element_bytes),
                             at.far_bytes + bytes(i * far, element_bytes)});
        }
      }
    }
    far_ = allocate(size_bytes());
    if (exists()) {
      for (place const& at : places_) {
        copy(far_ + at.far_bytes, near_ + at.near_bytes);
      }
      data = reinterpret_cast<Data*>(far_);
    }
  }
  far_array(far_array const&)            = delete;
  far_array& operator=(far_array const&) = delete;
  ~far_array() {
#ifdef PAGEUNION_EXECUTOR
    if (exists()) {
      munmap(far_, size_bytes());
    }
#else
    static_cast<void>(cudaFree(far_));
#endif
  }

  //! False if the device has too little memory; the address is then as it was.
  bool exists() const { return far_ != nullptr; }

  //! Copies what the far array holds to the array that it stands for.
  void copy_back() const {
    for (place const& at : places_) {
      copy(near_ + at.near_bytes, far_ + at.far_bytes);
    }
  }

 private:
  struct place {
    std::size_t near_bytes;
    std::size_t far_bytes;
  };

  static std::size_t bytes(std::int64_t elements, std::size_t element_bytes) {
    return static_cast<std::size_t>(elements) * element_bytes;
  }
  std::size_t size_bytes() const { return places_.back().far_bytes + run_bytes_; }

  void copy(unsigned char* to, unsigned char const* from) const {
    require_cuda(cudaMemcpy(to, from, run_bytes_, cudaMemcpyDefault), "cudaMemcpy");
  }

  static unsigned char* allocate(std::size_t size) {
#ifdef PAGEUNION_EXECUTOR
    void* const memory = mmap(nullptr, size, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return memory == MAP_FAILED ? nullptr : static_cast<unsigned char*>(memory);
#else
    void* memory = nullptr;
    if (cudaMalloc(&memory, size) == cudaSuccess) {
      return static_cast<unsigned char*>(memory);
    }
    static_cast<void>(cudaGetLastError());  // the error has been dealt with
    return nullptr;
#endif
  }

  unsigned char* near_;
  std::size_t run_bytes_;
  unsigned char* far_ = nullptr;
  std::vector<place> places_;  //!< every run's
};

}  // namespace pageunion::test
