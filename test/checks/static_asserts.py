#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every static_assert of the library has a sentence and a compile-fail case:
static_asserts.py REPOSITORY.

A line "// no-case, REASON: TEXT" beside the cases stands for one that no program can make fail."""

import pathlib
import re
import sys

LITERAL = r'"((?:\\.|[^"\\])*)"'


def static_asserts(text):
    """(line, message) of every static_assert; the message is empty if there is none."""
    code = re.sub(r"//.*", "", text)
    for match in re.finditer(rf"\bstatic_assert\s*\((?:[^;\"]|{LITERAL})*\);", code):
        message = re.search(rf",\s*((?:{LITERAL}\s*)+)\);$", match[0])
        pieces = re.findall(LITERAL, message[1]) if message else []
        yield code.count("\n", 0, match.start()) + 1, "".join(pieces)


def main(repository):
    root = pathlib.Path(repository)
    expected = []
    for path in (root / "test" / "compile_fail").glob("*.c*"):
        expected += re.findall(r"^// (?:expect-error [^:]+|no-case, .+?): (.+)$", path.read_text(),
                               re.M)
    faults, seen = [], 0
    for path in sorted((root / "include").rglob("*.[hc]*")):
        for line, message in static_asserts(path.read_text()):
            seen += 1
            place = f"{path.relative_to(root)}:{line}"
            if not message:
                faults.append(f"{place}: static_assert without a sentence")
            elif not any(text in message for text in expected):
                faults.append(f"{place}: no case under test/compile_fail expects: {message}")
    for fault in faults:
        print(fault)
    print(f"{seen} static_asserts, {len(faults)} without a sentence or a case")
    return 1 if faults or not seen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
