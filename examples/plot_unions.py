# SPDX-License-Identifier: Apache-2.0
"""Draws what the rows of each group share, from a file that verify_prefill --unions wrote.

    python3 plot_unions.py UNIONS.csv PICTURE.png

Says so and exits with 77 where matplotlib is not installed.
"""

import csv
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    print("matplotlib is not installed: skipped", file=sys.stderr)
    sys.exit(77)


def read(path):
    """First rows of the groups, and for each number of rows the pages that so many rows share."""
    with open(path, encoding="utf-8", newline="") as file:
        lines = list(csv.reader(file))[1:]
    columns = [[int(cell) for cell in column] for column in zip(*lines)]
    return columns[0], columns[1:]


def draw(first_rows, pages_of, picture):
    """Pages of every union, and how many rows share a page that is loaded once."""
    unions = [sum(counts) for counts in zip(*pages_of)]
    rows_alone = [
        sum(rows * count for rows, count in enumerate(counts, 1)) / len(counts)
        for counts in zip(*pages_of)
    ]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
    left.plot(first_rows, unions, color="#0072B2", label="union of the group")
    left.plot(first_rows, rows_alone, color="#D55E00", label="mean of its rows")
    left.set(xlabel="first row of the group", ylabel="pages", ylim=(0, None))
    left.legend()
    totals = [sum(counts) for counts in pages_of]
    right.bar(range(1, len(totals) + 1), totals, color="#009E73")
    shared = sum(rows * count for rows, count in enumerate(totals, 1)) / max(sum(totals), 1)
    right.set(xlabel="rows that attend to the page", ylabel="pages of all unions",
              title=f"{shared:.2f} rows per loaded page")
    left.set_title(f"{len(unions)} groups of {len(totals)} rows")
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    draw(*read(sys.argv[1]), sys.argv[2])
