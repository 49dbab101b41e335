#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks the library in one place at a time and says which device test on the executor sees it:
mutants.py BUILD [PATTERN], with BUILD a configured build folder (Ninja).

A copy of include/ gets all mutants at once, each behind a number that is chosen at run time, so
that every test is compiled once. Prints "mutant: caught by TEST, seed SEED (report)" or "mutant:
NOT CAUGHT" for those that PATTERN matches. Fails if a mutant is not caught, or a test finds fault
with none.

It is no part of ctest: it takes a quarter of an hour of one core. Run it after a change of the
executor, of a device test or of a kernel's barriers."""

import itertools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEEDS = 1, 2  # an odd one, and an even one: sums lie anywhere, or as on GPUs
TIMEOUT_S = 900

# Folder or file of include/pageunion -> the tests that are asked, in this order.
TESTS = {
    "detail/page_window.cuh": ["planner_test"],
    "detail/group_planner.cuh": ["planner_test"],
    "detail/group_facts.cuh": ["planner_test"],
    "detail/selected_runs.cuh": ["planner_test", "row_attention_test"],
    "detail/row_pages.cuh": ["row_attention_test"],
    "detail/partial_merge.cuh": ["merge_partials_test"],
    "": ["grouped_attention_test", "row_attention_test"],
}

# File, what is wrong, text, and the text with the mutant in it; MUTANT is true if it is chosen.
EDITS = [
    ("detail/group_planner.cuh", "a mask bit of every planned page flipped",
     "= mask;\n    if (is_last)", "= mask ^ mask_type{MUTANT};\n    if (is_last)"),
    ("detail/page_window.cuh", "a mask bit set for the next token",
     "bits << first_bit % word_bits)", "bits << (first_bit + MUTANT) % word_bits)"),
    ("detail/online_softmax.cuh", "a mask read one token further",
     "Elements::row_leader(i)) * G::page_tokens;",
     "Elements::row_leader(i)) * G::page_tokens + MUTANT;"),
    ("detail/step_pages.cuh", "the last m-tile never active",
     "(mask & tile_rows(t)) != 0 ?",
     "(mask & tile_rows(t)) != 0 && !(MUTANT && t == G::m_tiles - 1) ?"),
    ("detail/fragments.cuh", "the row of an element by a fixed formula",
     "return static_cast<int>(packed_[i / 4] >> (8 * (i % 4) + 4) & 15u);",
     "return MUTANT ? static_cast<int>(threadIdx.x) % warp_threads / 4 + i / 2 % 2 * 8\n"
     "                : static_cast<int>(packed_[i / 4] >> (8 * (i % 4) + 4) & 15u);"),
    ("detail/fragments.cuh", "the column of an element by a fixed formula",
     "return static_cast<int>(packed_[i / 4] >> (8 * (i % 4)) & 15u);",
     "return MUTANT ? static_cast<int>(threadIdx.x) % 4 * 2 + i % 2 + i / 4 * 8\n"
     "                : static_cast<int>(packed_[i / 4] >> (8 * (i % 4)) & 15u);"),
    ("detail/fragments.cuh", "the fast path whatever the map is",
     "__all_sync(every_lane, regular) != 0;", "__all_sync(every_lane, regular) != 0 || MUTANT;"),
    ("detail/step_pages.cuh", "the offset of a page in 32 bits",
     "static_cast<std::int64_t>(sizeof(__half));\n  }\n\n  //! Where",
     "static_cast<std::int64_t>(sizeof(__half));\n"
     "    page_bytes_ = MUTANT ? static_cast<std::int32_t>(page_bytes_) : page_bytes_;\n"
     "  }\n\n  //! Where"),
    ("detail/group_facts.cuh", "tokens past a row's position planned",
     "visible_end(position,", "visible_end(MUTANT ? std::int64_t{1} << 40 : position,"),
    ("detail/group_facts.cuh", "tokens past the block table planned",
     "end < table_tokens ?", "end < table_tokens || MUTANT ?"),
    ("detail/row_pages.cuh", "tokens past a row's position listed",
     "visible_end(rows.row_position[row],",
     "visible_end(MUTANT ? std::int64_t{1} << 40 : rows.row_position[row],"),
    ("detail/row_pages.cuh", "tokens past the block table listed",
     "end_ < mapped ?", "end_ < mapped || MUTANT ?"),
    ("detail/selected_runs.cuh", "the tail page taken as a whole one",
     "tokens_left >= PageTokens ?", "tokens_left >= PageTokens || MUTANT ?"),
    ("detail/selected_runs.cuh", "entries past the count read",
     "first + i < num_entries ?", "first + i < num_entries || MUTANT ?"),
    ("detail/group_planner.cuh", "padding that is page 0 of block 0 with a mask",
     "addresses[padding] = address;\n        masks[padding]     = 0;",
     "addresses[padding] = MUTANT ? page_address{0, 0} : address;\n"
     "        masks[padding]     = MUTANT ? ~mask_type{0} : 0;"),
    ("detail/group_planner.cuh", "padding left unwritten",
     "padding % tile_pages != 0;", "padding % tile_pages != 0 && !MUTANT;"),
    ("detail/attention_cta.cuh", "pages past the plan's end with the last one's mask",
     "bool const exists = lane_", "bool const exists = MUTANT || lane_"),
    ("detail/attention_cta.cuh", "pages past the plan's end read",
     "index < last ?", "index < last || MUTANT ?"),
    ("grouped_attention.cuh", "a row more in the last group",
     "rows_left < Geometry::group_rows ? rows_left :",
     "rows_left < Geometry::group_rows ? rows_left + MUTANT :"),
    ("grouped_attention.cuh", "a row less in the last group",
     "rows_left < Geometry::group_rows ?", "rows_left < Geometry::group_rows ? -MUTANT +"),
    ("detail/group_facts.cuh", "a row more in the last planned group",
     "first_row + r < rows.num_rows)", "first_row + r < rows.num_rows + MUTANT)"),
    ("detail/attention_output.cuh", "an m-row more than there are",
     "return m < num_m_rows_;", "return m < num_m_rows_ + MUTANT;"),
    ("detail/partial_merge.cuh", "an item more than there are",
     "item < params.num_items)", "item < params.num_items + MUTANT)"),
]


