#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds everything and runs every test that this machine can run:
#
#   bash cmake/test.sh [BUILD_FOLDER]
#
# Installs what is missing (toolchain.sh). Names the tests that were skipped. The last line is
# "N passed, N failed, N skipped"; exit code 0 only if nothing failed. A step before the tests that
# fails counts as one failure and ends the run: ctest would judge the binaries of an earlier build.
set -uo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=${1:-$root/build/test}

stop() {
  echo "test.sh: $1 failed"
  echo "0 passed, 1 failed, 0 skipped"
  exit 1
}

source "$root/cmake/toolchain.sh" test || stop "finding the toolchain"
jobs=$(nproc)

"$toolchain_cmake" -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DPAGEUNION_BUILD_BENCH=ON \
  "-DPAGEUNION_SECOND_NVCC=$PAGEUNION_SECOND_NVCC" || stop "the configuration"
"$toolchain_cmake" --build "$build" --parallel "$jobs" || stop "the build"

results=$build/test/results.xml
rm -f "$results"
"$(dirname "$toolchain_cmake")/ctest" --test-dir "$build" --parallel "$jobs" \
  --output-on-failure --output-junit "$results"
ctest_code=$?
python3 "$root/test/checks/summary.py" "$results" || stop "ctest"
exit "$ctest_code"
