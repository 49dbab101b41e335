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

//! An address that is never read: the launches above do nothing. Addresses of different numbers are
//! 2^36 bytes apart.
template <class T>
T* somewhere(std::uintptr_t number) {
  return reinterpret_cast<T*>(number << 36);
}

//! fresh-8k: 8,192 rows of one request, 512 pages and a tail each, cache blocks of 16 tokens.
prefill_args production_args() {
  prefill_args args{};
  args.rows.num_rows        = 8192;
  args.rows.row_request     = somewhere<std::int32_t>(1);
  args.rows.row_position    = somewhere<std::int64_t>(2);
  args.rows.sequence_length = somewhere<std::int32_t>(3);

  attention_operands& operands       = args.attention;
  operands.q.data                    = somewhere<__half>(4);
  operands.q.num_heads               = qsa_policy::heads_per_kv;
  operands.q.head_dim                = qsa_policy::head_dim;
  operands.q.head_stride             = qsa_policy::head_dim;
  operands.q.row_stride              = qsa_policy::head_dim * qsa_policy::heads_per_kv;
  operands.cache.k                   = somewhere<__half>(5);
  operands.cache.v                   = somewhere<__half>(6);
  operands.cache.k_strides           = contiguous_kv_strides(16, 1, qsa_policy::head_dim);
  operands.cache.v_strides           = operands.cache.k_strides;
  operands.cache.num_blocks          = 512;
  operands.cache.block_tokens        = 16;
  operands.cache.num_kv_heads        = 1;
  operands.cache.blocks.table        = somewhere<std::int32_t>(7);
  operands.cache.blocks.num_requests = 1;
  operands.cache.blocks.width        = 512;
  operands.cache.blocks.row_stride   = 512;
  operands.out.data                  = somewhere<void>(8);
  operands.out.row_stride            = operands.q.row_stride;
  operands.out.head_stride           = operands.q.head_stride;
  args.report                        = somewhere<plan_report>(11);
  return args;
}

//! Launches everything that one selection and route launch; false if the arguments are refused.
bool launch(selection const& selected, route taken) {
  prefill_args args = production_args();
  args.selected     = selected;
  args.route        = taken;
  std::size_t bytes = 0;
  status result     = workspace_bytes(args, bytes);
  if (result == status::ok) {
    result = prefill(args, somewhere<void>(9), bytes, nullptr);
  }
  if (result != status::ok) {
    std::fprintf(stderr, "%s\n", to_string(result));
  }
  return result == status::ok;
}

}  // namespace

int main() {
  token_table tokens{};
  tokens.tokens     = somewhere<std::int32_t>(10);
  tokens.width      = 2051;
  tokens.row_stride = 2051;
  page_table pages{};
  pages.pages      = somewhere<std::int32_t>(10);
  pages.width      = 512;
  pages.row_stride = 512;
  bool launched    = true;
  for (route const taken : {route::grouped, route::row}) {
    launched = launch(tokens, taken) && launch(pages, taken) && launched;
  }
  return launched ? 0 : 1;
}
