#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The form of files, as far as a program can judge it: form.py REPOSITORY."""

import pathlib
import re
import sys

AT_THE_TOP = {"CMakeLists.txt", "include", "examples", "test", "bench", "cmake", "LICENSE",
              "README.md"}
SOURCES = {".hpp", ".cuh", ".cpp", ".cu"}
SCRIPTS = {".py", ".sh", ".cmake", ".txt"}
BANNED_IN_NAMES = re.compile(r"(^|_)(utils?|helpers?|common|misc)(_|\.|$)|"
                             r"_(old|new|fixed|fast|v2|impl2)(\.|$)")
MAX_HEADER_LINES = 450
MAX_FUNCTION_LINES = 60
LONG_ON_PURPOSE = {"to_string"}  # one case of a switch per status, nothing to take apart
# What no header of the library may do.
BANNED_IN_HEADERS = [
    (re.compile(r"\busing namespace\b"), "using namespace"),
    (re.compile(r"\bgetenv\b"), "reads the environment"),
    (re.compile(r"\b(printf|fprintf|puts)\s*\(|std::c(out|err)\b"), "prints"),
    (re.compile(r"\b(exit|abort)\s*\("), "ends the program"),
    (re.compile(r"\bcuda(Malloc\w*|Free\w*|DeviceSynchronize|StreamSynchronize)\b"),
     "allocates or synchronises"),
    (re.compile(r"\bcudaGetLastError\s*\(\s*\)\s*[;=!)]"), "clears the caller's error"),
    (re.compile(r"^\s*#\s*define\s+(?!PAGEUNION_)"), "defines a macro that is not PAGEUNION_"),
]
# What no header but version.hpp may do.
BANNED_OUTSIDE_VERSION = [
    (re.compile(r"^\s*#\s*define\b"), "defines a macro"),
    (re.compile(r"\bnamespace\s+(pageunion|detail)\b"), "opens a namespace without version.hpp's macros"),
]


def code_only(line):
    return re.sub(r"//.*$", "", re.sub(r'"(\\.|[^"\\])*"', '""', line))


def long_functions(lines):
    """(first line, length) of functions that exceed the limit. In this layout a function is what stands
    between a closing brace and the line before it that is indented as little."""
    for end, line in enumerate(lines):
        if not (closing := re.match(r"^( {0,2})\}$", line)):
            continue
        begin = end - 1
        while begin >= 0 and (not lines[begin].strip() or lines[begin].startswith("#") or
                              lines[begin].startswith(closing[1] + " ")):
            begin -= 1
        name = re.search(r"(\w+)\(", lines[begin])
        if re.match(r"\s*(namespace|struct|class|union|enum|for|if|else|while|do|switch)\b",
                    lines[begin]):
            continue
        if end - begin + 1 > MAX_FUNCTION_LINES and not (name and name[1] in LONG_ON_PURPOSE):
            yield begin + 1, end - begin + 1


def faults_of_source(name, lines, is_library):
    if not lines or lines[0] != "// SPDX-License-Identifier: Apache-2.0":
        yield f"{name}:1: the first line is not the SPDX line"
    if is_library or name.endswith((".hpp", ".cuh")):
        if len(lines) < 2 or lines[1] != "//! @file":
            yield f"{name}:2: the second line is not //! @file"
        if "#pragma once" not in lines:
            yield f"{name}: no #pragma once"
    for number, line in enumerate(lines, 1):
        if re.search(r"\b(TODO|FIXME|XXX)\b", line):
            yield f"{name}:{number}: unfinished: {line.strip()}"
    if not is_library:
        return
    if len(lines) > MAX_HEADER_LINES:
        yield f"{name}: {len(lines)} lines; {MAX_HEADER_LINES} at most"
    for first, length in long_functions(lines):
        yield f"{name}:{first}: a function of {length} lines; {MAX_FUNCTION_LINES} at most"
    banned = BANNED_IN_HEADERS + ([] if name.endswith("/version.hpp") else BANNED_OUTSIDE_VERSION)
    for number, line in enumerate(lines, 1):
        for pattern, fault in banned:
            if pattern.search(code_only(line)):
                yield f"{name}:{number}: {fault}: {line.strip()}"


def main(repository):
    root = pathlib.Path(repository)
    faults = [
        f"{p.name}: does not belong at the top" for p in root.iterdir()
        if p.name not in AT_THE_TOP and not p.name.startswith((".", "build"))
    ]
    for folder in ("include", "examples", "test", "bench", "cmake"):
        for path in sorted((root / folder).rglob("*")):
            if not path.is_file() or "__pycache__" in path.parts:
                continue
            name = str(path.relative_to(root))
            if BANNED_IN_NAMES.search(path.name):
                faults.append(f"{name}: the name says nothing, or says history")
            if path.suffix in SOURCES:
                faults += faults_of_source(name, path.read_text().splitlines(), folder == "include")
            elif path.suffix in SCRIPTS and "SPDX-License-Identifier: Apache-2.0" not in path.read_text()[:200]:
                faults.append(f"{name}: no SPDX line")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
