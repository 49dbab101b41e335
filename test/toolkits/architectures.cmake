# SPDX-License-Identifier: Apache-2.0
# What cmake/cuda_architectures.cmake says to every kind of CMAKE_CUDA_ARCHITECTURES, before any
# compiler is asked for more than its version: cmake -Dfile=FILE -Dwork=FOLDER -P architectures.cmake
cmake_minimum_required(VERSION 3.24)

if(DEFINED native)  # one case: GPUs of these architectures, or none
  macro(enable_language)
    set(CMAKE_CUDA_ARCHITECTURES_NATIVE ${native})
  endmacro()
  include(${file})
  message("lowest: ${pageunion_architecture}, sm_70: ${pageunion_has_sm_70}.")
  return()
endif()

foreach(toolkit 11.8 13.0)
  set(nvcc_${toolkit} ${work}/nvcc_${toolkit})
  file(WRITE ${nvcc_${toolkit}} "#!/bin/sh\necho \"release ${toolkit}, V${toolkit}.1\"\n")
  file(CHMOD ${nvcc_${toolkit}} PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
endforeach()

# expect(TOOLKIT VALUE NATIVE TEXT): TEXT is part of what is said, whose line breaks do not matter.
function(expect toolkit value native text)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -Dfile=${file} -Dnative=${native} -DCMAKE_CUDA_COMPILER=${nvcc_${toolkit}}
      "-DCMAKE_CUDA_ARCHITECTURES=${value}" -P ${CMAKE_CURRENT_FUNCTION_LIST_FILE}
    ERROR_VARIABLE said)
  string(REGEX REPLACE "[ \n]+" " " said "${said}")
  string(FIND "${said}" "${text}" place)
  if(place LESS 0)
    message(SEND_ERROR "CUDA ${toolkit}, \"${value}\": expected \"${text}\", got: ${said}")
  endif()
endfunction()

foreach(value all all-major OFF 0)
  expect(11.8 ${value} "" "is ${value}: with CUDA 11")
  expect(13.0 ${value} "" "lowest: 75")
endforeach()
foreach(toolkit 11.8 13.0)
  expect(${toolkit} "" "" "CMAKE_CUDA_ARCHITECTURES is empty: set it to 7")
  expect(${toolkit} native "" "no GPU was found here")
  expect(${toolkit} native 90-real "lowest: 90")
  expect(${toolkit} native 61-real "names sm_61: the kernels multiply by WMMA")
  expect(${toolkit} "90a;100-virtual;80-real" "" "lowest: 80")
  expect(${toolkit} "80;OFF" "" "names \"OFF\": set it to numbers")
  expect(${toolkit} "60;70" "" "sm_60: the kernels multiply by WMMA")
endforeach()
expect(11.8 "80;70-real" "" "lowest: 70, sm_70: ;70-real.")
expect(11.8 70-virtual "" "lowest: 70, sm_70: .")
expect(11.8 native 70-real "lowest: 70, sm_70: 70-real.")
expect(13.0 "80;70-real" "" "CUDA 11.x and 12.x can build for sm_70")
