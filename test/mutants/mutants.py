#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks the library in one place at a time and says which device test on the executor sees it:
mutants.py BUILD [PATTERN], with BUILD a configured build folder (Ninja).

A copy of include/ gets all mutants at once, each behind a number that is chosen at run time, so
that every test is compiled once. Prints "mutant: caught by TEST, seed SEED (report)" or "mutant:
NOT CAUGHT" for those that PATTERN matches. Fails if a mutant is not caught, or a test finds fault
with none.

It is no part of ctest: it takes twenty minutes of one core. Run it after a change of the
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

# Folder or file of include/pageunion -> the tests that are asked, in this order. A test may be
# followed by one of its tags: only the cases with this tag are asked.
TESTS = {
    "detail/page_window.cuh": ["planner_test"],
    "detail/group_planner.cuh": ["planner_test"],
    "detail/group_facts.cuh": ["planner_test"],
    "detail/selected_runs.cuh": ["planner_test", "row_attention_test"],
    "detail/row_pages.cuh": ["row_attention_test"],
    "detail/partial_merge.cuh": ["merge_partials_test"],
    "": ["grouped_attention_test", "row_attention_test"],
}



def narrow(name, product, *tests):
    """The mutant that computes a product in 32 bits."""
    return name, f"{product} in 32 bits", product, f"narrowed(MUTANT, {product})", *tests


# File, what is wrong, text, and the text with the mutant in it; MUTANT is true if it is chosen.
# Tests that follow are asked instead of the file's.
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
    ("detail/attention_cta.cuh", "a token of a long row lost",
     "exists ? entry.mask : mask_type{0}",
     "exists ? entry.mask & ~mask_type{MUTANT && step == 5 && lane_ == 9} : mask_type{0}",
     "prefill_test [production]"),
    ("detail/attention_cta.cuh", "tokens of a page for rows that did not select them",
     "masks_.begin_step(exists ? ",
     "masks_.begin_step(MUTANT && exists && step == 17 && lane_ == 9 ? ~mask_type{0} : exists ? ",
     "prefill_test [production]"),
    ("detail/online_softmax.cuh", "a reference that two heads share",
     "warp_values()[w * m_edge + m]);\n      }\n      float const old",
     "warp_values()[w * m_edge + m]);\n"
     "        maximum = fmaxf(maximum, warp_values()[w * m_edge + (m ^ MUTANT)]);\n"
     "      }\n      float const old", "prefill_test [queries]"),
    ("detail/online_softmax.cuh", "references of all rows moved as soon as one outgrows its own",
     "bool const outgrown = maximum - old > rescale_threshold;",
     "bool const outgrown = maximum - old > (MUTANT ? 0.0f : rescale_threshold);",
     "prefill_test [queries]"),
    ("row_attention.cuh", "a scale of the row route that is off by a thousandth",
     "scale_of_base_two(operands.scale),",
     "scale_of_base_two(operands.scale) * (MUTANT ? 1.001f : 1.0f),", "prefill_test [routes]"),
    ("grouped_attention.cuh", "a scale of the grouped route that is off by a thousandth",
     "detail::scale_of_base_two(operands.scale),",
     "detail::scale_of_base_two(operands.scale) * (MUTANT ? 1.001f : 1.0f),",
     "prefill_test [routes]"),
    ("detail/row_pages.cuh", "a window after the last, past int32",
     "begin < end_; begin += window_tokens",
     "begin < end_;\n         begin = MUTANT ? static_cast<std::int32_t>(begin + window_tokens)\n"
     "                        : begin + window_tokens", "row_attention_test [limits]"),
    ("prefill.cuh", "a device that is too small found so after the planner",
     "shape.num_groups > 0 ? detail", "shape.num_groups > 0 && !MUTANT ? detail",
     "prefill_test [arguments]"),
    # As many bits short for the executor's sizes as 16 are for a GPU's.
    ("detail/group_planner.cuh", "the number of a planned group in 7 bits",
     "static_cast<std::int32_t>(blockIdx.x);",
     "static_cast<std::int32_t>(MUTANT ? blockIdx.x & 127u : blockIdx.x);",
     "prefill_test [groups]"),
    ("grouped_attention.cuh", "the number of a group in 7 bits",
     "1 - static_cast<std::int32_t>(blockIdx.x);",
     "1 - static_cast<std::int32_t>(MUTANT ? blockIdx.x & 127u : blockIdx.x);",
     "prefill_test [groups]"),
    ("row_attention.cuh", "the number of a row in 9 bits",
     "static_cast<std::int32_t>(blockIdx.x / num_partitions);",
     "static_cast<std::int32_t>(blockIdx.x / num_partitions & (MUTANT ? 511u : ~0u));",
     "prefill_test [groups]"),
    ("detail/group_facts.cuh", "the number of a request in 16 bits", "request = named;",
     "request = MUTANT ? named & 0xffff : named;", "planner_test [requests]"),
    narrow("detail/attention_cta.cuh", "output_.row(m) * q.row_stride", "prefill_test [far]"),
    narrow("detail/attention_cta.cuh", "output_.head(m) * q.head_stride", "prefill_test [far]"),
    narrow("detail/attention_output.cuh", "row(m) * out.row_stride", "prefill_test [far]"),
    narrow("detail/attention_output.cuh", "head(m) * out.head_stride", "prefill_test [far]"),
    narrow("detail/attention_output.cuh", "row(m) * lse.row_stride", "prefill_test [far]"),
    narrow("detail/attention_output.cuh", "head(m) * lse.head_stride", "prefill_test [far]"),
    ("detail/selected_runs.cuh", "the row of a token table in 32 bits",
     "table.tokens + row * table.row_stride",
     "table.tokens + narrowed(MUTANT, row * table.row_stride)", "prefill_test [far]"),
    ("detail/selected_runs.cuh", "the row of a page table in 32 bits",
     "table.pages + row * table.row_stride",
     "table.pages + narrowed(MUTANT, row * table.row_stride)", "prefill_test [far]"),
    narrow("detail/selected_runs.cuh", "row * table.count_stride", "prefill_test [far]"),
    narrow("detail/group_facts.cuh", "request * blocks.row_stride", "prefill_test [far]"),
    narrow("detail/row_pages.cuh", "request * blocks.row_stride", "prefill_test [far]"),
    narrow("detail/report_tally.cuh", "request * blocks.row_stride", "prefill_test [far]"),
    *(narrow("detail/partial_merge.cuh", product, "merge_partials_test [far]") for product in
      ("partial * from.lse_partial_stride", "row_ * from.lse_row_stride",
       "head_ * from.lse_head_stride", "partial * from.out_partial_stride",
       "row_ * from.out_row_stride", "head_ * from.out_head_stride", "row_ * out.row_stride",
       "head_ * out.head_stride", "row_ * params_.lse.row_stride",
       "head_ * params_.lse.head_stride")),
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
    """The mutants of a copy of include/, in their order: (file, what is wrong, tests)."""

    def __init__(self, include):
        self.all = []
        for file in sorted((include / "pageunion").rglob("*")):
            if file.is_file():
                name = file.relative_to(include / "pageunion").as_posix()
                file.write_text(self.without_barriers(name, file.read_text()))
        applied = {}
        for name, what, old, new, *tests in EDITS:
            text = applied.get(name) or (include / "pageunion" / name).read_text()
            if text.count(old) != 1:
                sys.exit(f"{name}: {text.count(old)} places for '{what}'")
            applied[name] = text.replace(old, new.replace("MUTANT", self.add(name, what, tests)))
            (include / "pageunion" / name).write_text(applied[name])

    def add(self, name, what, tests=()):
        self.all.append((name, what, tests or TESTS.get(name, TESTS[""])))
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


