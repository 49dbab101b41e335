#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs device tests that were built elsewhere on this machine's GPU; needs no compiler:
#
#   bash cmake/gpu_test.sh FOLDER SUMMARY.json [TOOL...]
#
# FOLDER holds the executables (build/test/test/device_tests). Each runs under every TOOL: none (plainly)
# and compute-sanitizer's memcheck racecheck initcheck synccheck, unless some are named. Under a tool of
# compute-sanitizer the tests with the tag [large] are left out. A test that says it was skipped has failed here. The
# environment variable TOOLKIT may name the toolkit that built the executables, for the summary.
set -uo pipefail
folder=${1:?folder of device test executables}
summary=${2:?file to write}
shift 2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=("$@")
[ "${#tools[@]}" -gt 0 ] || tools=(none memcheck racecheck initcheck synccheck)

passed=0 failed=0 skipped=0 rows=""
note() {  # name tool result seconds
  [ -z "$rows" ] || rows+=$',\n'
  rows+="    {\"test\": \"$1\", \"tool\": \"$2\", \"result\": \"$3\", \"seconds\": $4}"
  echo "$3: $1 ($2, $4 s)"
}

run() {  # name tool command...
  local name=$1 tool=$2 begin log result
  shift 2
  log=$(mktemp)
  begin=$SECONDS
  if "$@" > "$log" 2>&1; then
    passed=$((passed + 1))
    result=passed
  elif [ "$tool" != none ] && grep -q "Device not supported" "$log"; then
    # The tool cannot see this device (inside some virtual machines): nothing was checked.
    skipped=$((skipped + 1))
    result=skipped
  else
    failed=$((failed + 1))
    result=failed
  fi
  note "$name" "$tool" "$result" $((SECONDS - begin))
  [ "$result" = passed ] || tail -n 40 "$log"
  rm -f "$log"
}

tests=()
for test in "$folder"/*; do
  [ ! -f "$test" ] || [ ! -x "$test" ] || tests+=("$test")
done
for tool in "${tools[@]}"; do
  for test in "${tests[@]}"; do
    if [ "$tool" = none ]; then
      run "$(basename "$test")" none "$test"
    elif command -v compute-sanitizer > /dev/null; then
      run "$(basename "$test")" "$tool" \
        compute-sanitizer --tool "$tool" --error-exitcode 1 "$test" '~[large]'
    else
      skipped=$((skipped + 1))
      note "$(basename "$test")" "$tool" skipped 0
    fi
  done
done

gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2> /dev/null | sed -n 1p)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2> /dev/null | sed -n 1p)
cat > "$summary" << SUMMARY
{
  "gpu": "${gpu:-unknown}",
  "driver": "${driver:-unknown}",
  "toolkit": "${TOOLKIT:-unknown}",
  "sanitizer": "$(compute-sanitizer --version 2> /dev/null | sed -n 's/.*[Vv]ersion //p')",
  "date": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
  "commit": "$(git -C "$root" rev-parse HEAD 2> /dev/null || echo unknown)",
  "command": "bash cmake/gpu_test.sh $folder $summary ${tools[*]}",
  "passed": $passed,
  "failed": $failed,
  "skipped": $skipped,
  "tests": [
$rows
  ]
}
SUMMARY
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
