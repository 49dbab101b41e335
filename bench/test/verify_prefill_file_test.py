# SPDX-License-Identifier: Apache-2.0
"""verify_prefill takes a file whose shape is its own, and says what it expected of any other.

    python3 verify_prefill_file_test.py VERIFY_PREFILL
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import problem_file  # noqa: E402
from problem_file import tensor  # noqa: E402

VERIFY_PREFILL = sys.argv[1]
SHAPE = {
    "page_tokens": "4", "block_tokens": "16", "num_blocks": "2",
    "num_heads": "6", "num_kv_heads": "1", "head_dim": "256",
}  # fmt: skip


def answer(num_rows=9, **changes):
    """What the program prints of a file whose rows see all of one request, and its exit code."""
    tensors = {
        "row_request": tensor("I32", (num_rows,), [0] * num_rows),
        "row_position": tensor("I64", (num_rows,), range(num_rows)),
        "sequence_length": tensor("I32", (1,), [num_rows]),
        "block_table": tensor("I32", (1, 2), [1, 0]),
        "token_table": tensor("I32", (num_rows, 16), list(range(16)) * num_rows),
    }
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "batch.safetensors"
        problem_file.write(path, tensors, {**SHAPE, **changes})
        done = subprocess.run(
            [VERIFY_PREFILL, "--problem", path], stdout=subprocess.PIPE, text=True, check=False
        )
        return done.returncode, done.stdout


class VerifyPrefill(unittest.TestCase):
    """Its policy is the default one."""

    def test_its_own_shape_is_right(self):
        code, said = answer()
        self.assertEqual(code, 0, said)
        self.assertIn("9 rows, blocks of 16 tokens", said)

    def test_another_shape_is_named(self):
        for changes in (
            {"page_tokens": "8"},
            {"num_heads": "12"},
            {"num_kv_heads": "2"},
            {"head_dim": "128"},
            {"num_rows": 0},
        ):
            with self.subTest(**changes):
                code, said = answer(**changes)
                self.assertEqual(code, 1, said)
                self.assertIn("expected rows, 6 heads of 256 elements on one KV head", said)
                self.assertIn("pages of 4 tokens", said)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
