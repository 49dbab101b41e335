# SPDX-License-Identifier: Apache-2.0
# cmake -Dbuild=FOLDER -Dfirst=FOLDER -Dmoved=FOLDER -P install_and_move.cmake
file(REMOVE_RECURSE ${first} ${moved})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${build} --prefix ${first}
  OUTPUT_QUIET COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${first} ${moved})
file(GLOB_RECURSE files ${moved}/*)
foreach(file IN LISTS files)
  file(STRINGS ${file} lines REGEX "${build}|${first}")
  if(lines)
    message(FATAL_ERROR "${file} remembers where it was made: ${lines}")
  endif()
endforeach()
