#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which header may include which: rooms.py REPOSITORY.

Every header under include/pageunion has a line below. A header without one fails, and so does a
line without a header."""

import graphlib
import pathlib
import re
import sys

# Header or folder: (room, what it may include of the library). A number stands for every header of
# rooms 0 to that number. The headers of a folder may include one another, in no circle. Every header
# may include version.hpp, which opens the namespaces.
ROOMS = {
    "version.hpp": (0, []),
    "status.hpp": (0, []),
    "element.hpp": (1, []),
    "policy.hpp": (1, ["element.hpp"]),
    "tuning.hpp": (1, []),
    "kv_cache.hpp": (2, ["element.hpp"]),
    "selection.hpp": (3, []),
    "operands.hpp": (3, ["kv_cache.hpp"]),
    "rules.hpp": (4, ["kv_cache.hpp", "selection.hpp"]),
    "plan.hpp": (4, ["tuning.hpp"]),
    "workspace.hpp": (5, [4]),
    "report.hpp": (5, ["plan.hpp"]),
    "detail/float_bits.hpp": (6, []),
    "detail/host/": (6, [5, "detail/float_bits.hpp"]),
    "detail/selection/": (6, [4]),
    "detail/planner/": (6, [4, "detail/host/", "detail/selection/"]),
    "detail/attention/loops.cuh": (6, [1, "detail/attention/sm70/"]),
    "detail/attention/": (6, [4, "detail/host/", "detail/selection/", "detail/float_bits.hpp"]),
    "detail/attention/sm70/": (6, [4, "detail/attention/", "detail/float_bits.hpp"]),
    "detail/report/": (6, [4, "detail/host/", "detail/selection/"]),
    "detail/merge/": (6, [3, "detail/host/", "detail/float_bits.hpp"]),
    "planner.cuh": (7, [6]),
    "grouped_attention.cuh": (7, [6]),
    "row_attention.cuh": (7, [6]),
    "merge_partials.cuh": (7, [6]),
    "prefill.hpp": (8, [6]),
    "prefill.cuh": (8, [7, "prefill.hpp"]),
    "reference.hpp": (9, ["status.hpp", "kv_cache.hpp", "selection.hpp", "operands.hpp"]),
    "pageunion.cuh": (10, [8]),
}


def line_of(header):
    """Key of a header's line in ROOMS; None if it has none."""
    folders = [line for line in ROOMS if line.endswith("/") and header.startswith(line)]
    return header if header in ROOMS else max(folders, key=len, default=None)


def may_include(header, included):
    own_line, line = line_of(header), line_of(included)
    allowed = [*ROOMS[own_line][1], "version.hpp", *([own_line] if own_line.endswith("/") else [])]
    return line in allowed or any(isinstance(a, int) and ROOMS[line][0] <= a for a in allowed)


def main(repository):
    folder = pathlib.Path(repository) / "include" / "pageunion"
    headers = sorted(str(p.relative_to(folder)) for p in folder.rglob("*")
                     if p.suffix in (".hpp", ".cuh"))
    faults = []
    includes = {}
    for header in headers:
        if line_of(header) is None:
            faults.append(f"{header}: no line in the table of rooms")
            continue
        text = (folder / header).read_text()
        includes[header] = re.findall(r"^\s*#\s*include\s*<pageunion/([^>]+)>", text, re.M)
        for quoted in re.findall(r'^\s*#\s*include\s*"([^"]+)"', text, re.M):
            faults.append(f'{header}: includes "{quoted}" in quotes; write <pageunion/...>')
        for included in includes[header]:
            if included not in headers:
                faults.append(f"{header}: includes {included}, which does not exist")
            elif line_of(included) is not None and not may_include(header, included):
                faults.append(
                    f"{header} (room {ROOMS[line_of(header)][0]}) may not include {included} "
                    f"(room {ROOMS[line_of(included)][0]})")
    try:
        graphlib.TopologicalSorter(includes).prepare()
    except graphlib.CycleError as error:
        faults.append(f"headers include one another in a circle: {', '.join(error.args[1])}")
    for line in ROOMS:
        if not any(line_of(header) == line for header in headers):
            faults.append(f"{line}: has a line in the table of rooms, but does not exist")

    if "pageunion.cuh" in includes:
        public = {h for h in headers if not h.startswith("detail/")}
        for header in sorted(public - {"pageunion.cuh", "reference.hpp"}):
            if header not in includes["pageunion.cuh"]:
                faults.append(f"pageunion.cuh: does not include {header}")
        for line in (folder / "pageunion.cuh").read_text().splitlines():
            if line.strip() and not re.match(r"//|#pragma once$|#include <pageunion/", line):
                faults.append(f"pageunion.cuh: holds more than includes: {line}")

    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
