// SPDX-License-Identifier: Apache-2.0
//! @file
//! Stands in for CUDA's header of the same name: the part of CUDA that the
//! library and its tests use, for the CPU. A name that is missing here does not
//! compile, on purpose. Everything runs at once; a stream under capture
//! records.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#define PAGEUNION_EXECUTOR 1

#define __host__
#define __device__
#define __global__
#define __launch_bounds__(...)
#define __forceinline__ inline __attribute__((always_inline))

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};
struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
constexpr uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
constexpr float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

enum cudaError_t {
  cudaSuccess,
  cudaErrorMemoryAllocation,
  cudaErrorInvalidConfiguration,
  cudaErrorLaunchFailure,
  cudaErrorStreamCaptureUnsupported,
};
inline char const* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error of the executor";
}
inline cudaError_t cudaGetLastError() { return cudaSuccess; }

//! What is imitated is a V100: the value of an attribute is its enumerator's.
enum cudaDeviceAttr {
  cudaDevAttrComputeCapabilityMinor = 0,
  cudaDevAttrComputeCapabilityMajor = 7,
  cudaDevAttrMultiProcessorCount    = 80,
};
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  *value = attribute;
  return cudaSuccess;
}
inline cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
inline cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
inline cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

//! Fresh memory holds 0xFF.
template <class T>
cudaError_t cudaMalloc(T** pointer, std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  void* memory                    = nullptr;
  if (bytes != 0 && posix_memalign(&memory, alignment, bytes) != 0) {
    return cudaErrorMemoryAllocation;
  }
  *pointer = static_cast<T*>(bytes != 0 ? std::memset(memory, 0xff, bytes) : nullptr);
  return cudaSuccess;
}
inline cudaError_t cudaFree(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}
enum cudaMemcpyKind { cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDefault };
inline cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes != 0) {
    std::memmove(to, from, bytes);
  }
  return cudaSuccess;
}
inline cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  if (bytes != 0) {
    std::memset(to, value, bytes);
  }
  return cudaSuccess;
}

namespace executor {
using step  = std::function<cudaError_t()>;
using graph = std::vector<step>;
struct stream {
  graph* capture = nullptr;  //!< what is recorded, null outside of a capture
};

//! Runs a step, or records it.
inline cudaError_t enqueue(step const& next, stream* on) {
  if (on != nullptr && on->capture != nullptr) {
    on->capture->push_back(next);
    return cudaSuccess;
  }
  return next();
}
}  // namespace executor

using cudaStream_t                              = executor::stream*;
using cudaGraph_t                               = executor::graph*;
using cudaGraphExec_t                           = executor::graph*;
inline constexpr unsigned cudaStreamNonBlocking = 1;
enum cudaStreamCaptureMode { cudaStreamCaptureModeGlobal };

inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  *stream = new executor::stream;
  return cudaSuccess;
}
inline cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
//! A stream that is being captured must not be waited for.
inline cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return stream->capture != nullptr ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
inline cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  stream->capture = new executor::graph;
  return cudaSuccess;
}
inline cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph          = stream->capture;
  stream->capture = nullptr;
  return cudaSuccess;
}
inline cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                 unsigned long long) {
  *executable = new executor::graph(*graph);
  return cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  for (executor::step const& next : *executable) {
    cudaError_t const error = executor::enqueue(next, stream);
    if (error != cudaSuccess) {
      return error;
    }
  }
  return cudaSuccess;
}
inline cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return cudaGraphDestroy(executable);
}

//! A time of the host's clock.
using cudaEvent_t = std::chrono::steady_clock::time_point*;
inline cudaError_t cudaEventCreate(cudaEvent_t* event) {
  *event = new std::chrono::steady_clock::time_point;
  return cudaSuccess;
}
inline cudaError_t cudaEventRecord(cudaEvent_t event) {
  *event = std::chrono::steady_clock::now();
  return cudaSuccess;
}
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = std::chrono::duration<float, std::milli>(*to - *from).count();
  return cudaSuccess;
}

#include <executor/intrinsics.hpp>
