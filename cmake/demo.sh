#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The library's main job, from a fresh machine to a checked result:
#
#   bash cmake/demo.sh
#
# Finds or installs the toolchain (toolchain.sh), builds examples/quick_start.cu for sm_70 and runs it:
# a full prefill at the production geometry on the GPU, or the host reference on a smaller problem
# where there is none. Exit code 0 only if the result was checked and right.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/demo

source "$root/cmake/toolchain.sh" demo

cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPAGEUNION_BUILD_TESTS=OFF \
  > "$build.log" 2>&1 || { cat "$build.log"; exit 1; }
cmake --build "$build" --target pageunion.example.quick_start pageunion.example.host_reference

code=0
"$build/examples/quick_start" || code=$?
if [ "$code" -eq 77 ]; then
  echo "no GPU was found: the planner, the kernels, their results and their speed were not shown"
  "$build/examples/host_reference"
elif [ "$code" -eq 0 ]; then
  "$build/examples/quick_start" 8192 784 interleaved
else
  exit "$code"
fi
