#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks a header of the library in one place at a time and says which places no test sees:

    mutants.py BUILD HEADER TEST[,TAG...] [--places N] [--seed S] [--lines FIRST-LAST]

BUILD is a configured build folder (Ninja), HEADER a path below include/pageunion, TEST a device test
such as planner_test, of which only the cases with the TAGs are asked. Places are drawn at random:
comparisons, signs, constants and logical operators change, barriers are dropped, products lose their
upper halves. Each mutant is compiled for the executor with race checks and run with an odd and an even
seed: with the one sums lie anywhere, with the other as on GPUs. Prints "LINE: what: caught by SEED
(report)", "LINE: what: does not compile" or "LINE: what: NOT CAUGHT"; some of the last kind change
nothing that a caller could see, and are for a reader to judge. Fails if there is one.

It is no part of ctest: a mutant takes one or two minutes of one core. Run it on a header that changed."""

import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SEEDS, TIMEOUT_S = (2, 1), 900

# Text in a line of code, and what takes its place. clang-format keeps spaces around binary operators,
# and none around those of templates.
OPERATORS = [(f" {old} ", f" {new} ") for old, new in (
    ("<", "<="), ("<=", "<"), (">", ">="), (">=", ">"), ("==", "!="), ("!=", "=="), ("+", "-"),
    ("-", "+"), ("&&", "||"), ("||", "&&"), ("&", "|"), ("%", "/"), ("<<", ">>"), ("|=", "&="))]
PATTERNS = [(re.compile(re.escape(old)), new) for old, new in OPERATORS] + [
    (re.compile(r"\b__sync(threads|warp)\([^()]*\);"), ";"),
    (re.compile(r"\bstd::int64_t\b"), "std::int32_t"),
    (re.compile(r"(?<= )[1-9](?=[;,) ])"), "0"),
    (re.compile(r"(?<= )0(?=[;,) ])"), "1"),
    (re.compile(r"\btrue\b"), "false"),
    (re.compile(r"\bfalse\b"), "true"),
]


def places_of(text):
    """(line, begin, end, replacement) of every mutant of a header's code."""
    begin = 0
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        code = re.sub(r"//.*", "", line)
        if not re.match(r"\s*(#|static_assert|template|using|//)", code):
            for pattern, new in PATTERNS:
                for match in pattern.finditer(code):
                    yield number, begin + match.start(), begin + match.end(), new
        begin += len(line)


def commands_of(build, name, scratch):
    """How a test is compiled with the copy of include/, and linked."""
    target = f"pageunion.executor.races.{name}"
    subprocess.run(["ninja", "-C", build, target], check=True, stdout=subprocess.DEVNULL)
    commands = subprocess.run(["ninja", "-C", build, "-t", "commands", target], check=True,
                              stdout=subprocess.PIPE, text=True).stdout.splitlines()
    compiling = next(line for line in commands if line.endswith(f"/{name}.cu"))
    made = re.search(r"-o (\S+\.o)", compiling)[1]
    linking = re.sub(r"-o \S+", f"-o {scratch}/{name}", commands[-1])
    return [command.replace(made, f"{scratch}/{name}.o") for command in (
        compiling.replace(f"-I{ROOT}/include", f"-I{scratch}/include -w"), linking)]


def report_of(program, tags, seed):
    """The first line of what a test says; empty if it passes."""
    try:
        done = subprocess.run([program, ",".join(f"[{tag}]" for tag in tags), "--abort"], timeout=TIMEOUT_S,
                              env=dict(os.environ, PAGEUNION_EXECUTOR_SEED=str(seed)),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace")
    except subprocess.TimeoutExpired:
        return f"still runs after {TIMEOUT_S} s"
    said = re.search(r"executor: (.*)|(\w+\.\w+:\d+: FAILED.*)", done.stdout)
    return "" if done.returncode == 0 else said[0] if said else f"exit code {done.returncode}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build")
    parser.add_argument("header")
    parser.add_argument("test")
    parser.add_argument("--places", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lines", default="1-100000")
    asked = parser.parse_args()
    name, *tags = asked.test.split(",")
    scratch = Path(tempfile.mkdtemp(prefix="mutants_"))
    shutil.copytree(ROOT / "include", scratch / "include")
    header = scratch / "include" / "pageunion" / asked.header
    text = header.read_text()
    first, last = map(int, asked.lines.split("-"))
    places = [place for place in places_of(text) if first <= place[0] <= last]
    random.Random(asked.seed).shuffle(places)
    commands = commands_of(asked.build, name, scratch)
    num_alive = 0
    for line, begin, end, new in sorted(places[:asked.places]):
        header.write_text(text[:begin] + new + text[end:])
        found = "NOT CAUGHT"
        if any(subprocess.run(command, shell=True, cwd=asked.build, check=False,
                              stderr=subprocess.DEVNULL).returncode for command in commands):
            found = "does not compile"
        for seed in SEEDS if found == "NOT CAUGHT" else ():
            if report := report_of(scratch / name, tags, seed):
                found = f"caught by {seed} ({report})"
                break
        num_alive += found == "NOT CAUGHT"
        print(f"{line}: '{text[begin:end].strip()}' is '{new.strip()}': {found}", flush=True)
    shutil.rmtree(scratch)
    return num_alive != 0


if __name__ == "__main__":
    sys.exit(main())
