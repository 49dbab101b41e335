# SPDX-License-Identifier: Apache-2.0
"""What the comparing scripts do without a GPU: selections made token tables, variants named, and a
table of what there is.

    python3 yardsticks_test.py
"""

import json
import os
import pathlib
import stat
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
BENCH = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(BENCH))
import compare_table  # noqa: E402
import problem_file  # noqa: E402
from problem_file import tensor  # noqa: E402


def int32(rows):
    """A tensor of rows of equal length."""
    return tensor("I32", (len(rows), len(rows[0])), [number for row in rows for number in row])


def problem(**selection):
    """Rows at positions 9 and 5 of the first request, at 3 of the second, and of no request."""
    return {
        "row_request": tensor("I32", (4,), [0, 0, 1, 2]),
        "row_position": tensor("I64", (4,), [9, 5, 3, 0]),
        "sequence_length": tensor("I32", (2,), [10, 3]),
        **selection,
    }


def tokens_of(tensors):
    """The rows of the token table that is made of a problem."""
    table = problem_file.token_table(tensors, {"page_tokens": "4"})
    flat = problem_file.numbers(table).tolist()
    width = table.shape[1]
    return [flat[row * width : (row + 1) * width] for row in range(table.shape[0])]


class Selections(unittest.TestCase):
    """The Triton kernels read token tables alone."""

    def test_a_page_table_becomes_its_tokens_and_those_of_the_tail(self):
        # Holes, a page that no row sees, a page listed twice, and a tail that is listed as well.
        pages = int32([[1, -1, 1], [7, 1, -1], [0, -1, -1], [0, 1, 2]])
        nothing = [-1] * 6
        self.assertEqual(
            tokens_of(problem(page_table=pages)),
            [[4, 5, 6, 7, 8, 9], [4, 5, -1, -1, -1, -1], [0, 1, 2, -1, -1, -1], nothing],
        )

    def test_entries_past_the_count_are_gone(self):
        table = int32([[3, -1, 4, 5], [0, 1, 2, 3], [2, 1, 0, 0], [0, 1, 2, 3]])
        counts = tensor("I32", (4,), [3, -1, 99, 4])
        self.assertEqual(
            tokens_of(problem(token_table=table, counts=counts)),
            [[3, 4, -1], [-1, -1, -1], [2, 1, 0], [-1, -1, -1]],
        )

    def test_a_token_table_stays_what_it_is(self):
        table = int32([[3, -1, 3, 5]] * 4)
        tensors = problem(token_table=table)
        self.assertIs(problem_file.token_table(tensors, {"page_tokens": "4"}), table)


def result(kernel, time_ms, name="a"):
    """A line of attention_compare."""
    return {
        "problem": name, "kernel": kernel, "time_ms": time_ms, "asked_GFLOP": 1.0, "error_out": 0.0,
        "rows": 8, "jaccard": 1.0, "growth": [1.0] * 4, "planner_ms": 0.1,
    }  # fmt: skip


def library(*times, repetitions=30):
    """A file of attention_compare: the library and the synchronous variants, slower than it."""
    kernels = ["16 warps", "16 warps x2", "8 warps"]
    variants = [result(f"synchronous tile, {k}", t) for k, t in zip(kernels, times)]
    return {
        "device": "none", "cuda_of_build": 11080, "ptx_version": 70, "binary_version": 70,
        "repetitions": repetitions, "results": [result("pageunion grouped", 1.0), *variants],
    }  # fmt: skip


class Table(unittest.TestCase):
    """What compare_table.py says of the variants."""

    def named(self, *times):
        return [r.get("parameters") for r in compare_table.joined(library(*times), None)[1:]]

    def test_the_published_shape_and_the_best_variant_are_named(self):
        best = "best synchronous variant"
        self.assertEqual(self.named(3.0, 2.0, 2.5), ["published shape", best, None])
        self.assertEqual(self.named(3.0, 2.0, 1.5), ["published shape", None, best])
        self.assertEqual(self.named(1.0, 2.0, 1.5), ["published shape, " + best, None, None])


# Writes what the real program writes.
STUB = """#!/usr/bin/env bash
echo "attention_compare $*" >> "$CALLED"
for argument; do
  if [ "${before:-}" = --json ]; then cp "$LIBRARY" "$argument"; fi
  if [ "${before:-}" = --export-folder ]; then : > "$argument/a.safetensors"; fi
  before=$argument
done
"""
PYTHON = f"""#!/usr/bin/env bash
echo "$*" >> "$CALLED"
exec "{sys.executable}" "$@"
"""


class Script(unittest.TestCase):
    """compare.sh with a program that measures nothing."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        for name, text in (("attention_compare", STUB), ("python3", PYTHON)):
            stub = self.folder / name
            stub.write_text(text, encoding="utf-8")
            stub.chmod(stub.stat().st_mode | stat.S_IXUSR)

    def tearDown(self):
        self.scratch.cleanup()

    def compare(self, yardsticks):
        """Runs the script with a torch that is there and a triton of this text; returns its output."""
        for name, text in (
            ("torch.py", ""),
            ("triton.py", yardsticks),
            ("library.json", json.dumps(library(3.0, 2.0, 2.5))),
        ):
            (self.folder / name).write_text(text, encoding="utf-8")
        environment = {
            **os.environ,
            "LIBRARY": str(self.folder / "library.json"),
            "CALLED": str(self.folder / "called"),
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "PYTHONPATH": str(self.folder),
        }
        done = subprocess.run(
            ["bash", BENCH / "compare.sh", self.folder, self.folder / "out.json", "fresh-8k"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def test_a_triton_that_fails_costs_its_own_lines_alone(self):
        said = self.compare("")  # it can be imported, and has nothing in it
        self.assertIn("kernels failed", said)
        self.assertIn("synchronous tile, 16 warps x2", said)
        self.assertEqual(json.loads((self.folder / "out.json").read_text())["variants"], [])

    def test_no_triton_is_named(self):
        self.assertIn("Triton is not installed", self.compare("raise ImportError"))

    def test_both_programs_get_the_number_that_the_table_states(self):
        called = []
        self.compare("")
        for line in (self.folder / "called").read_text().splitlines():
            if "attention_compare" in line or "triton_yardsticks.py" in line:
                self.assertIn("--repetitions 30", line)
                called.append(line)
        self.assertEqual(len(called), 2)

    def test_results_of_other_repetitions_are_refused(self):
        for name, found in (
            ("library", library(3.0)),
            ("triton", {"triton": "0", "repetitions": 20, "left_out": [], "results": []}),
        ):
            (self.folder / f"{name}.json").write_text(json.dumps(found), encoding="utf-8")
        done = subprocess.run(
            [sys.executable, "-B", BENCH / "compare_table.py", self.folder / "library.json",
             self.folder / "triton.json", "--json", self.folder / "out.json", "--commit", "0",
             "--driver", "0", "--command", "0"],
            stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("different --repetitions", done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
