# SPDX-License-Identifier: Apache-2.0
# cmake -Dtext=TEXT -P expect_error.cmake -- COMPILER ARGUMENTS...
# Succeeds if the compiler fails and says TEXT.
set(command "")
set(after_separator FALSE)
math(EXPR last "${CMAKE_ARGC} - 1")
foreach(index RANGE ${last})
  if(after_separator)
    list(APPEND command "${CMAKE_ARGV${index}}")
  elseif(CMAKE_ARGV${index} STREQUAL "--")
    set(after_separator TRUE)
  endif()
endforeach()

execute_process(COMMAND ${command} RESULT_VARIABLE result OUTPUT_VARIABLE out ERROR_VARIABLE err)
string(FIND "${out}${err}" "${text}" position)
if(result EQUAL 0)
  message(FATAL_ERROR "compiled, but should have failed with: ${text}")
elseif(position EQUAL -1)
  message(FATAL_ERROR "failed, but without the text: ${text}\n${out}${err}")
endif()