def report_of(scratch, test, seed, number):
    """The first line of what a test says about a mutant; empty if it passes."""
    name, *tags = test.split()
    environment = dict(os.environ, PAGEUNION_EXECUTOR_SEED=str(seed), CHOSEN_MUTANT=str(number))
    try:
        done = subprocess.run([scratch / name, *tags, "--abort"], env=environment,
                              timeout=TIMEOUT_S, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, errors="replace")
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
        "#include <cstdint>\n"
        "#include <cstdlib>\n"
        "inline int const chosen_mutant = std::atoi(std::getenv(\"CHOSEN_MUTANT\"));\n"
        "inline std::int64_t narrowed(bool is_chosen, std::int64_t offset) {\n"
        "  return is_chosen ? static_cast<std::int32_t>(offset) : offset;\n"
        "}\n")
    compiled, controlled = set(), set()
    num_alive = 0
    for number, (name, what, tests) in enumerate(made):
        if not re.search(pattern, f"{name}: {what}"):
            continue
        found = "NOT CAUGHT"
        for test, seed in itertools.product(tests, SEEDS):
            program = test.split()[0]
            if program not in compiled:
                compile_test(build, program, scratch)
                compiled.add(program)
            if test not in controlled:
                controlled.add(test)
                for control in SEEDS:
                    if report := report_of(scratch, test, control, -1):
                        sys.exit(f"{test}, seed {control}, without a mutant: {report}")
            if report := report_of(scratch, test, seed, number):
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
