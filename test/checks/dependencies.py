#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a change of a header rebuilds: dependencies.py REPOSITORY BUILD NINJA.

The record that ninja keeps of an object must name the headers of the library that the object's source
includes, directly or through others, and no other: a missing one leaves an object stale. The executor
stands in for a header of the library and is left out."""

import functools
import pathlib
import re
import subprocess
import sys


def records(ninja, build):
    """(object, [dependency]) of every object that the build made."""
    text = subprocess.run([ninja, "-C", build, "-t", "deps"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout
    for entry in text.split("\n\n"):
        first, *rest = entry.strip().splitlines() or [""]
        if first.endswith("(VALID)"):
            yield first.split(":")[0], [line.strip() for line in rest]


def main(repository, build, ninja):
    root, build = pathlib.Path(repository).resolve(), pathlib.Path(build).resolve()
    library, executor = root / "include", root / "test" / "executor"

    @functools.lru_cache(maxsize=None)
    def includes(path):
        found = []
        for angled, quoted in re.findall(r'^\s*#\s*include\s*(?:<([^>]+)>|"([^"]+)")',
                                         path.read_text(), re.M):
            for folder in (path.parent, library, root / "test", root / "bench"):
                if (candidate := (folder / (angled or quoted)).resolve()).is_file():
                    found.append(candidate)
                    break
        return found

    def reach(path):
        seen, open_ends = set(), [path]
        while open_ends:
            for included in includes(open_ends.pop()):
                if included not in seen:
                    seen.add(included)
                    open_ends.append(included)
        return {path for path in seen if library in path.parents}

    faults, checked = [], 0
    for name, dependencies in records(ninja, build):
        paths = [(build / dependency).resolve() for dependency in dependencies]
        if not paths or not paths[0].is_file() or any(executor in path.parents for path in paths):
            continue
        recorded = {path for path in paths if library in path.parents} - {paths[0]}
        expected = reach(paths[0])
        checked += bool(expected)
        for path in sorted(expected ^ recorded):
            what = "misses" if path in expected else "names without need"
            faults.append(f"{name}: its record {what} {path.relative_to(library)}")
    for fault in faults:
        print(fault)
    print(f"{checked} objects with headers of the library, {len(faults)} faults")
    return 1 if faults or not checked else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
