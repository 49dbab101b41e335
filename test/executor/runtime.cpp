// SPDX-License-Identifier: Apache-2.0
//! @file
//! The functions of CUDA's runtime that the library and its tests call. Device memory is the host's.
//! Everything runs at once; a stream under capture records.
#include <boost/align/aligned_alloc.hpp>

#include <cuda_runtime.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include <executor/launch.hpp>

struct CUgraph_st {
  std::vector<std::function<cudaError_t()>> steps;
};
struct CUgraphExec_st : CUgraph_st {};
struct CUstream_st {
  cudaGraph_t captured = nullptr;  //!< what is recorded, null outside of a capture
};
//! A time of the host's clock.
struct CUevent_st {
  std::chrono::steady_clock::time_point time;
};

cudaError_t executor::enqueue(std::function<cudaError_t()> const& step, cudaStream_t stream) {
  if (stream != nullptr && stream->captured != nullptr) {
    stream->captured->steps.push_back(step);
    return cudaSuccess;
  }
  return step();
}

namespace {

template <class T>
cudaError_t give(T* to, T value) {
  *to = value;
  return cudaSuccess;
}

template <class T>
cudaError_t destroy(T* object) {
  delete object;
  return cudaSuccess;
}

}  // namespace

char const* cudaGetErrorString(cudaError_t error) {
  return error == cudaSuccess ? "no error" : "an error of the executor";
}

cudaError_t cudaGetLastError() { return cudaSuccess; }

cudaError_t cudaGetDeviceCount(int* count) { return give(count, 1); }
cudaError_t cudaGetDevice(int* device) { return give(device, 0); }
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }

//! What is imitated is a V100: compute capability 7.0, 80 multiprocessors.
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  bool const is_major = attribute == cudaDevAttrComputeCapabilityMajor;
  bool const is_known = is_major || attribute == cudaDevAttrMultiProcessorCount;
  *value              = is_major ? 7 : 80;
  return is_known ? cudaSuccess : cudaErrorInvalidValue;
}

//! Fresh memory holds 0xFF.
cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  *pointer = boost::alignment::aligned_alloc(256, bytes);
  return *pointer == nullptr ? cudaErrorMemoryAllocation : cudaMemset(*pointer, 0xff, bytes);
}
cudaError_t cudaFree(void* pointer) {
  boost::alignment::aligned_free(pointer);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind) {
  std::copy_n(static_cast<char const*>(from), bytes, static_cast<char*>(to));
  return cudaSuccess;
}
cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
  std::fill_n(static_cast<unsigned char*>(to), bytes, static_cast<unsigned char>(value));
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  return give(stream, new CUstream_st);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) { return destroy(stream); }

//! A stream that is being captured must not be waited for.
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return stream->captured != nullptr ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  return give(&stream->captured, new CUgraph_st);
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return give(graph, std::exchange(stream->captured, nullptr));
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long) {
  return give(executable, new CUgraphExec_st{*graph});
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  cudaError_t error = cudaSuccess;
  for (auto const& step : executable->steps) {
    error = error == cudaSuccess ? executor::enqueue(step, stream) : error;
  }
  return error;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy(graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) { return destroy(executable); }

cudaError_t cudaEventCreate(cudaEvent_t* event) { return give(event, new CUevent_st); }
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  return give(&event->time, std::chrono::steady_clock::now());
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return give(milliseconds,
              std::chrono::duration<float, std::milli>(to->time - from->time).count());
}
