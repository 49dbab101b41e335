# SPDX-License-Identifier: Apache-2.0
# Enables CUDA for what this project builds for itself. What cannot work is refused before: CMake's own
# compiler test would otherwise fail with a message that says nothing about toolkits, and the build with
# one that says nothing about architectures.
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
  if(NOT "$ENV{CUDAARCHS}" STREQUAL "")
    set(CMAKE_CUDA_ARCHITECTURES $ENV{CUDAARCHS})
  else()
    set(CMAKE_CUDA_ARCHITECTURES ${lowest_architecture})
  endif()
endif()
set(CMAKE_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}" CACHE STRING
  "CUDA architectures of tests, examples and benchmarks")

# Words leave the choice to CMake and nvcc, and before CUDA 13 what they choose begins below sm_70.
# pageunion_architecture becomes the lowest one, as a number; pageunion_has_sm_70 says whether the build
# has machine code for it.
set(pageunion_architectures "${CMAKE_CUDA_ARCHITECTURES}")
if(pageunion_architectures STREQUAL "")
  message(FATAL_ERROR
    "CMAKE_CUDA_ARCHITECTURES is empty: set it to ${lowest_architecture}, or leave it undefined.")
elseif(NOT pageunion_architectures OR pageunion_architectures MATCHES "^all(-major)?$")
  if(lowest_architecture EQUAL 70)
    message(FATAL_ERROR
      "CMAKE_CUDA_ARCHITECTURES is ${pageunion_architectures}: with CUDA ${nvcc_major} (${nvcc}) that "
      "includes architectures below sm_70 (V100), which have no WMMA for the kernels to multiply by. Set "
      "it to those you want instead, such as -DCMAKE_CUDA_ARCHITECTURES=70 or \"70;80;90\".")
  endif()
  set(pageunion_architectures ${lowest_architecture})
elseif(pageunion_architectures STREQUAL "native")
  enable_language(CUDA)
  set(pageunion_architectures ${CMAKE_CUDA_ARCHITECTURES_NATIVE})
  if(NOT pageunion_architectures)
    message(FATAL_ERROR
      "CMAKE_CUDA_ARCHITECTURES is native, but no GPU was found here. Set it to the architectures of "
      "the GPUs that the program is for, such as -DCMAKE_CUDA_ARCHITECTURES=${lowest_architecture}.")
  endif()
endif()

set(pageunion_architecture "")
foreach(architecture IN LISTS pageunion_architectures)
  string(REGEX MATCH "^[0-9]+" number "${architecture}")
  if(number STREQUAL "")
    message(FATAL_ERROR
      "CMAKE_CUDA_ARCHITECTURES names \"${architecture}\": set it to numbers such as "
      "${lowest_architecture} or 80-real, or to one of the words all, all-major and native alone.")
  elseif(number LESS 70)
    message(FATAL_ERROR
      "CMAKE_CUDA_ARCHITECTURES names sm_${number}: the kernels multiply by WMMA, which sm_70 (V100) "
      "is the first to have. The lowest that CUDA ${nvcc_major} (${nvcc}) can build for this library "
      "is sm_${lowest_architecture}.")
  elseif(number LESS lowest_architecture)
    message(FATAL_ERROR
      "CUDA ${nvcc_major} (${nvcc}) cannot build for sm_${number}: its lowest architecture is "
      "sm_${lowest_architecture}. CUDA 11.x and 12.x can build for sm_70 (V100): name such an nvcc "
      "with -DCMAKE_CUDA_COMPILER=/path/to/nvcc.")
  elseif(pageunion_architecture STREQUAL "" OR number LESS pageunion_architecture)
    set(pageunion_architecture ${number})
  endif()
endforeach()
string(REGEX MATCH "(^|;)70(-real)?(;|$)" pageunion_has_sm_70 "${pageunion_architectures}")
enable_language(CUDA)
