// SPDX-License-Identifier: Apache-2.0
//! @file
//! The CUDA runtime functions of tests. Everything runs at once; a stream under capture records.
#include <cuda_runtime.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <vector>

#include <executor/launch.hpp>

struct executor_graph {
  std::vector<std::function<cudaError_t()>> steps;
};
struct executor_stream {
  executor_graph* capture = nullptr;  //!< what is recorded, null outside of a capture
};

namespace {

//! Runs a step, or records it.
cudaError_t enqueue_step(std::function<cudaError_t()> const& step, cudaStream_t stream) {
  if (stream != nullptr && stream->capture != nullptr) {
    stream->capture->steps.push_back(step);
    return cudaSuccess;
  }
  return step();
}

}  // namespace

namespace executor {

cudaError_t enqueue(kernel_launch const& launch, cudaStream_t stream) {
  return enqueue_step([launch] { return run(launch); }, stream);
}

}  // namespace executor

char const* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error of the executor";
}
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaPeekAtLastError() { return cudaSuccess; }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  // What is imitated is a V100.
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 80;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 7;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      break;
  }
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  constexpr std::size_t alignment = 256;
  *pointer                        = nullptr;
  if (bytes == 0) {
    return cudaSuccess;
  }
  if (posix_memalign(pointer, alignment, bytes) != 0) {
    return cudaErrorMemoryAllocation;
  }
  std::memset(*pointer, 0xff, bytes);
  return cudaSuccess;
}
cudaError_t cudaFree(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes != 0) {
    std::memmove(to, from, bytes);
  }
  return cudaSuccess;
}
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return enqueue_step([=] { return cudaMemcpy(to, from, bytes, kind); }, stream);
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  if (bytes != 0) {
    std::memset(to, value, bytes);
  }
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
  return enqueue_step([=] { return cudaMemset(to, value, bytes); }, stream);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  *stream = new executor_stream;
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return cudaStreamCreate(stream);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
//! A stream that is being captured must not be waited for.
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  bool const is_captured = stream != nullptr && stream->capture != nullptr;
  return is_captured ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  if (stream == nullptr || stream->capture != nullptr) {
    return cudaErrorStreamCaptureUnsupported;
  }
  stream->capture = new executor_graph;
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (stream == nullptr || stream->capture == nullptr) {
    return cudaErrorInvalidValue;
  }
  *graph          = stream->capture;
  stream->capture = nullptr;
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  bool const is_captured = stream != nullptr && stream->capture != nullptr;
  *status = is_captured ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long) {
  *executable = new executor_graph(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  for (auto const& step : executable->steps) {
    cudaError_t const error = enqueue_step(step, stream);
    if (error != cudaSuccess) {
      return error;
    }
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}
