// SPDX-License-Identifier: Apache-2.0
//! @file
//! Runs what enqueues work on a stream under stream capture.
#pragma once

#include <cuda_runtime.h>

#include <pageunion/status.hpp>

#include "device_array.cuh"

namespace pageunion::test {

//! A stream that does not wait for the default stream.
class test_stream {
 public:
  test_stream() {
    require_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
  }
  test_stream(test_stream const&)            = delete;
  test_stream& operator=(test_stream const&) = delete;
  ~test_stream() { static_cast<void>(cudaStreamDestroy(stream_)); }

  cudaStream_t get() const { return stream_; }
  void synchronize() const { require_cuda(cudaStreamSynchronize(stream_), "the stream's work"); }

 private:
  cudaStream_t stream_ = nullptr;
};

//! A graph of what `enqueue(stream)` enqueued; capturing runs none of it.
class captured_graph {
 public:
  //! @param enqueue status(cudaStream_t)
  template <class Enqueue>
  explicit captured_graph(Enqueue enqueue) {
    require_cuda(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeGlobal), "capture");
    captured_ = enqueue(stream_.get());
    require_cuda(cudaStreamEndCapture(stream_.get(), &graph_), "end of capture");
    require_cuda(cudaGraphInstantiateWithFlags(&executable_, graph_, 0), "instantiation");
  }
  captured_graph(captured_graph const&)            = delete;
  captured_graph& operator=(captured_graph const&) = delete;
  ~captured_graph() {
    static_cast<void>(cudaGraphExecDestroy(executable_));
    static_cast<void>(cudaGraphDestroy(graph_));
  }

  //! What `enqueue` returned.
  status captured() const { return captured_; }

  //! Runs the graph and waits.
  void replay() {
    require_cuda(cudaGraphLaunch(executable_, stream_.get()), "cudaGraphLaunch");
    stream_.synchronize();
  }

 private:
  test_stream stream_;
  cudaGraph_t graph_          = nullptr;
  cudaGraphExec_t executable_ = nullptr;
  status captured_            = status::ok;
};

//! What a call with arguments that nobody may follow answers under capture. Whatever it enqueued beside an
//! error runs, and touches them.
//! @param enqueue status(cudaStream_t)
template <class Enqueue>
status captured_answer(Enqueue enqueue) {
  captured_graph graph(enqueue);
  if (graph.captured() != status::ok) {
    graph.replay();
  }
  return graph.captured();
}

}  // namespace pageunion::test
