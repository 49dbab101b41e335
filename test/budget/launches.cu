// SPDX-License-Identifier: Apache-2.0
//! @file
//! Prints one line per kernel that a prefill at the production geometry launches: its mangled name, its
//! threads and its dynamic shared memory in bytes. Runs without a device: the linker hands the calls
//! to the CUDA runtime that would need one to the functions below (--wrap).
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>

#include <pageunion/pageunion.cuh>

#include "support/good_arguments.hpp"

namespace {

//! Mangled name of each kernel by the address that a launch names. A function, not a variable: it is
//! needed while the program's own variables are initialised.
std::map<void const*, std::string>& kernel_names() {
  static std::map<void const*, std::string> names;
  return names;
}

}  // namespace

extern "C" {

void __real___cudaRegisterFunction(void** fatbin, char const* host_function, char* device_function,
                                   char const* device_name, int thread_limit, uint3* thread_id,
                                   uint3* block_id, dim3* block_dim, dim3* grid_dim,
                                   int* warp_size);

//! Called once for every kernel of the program before main().
void __wrap___cudaRegisterFunction(void** fatbin, char const* host_function, char* device_function,
                                   char const* device_name, int thread_limit, uint3* thread_id,
                                   uint3* block_id, dim3* block_dim, dim3* grid_dim,
                                   int* warp_size) {
  kernel_names()[host_function] = device_name;
  __real___cudaRegisterFunction(fatbin, host_function, device_function, device_name, thread_limit,
                                thread_id, block_id, block_dim, grid_dim, warp_size);
}

cudaError_t __wrap_cudaLaunchKernel(void const* function, dim3, dim3 block_dim, void**,
                                    std::size_t smem_bytes, cudaStream_t) {
  std::printf("%s %u %zu\n", kernel_names().at(function).c_str(), block_dim.x, smem_bytes);
  return cudaSuccess;
}

cudaError_t __wrap_cudaFuncSetAttribute(void const*, cudaFuncAttribute, int) { return cudaSuccess; }

}  // extern "C"

namespace {

using namespace pageunion;

//! Launches everything that one kind of selection and one route launch; false if the call is refused.
bool launch(selection_kind kind, route taken) {
  test::call_arguments call = test::qsa_arguments();
  call.selected.kind        = kind;
  prefill_args const args   = args_of(call, taken);
  status const result       = prefill(args, call.workspace, call.workspace_bytes, nullptr);
  if (result != status::ok) {
    std::fprintf(stderr, "%s\n", to_string(result));
  }
  return result == status::ok;
}

}  // namespace

int main() {
  bool launched = true;
  for (route const taken : {route::grouped, route::row}) {
    for (selection_kind const kind : {selection_kind::tokens, selection_kind::pages}) {
      launched = launch(kind, taken) && launched;
    }
  }
  return launched ? 0 : 1;
}
