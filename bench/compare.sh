#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs the library and every yardstick on the same exported problems, on one GPU, and prints one table.
#
#   bash bench/compare.sh BUILD OUTPUT.json [WORKLOAD or FILE]...
#
# BUILD holds the program attention_compare. Without Triton, or where it fails, its two kernels are
# left out, and named as left out. PAGEUNION_COMMIT overrides the commit in OUTPUT.json where there
# is no repository.
set -euo pipefail

if [ $# -lt 2 ]; then
  sed -n '3,9s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
command="bash bench/compare.sh $*"
bench=$(cd "$(dirname "$0")" && pwd)
build=$1
output=$2
shift 2
repetitions=30  # of every kernel, ours and theirs
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

commit=${PAGEUNION_COMMIT:-$(git -C "$bench" rev-parse HEAD 2>/dev/null || echo unknown)}
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1 || true)

"$build/attention_compare" "$@" --export-folder "$scratch" --json "$scratch/library.json" \
  --repetitions "$repetitions"
triton=()
if ! python3 -c 'import torch, triton' 2>/dev/null; then
  echo "Triton is not installed: its row and tile-union kernels were left out"
elif python3 -B "$bench/triton_yardsticks.py" "$scratch"/*.safetensors \
  --json "$scratch/triton.json" --repetitions "$repetitions"; then
  triton=("$scratch/triton.json")
else
  echo "Triton's row and tile-union kernels failed, see above: they were left out"
fi
python3 -B "$bench/compare_table.py" "$scratch/library.json" "${triton[@]}" --json "$output" \
  --commit "$commit" --driver "${driver:-unknown}" --command "$command"
