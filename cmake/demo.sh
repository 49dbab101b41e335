#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The library's main job, from a fresh machine to a checked result:
#
#   bash cmake/demo.sh
#
# Finds or installs the toolchain (toolchain.sh), builds examples/quick_start.cu for sm_70 and runs it:
# a full prefill at the production geometry on the GPU. Where there is none, the same program is built
# for the CPU (test/executor) and runs smaller problems there: the same planner and kernels, results
# checked, no speed. Exit code 0 only if the result was checked and right.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/demo

source "$root/cmake/toolchain.sh" demo
mkdir -p "$build"

configure() {
  "$toolchain_cmake" -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DPAGEUNION_BUILD_TESTS=OFF "$@" > "$build.log" 2>&1 || { cat "$build.log"; exit 1; }
}

configure
"$toolchain_cmake" --build "$build" --target pageunion.example.quick_start pageunion.example.host_reference

code=0
"$build/examples/quick_start" || code=$?
if [ "$code" -eq 0 ]; then
  "$build/examples/quick_start" 8192 784 interleaved
elif [ "$code" -eq 77 ]; then
  # The other examples need no Boost, so this part is configured where it is wanted only.
  configure -DPAGEUNION_BUILD_EXECUTOR=ON
  "$toolchain_cmake" --build "$build" --target pageunion.executor.quick_start
  echo "no GPU was found: the planner and the kernels run on the CPU, one CUDA thread after the other"
  echo "-- 264 rows, planned in groups:"
  "$build/executor/quick_start" 264 36 interleaved
  echo "-- 64 rows, each by itself:"
  "$build/executor/quick_start" 64
  "$build/examples/host_reference"
  echo "shown: the results of the real planner and kernels, checked against the reference"
  echo "not shown: their speed; the milliseconds above are the CPU's and say nothing about a GPU"
else
  exit "$code"
fi