def end_of_call(text, begin):
    """Place behind the parenthesis that closes the first one at or after `begin`."""
    depth = 0
    for i in range(begin, len(text)):
        depth += {"(": 1, ")": -1}.get(text[i], 0)
        if depth == 0 and text[i] == ")":
            return i + 1
    raise ValueError("unbalanced parentheses")


class mutants:
    """The mutants of a copy of include/, in their order: (file, what is wrong)."""

    def __init__(self, include):
        self.all = []
        for file in sorted((include / "pageunion").rglob("*")):
            if file.is_file():
                name = file.relative_to(include / "pageunion").as_posix()
                file.write_text(self.without_barriers(name, file.read_text()))
        applied = {}
        for name, what, old, new in EDITS:
            text = applied.get(name) or (include / "pageunion" / name).read_text()
            if text.count(old) != 1:
                sys.exit(f"{name}: {text.count(old)} places for '{what}'")
            applied[name] = text.replace(old, new.replace("MUTANT", self.add(name, what)))
            (include / "pageunion" / name).write_text(applied[name])

    def add(self, name, what):
        self.all.append((name, what))
        return f"(chosen_mutant == {len(self.all) - 1})"

    def without_barriers(self, name, text):
        """The text with every barrier behind a condition."""
        done, begin = "", 0
        for match in re.finditer(r"__sync(threads|warp)(_\w+)?\(", text):
            end = end_of_call(text, match.start())
            call = text[match.start():end]
            line = text.count("\n", 0, match.start()) + 1
            chosen = self.add(name, f"no {match[0]}) in line {line}")
            is_vote = match[2] is not None
            value = f"static_cast<int>({call[len(match[0]):-1]})" if is_vote else "void()"
            done += text[begin:match.start()] + f"({chosen} ? {value} : {call})"
            begin = end
        return done + text[begin:]


def compile_test(build, name, scratch):
    """Compiles and links a test with the copy of include/ as the build folder would."""
    target = f"pageunion.executor.races.{name}"
    subprocess.run(["ninja", "-C", build, target], check=True, stdout=subprocess.DEVNULL)
    commands = subprocess.run(["ninja", "-C", build, "-t", "commands", target], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.splitlines()
    compiling = next(line for line in commands if line.endswith(f"/{name}.cu"))
    made = re.search(r"-o (\S+\.o)", compiling)[1]
    compiling = compiling.replace(f"-I{ROOT}/include", f"-I{scratch}/include -w "
                                  f"-include {scratch}/chosen_mutant.hpp")
    linking = re.sub(r"-o \S+", f"-o {scratch}/{name}", commands[-1])
    for command in compiling, linking:
        command = command.replace(made, f"{scratch}/{name}.o")
        subprocess.run(command, shell=True, check=True, cwd=build)


def report_of(program, seed, number):
    """The first line of what a test says about a mutant; empty if it passes."""
    environment = dict(os.environ, PAGEUNION_EXECUTOR_SEED=str(seed), CHOSEN_MUTANT=str(number))
    try:
        done = subprocess.run([program, "--abort"], env=environment, timeout=TIMEOUT_S,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace")
    except subprocess.TimeoutExpired:
        return f"still runs after {TIMEOUT_S} s"
    if done.returncode == 0:
        return ""
    said = re.search(r"executor: (.*)", done.stdout) or re.search(r"(\w+\.\w+:\d+: FAILED.*)",
                                                                  done.stdout)
    return said[1].strip() if said else f"exit code {done.returncode}"


def main(build, pattern=""):
    scratch = Path(tempfile.mkdtemp(prefix="mutants_"))
    shutil.copytree(ROOT / "include", scratch / "include")
    made = mutants(scratch / "include").all
    (scratch / "chosen_mutant.hpp").write_text(
        "#include <cstdlib>\n"
        "inline int const chosen_mutant = std::atoi(std::getenv(\"CHOSEN_MUTANT\"));\n")
    compiled = set()
    num_alive = 0
    for number, (name, what) in enumerate(made):
        if not re.search(pattern, f"{name}: {what}"):
            continue
        found = "NOT CAUGHT"
        for test, seed in itertools.product(TESTS.get(name, TESTS[""]), SEEDS):
            if test not in compiled:
                compile_test(build, test, scratch)
                compiled.add(test)
                for control in SEEDS:
                    if report := report_of(scratch / test, control, -1):
                        sys.exit(f"{test}, seed {control}, without a mutant: {report}")
            if report := report_of(scratch / test, seed, number):
                found = f"caught by {test}, seed {seed} ({report})"
                break
        num_alive += found == "NOT CAUGHT"
        print(f"{name}: {what}: {found}", flush=True)
    shutil.rmtree(scratch)
    return num_alive != 0


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    sys.exit(main(*sys.argv[1:]))
