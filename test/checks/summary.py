#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names the failed and skipped tests of a ctest run and counts all: summary.py RESULTS.xml.

The last line is "N passed, N failed, N skipped". Fails if there are no results to read."""

import sys
import xml.etree.ElementTree as ElementTree


def main(path):
    passed, failed, skipped = [], [], []
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        if case.find("failure") is not None or case.get("status") == "fail":
            failed.append(name)
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            output = case.findtext("system-out") or ""
            reason = [line for line in output.splitlines() if line.startswith("skipped: ")]
            skipped.append(f"{name} ({reason[0][9:]})" if reason else name)
        else:
            passed.append(name)
    for name in skipped:
        print(f"skipped: {name}")
    for name in failed:
        print(f"failed: {name}")
    print(f"{len(passed)} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 0 if passed or failed or skipped else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
