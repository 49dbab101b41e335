#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The library's main job, from a fresh machine to a checked result:
#
#   bash cmake/demo.sh
#
# Finds or installs the toolchain (toolchain.sh), builds examples/verify_prefill.cu for sm_70 and runs it:
# a full prefill at the production geometry on the GPU. Where there is none, the same program is built
# for the CPU (test/executor) and runs smaller problems there: the same planner and kernels, results
# checked, no speed. Where Python has matplotlib, a picture shows what the rows shared. Exit code 0 only
# if the result was checked and right.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=$root/build/demo

source "$root/cmake/toolchain.sh" demo
mkdir -p "$build"

configure() {
  "$toolchain_cmake" -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release \
    -DPAGEUNION_BUILD_TESTS=OFF "$@" > "$build.log" 2>&1 || { cat "$build.log"; exit 1; }
}

draw_unions() {
  if python3 -c 'import matplotlib' 2> /dev/null; then
    python3 -B "$root/examples/plot_unions.py" "$build/unions.csv" "$build/unions.png"
    echo "picture of the unions of the groups: $build/unions.png"
  else
    echo "no picture of the unions: python3 has no matplotlib; their numbers: $build/unions.csv"
  fi
}

configure
"$toolchain_cmake" --build "$build" --target pageunion.example.verify_prefill pageunion.example.host_reference

code=0
"$build/examples/verify_prefill" --unions "$build/unions.csv" || code=$?
if [ "$code" -eq 0 ]; then
  "$build/examples/verify_prefill" 8192 784 interleaved
  draw_unions
elif [ "$code" -eq 77 ]; then
  # The other examples need no Boost, so this part is configured where it is wanted only.
  configure -DPAGEUNION_BUILD_EXECUTOR=ON
  "$toolchain_cmake" --build "$build" --target pageunion.executor.verify_prefill
  echo "no GPU was found: the planner and the kernels run on the CPU, one CUDA thread after the other"
  echo "-- 264 rows, planned in groups:"
  "$build/executor/verify_prefill" 264 36 interleaved --unions "$build/unions.csv"
  echo "-- 64 rows, each by itself:"
  "$build/executor/verify_prefill" 64
  "$build/examples/host_reference"
  draw_unions
  echo "shown: the results of the real planner and kernels, checked against the reference"
  echo "not shown: their speed; the milliseconds above are the CPU's and say nothing about a GPU"
else
  exit "$code"
fi
