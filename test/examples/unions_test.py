# SPDX-License-Identifier: Apache-2.0
"""What verify_prefill --unions writes is what the rows of its prompt chose, and it can be drawn.

    python3 unions_test.py VERIFY_PREFILL PLOT_UNIONS
"""

import csv
import pathlib
import subprocess
import sys
import tempfile
import unittest

VERIFY_PREFILL, PLOT_UNIONS = sys.argv[1:3]
ROWS = 60  # the last group is partial
PAGES_PER_ROW = ROWS // 16


def pages_of_row(row):
    """Row r sees r + 1 tokens: it chooses so many whole pages, and has a tail if there is a rest."""
    return min((row + 1) // 4, PAGES_PER_ROW) + ((row + 1) % 4 != 0)


class Unions(unittest.TestCase):
    def test_every_page_of_every_row_is_there_and_can_be_drawn(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            unions = folder / "unions.csv"
            subprocess.run([VERIFY_PREFILL, str(ROWS), "36", "--unions", unions], check=True)
            with open(unions, encoding="utf-8", newline="") as file:
                groups = [[int(cell) for cell in line] for line in list(csv.reader(file))[1:]]
            self.assertEqual([group[0] for group in groups], list(range(0, ROWS, 8)))
            for first, *counts in groups:
                chosen = sum(pages_of_row(row) for row in range(first, min(first + 8, ROWS)))
                self.assertEqual(sum(n * count for n, count in enumerate(counts, 1)), chosen)
            picture = folder / "unions.png"
            drawn = subprocess.run([sys.executable, "-B", PLOT_UNIONS, unions, picture], check=False)
            if drawn.returncode != 77:  # matplotlib is not installed
                self.assertEqual(drawn.returncode, 0)
                self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
