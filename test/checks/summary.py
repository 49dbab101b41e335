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
        elif (reason := case.find("skipped")) is not None:
            if not reason.get("message", "").startswith("SKIP_"):
                failed.append(f"{name} ({reason.get('message')})")  # what it needs failed
                continue
            output = case.findtext("system-out") or ""
            said = [line for line in output.splitlines() if line.startswith("skipped: ")]
            skipped.append(f"{name} ({said[0][9:]})" if said else name)
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
