# SPDX-License-Identifier: Apache-2.0
"""Problem files go from C++ to Python and back without changing a bit.

    python3 round_trip_test.py PROBLEM_COPY
"""

import importlib.util
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import problem_file  # noqa: E402
from problem_file import tensor  # noqa: E402

PROBLEM_COPY = sys.argv[1]
HAS_SAFETENSORS = all(importlib.util.find_spec(name) for name in ("numpy", "safetensors"))


def problem_copy(*paths):
    """Runs the C++ program; returns its message."""
    done = subprocess.run([PROBLEM_COPY, *map(str, paths)], stderr=subprocess.PIPE, text=True)
    return done.returncode, done.stderr


class RoundTrip(unittest.TestCase):
    """Each test has a folder of its own."""

    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(self.scratch.name)
        self.original = self.folder / "original.safetensors"
        self.assertEqual(problem_copy(self.original), (0, ""))

    def tearDown(self):
        self.scratch.cleanup()

    def test_python_writes_what_it_read(self):
        tensors, metadata = problem_file.read(self.original)
        self.assertEqual(tensors["token_table"].shape, (8, 67))
        self.assertEqual(metadata["block_tokens"], "36")
        problem_file.write(self.folder / "python.safetensors", tensors, metadata)
        code, message = problem_copy(self.folder / "back.safetensors", self.folder / "python.safetensors")
        self.assertEqual((code, message), (0, ""))
        self.assertEqual(self.original.read_bytes(), (self.folder / "back.safetensors").read_bytes())

    def test_cpp_reads_tables_that_python_made(self):
        tensors = {
            "row_request": tensor("I32", (3,), [0, 0, 1]),
            "row_position": tensor("I64", (3,), [9, 10, 3]),
            "sequence_length": tensor("I32", (2,), [11, 4]),
            "block_table": tensor("I32", (2, 2), [2, 0, 1, -1]),
            "page_table": tensor("I32", (3, 2), [0, -1, 1, 0, -1, -1]),
        }
        metadata = {
            "page_tokens": "4", "block_tokens": "8", "num_blocks": "3",
            "num_heads": "6", "num_kv_heads": "1", "head_dim": "16",
        }  # fmt: skip
        problem_file.write(self.folder / "tables.safetensors", tensors, metadata)
        code, message = problem_copy(self.folder / "back.safetensors", self.folder / "tables.safetensors")
        self.assertEqual((code, message), (0, ""))
        back, _ = problem_file.read(self.folder / "back.safetensors")
        for name, expected in tensors.items():
            self.assertEqual(back[name], expected, name)
        self.assertEqual(back["q"].shape, (3, 6, 16))
        self.assertEqual(back["k"].shape, (3, 8, 1, 16))

    def test_python_refuses_data_of_the_wrong_size(self):
        with self.assertRaises(ValueError):
            counts = problem_file.Tensor("I32", (2,), b"1234")
            problem_file.write(self.folder / "wrong.safetensors", {"counts": counts}, {})

    @unittest.skipUnless(HAS_SAFETENSORS, "numpy and safetensors are not installed")
    def test_the_safetensors_package_agrees(self):
        import numpy
        import safetensors.numpy

        arrays = safetensors.numpy.load_file(self.original)
        tensors, metadata = problem_file.read(self.original)
        self.assertEqual(set(arrays), set(tensors))
        for name, ours in tensors.items():
            self.assertEqual(arrays[name].shape, ours.shape, name)
            self.assertEqual(numpy.ascontiguousarray(arrays[name]).tobytes(), ours.data, name)
        package = self.folder / "package.safetensors"
        safetensors.numpy.save_file(arrays, package, metadata)
        self.assertEqual(problem_copy(self.folder / "back.safetensors", package), (0, ""))
        self.assertEqual(self.original.read_bytes(), (self.folder / "back.safetensors").read_bytes())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
