# SPDX-License-Identifier: Apache-2.0
# Included before the CUDA language is enabled: CMake's own compiler test would otherwise fail with
# a message that says nothing about toolkits.
#
# Default: the lowest architecture that the toolkit builds, as machine code and as PTX ("70" means
# both), so that the same binary also runs on every later GPU.
if(CMAKE_CUDA_COMPILER)
  set(nvcc ${CMAKE_CUDA_COMPILER})
elseif(DEFINED ENV{CUDACXX})
  set(nvcc $ENV{CUDACXX})
else()
  find_program(nvcc nvcc PATHS /usr/local/cuda/bin NO_CACHE)
endif()
if(NOT nvcc)
  message(FATAL_ERROR
    "No nvcc was found. Install a CUDA toolkit (11.x or 12.x can build for sm_70), or name the "
    "compiler with -DCMAKE_CUDA_COMPILER=/path/to/nvcc. The headers alone need none: configure "
    "with -DPAGEUNION_BUILD_TESTS=OFF -DPAGEUNION_BUILD_EXAMPLES=OFF.")
endif()

execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE nvcc_version ERROR_QUIET)
string(REGEX MATCH "release ([0-9]+)\\.[0-9]+" nvcc_release "${nvcc_version}")
set(nvcc_major "${CMAKE_MATCH_1}")
if(nvcc_major STREQUAL "" OR nvcc_major LESS 13)
  set(lowest_architecture 70)
else()
  set(lowest_architecture 75)
endif()

if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  if(DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS})
  else()
    set(CMAKE_CUDA_ARCHITECTURES ${lowest_architecture})
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES ${CMAKE_CUDA_ARCHITECTURES} CACHE STRING
  "CUDA architectures of tests, examples and benchmarks")

foreach(architecture IN LISTS CMAKE_CUDA_ARCHITECTURES)
  string(REGEX MATCH "^[0-9]+" number "${architecture}")
  if(number AND number LESS 70)
    message(FATAL_ERROR
      "CMAKE_CUDA_ARCHITECTURES names sm_${number}: the kernels multiply by WMMA, which sm_70 (V100) "
      "is the first to have. The lowest that CUDA ${nvcc_major} (${nvcc}) can build for this library "
      "is sm_${lowest_architecture}.")
  elseif(number AND number LESS lowest_architecture)
    message(FATAL_ERROR
      "CUDA ${nvcc_major} (${nvcc}) cannot build for sm_${number}: its lowest architecture is "
      "sm_${lowest_architecture}. CUDA 11.x and 12.x can build for sm_70 (V100): name such an nvcc "
      "with -DCMAKE_CUDA_COMPILER=/path/to/nvcc.")
  endif()
endforeach()
