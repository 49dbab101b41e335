#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks of the documents.

markdown.py links REPOSITORY
    Every relative link leads to a file and, with a #, to a heading. README.md has its size and its call.
markdown.py extract REPOSITORY FOLDER
    Writes the quick start and README.md's first CMake block to FOLDER: what a new user would do.
markdown.py compile REPOSITORY COMPILER...
    Every code block names its language. Every C++ block is a passage of a program under examples/,
    which the build compiles, or compiles by itself: COMPILER... FILE. Shell blocks parse.
markdown.py statuses REPOSITORY
    examples/README.md lists every status in its order, with its text word for word, a cause and a cure."""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

README_LINES, README_COLUMNS, CALL_LINES = 150, 160, 25  # at most
CPP = {"cpp", "c++", "cuda", "cu"}
SHELL = {"sh", "bash", "shell"}


def documents(root):
    skipped = re.compile(r"^(build|\.)")
    return sorted(p for p in root.rglob("*.md")
                  if not any(skipped.match(part) for part in p.relative_to(root).parts))


def blocks(text):
    """(line, language, content) of every fenced block."""
    language, begin, content = None, 0, []
    for number, line in enumerate(text.splitlines(), 1):
        fence = re.match(r"^\s*```\s*([\w+-]*)", line)
        if language is None and fence:
            language, begin, content = fence[1], number, []
        elif language is not None and fence:
            yield begin, language, "\n".join(content) + "\n"
            language = None
        elif language is not None:
            content.append(line)


def anchors(text):
    """Names of a document's headings as its renderer makes them."""
    for line in re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.S | re.M).splitlines():
        if line.startswith("#"):
            name = re.sub(r"[^\w\- ]", "", line.lstrip("# ").strip().lower())
            yield name.replace(" ", "-")


def check_links(root):
    faults = []
    for path in documents(root):
        text = path.read_text()
        prose = re.sub(r"^\s*```.*?^\s*```", "", text, flags=re.S | re.M)
        for target in re.findall(r"\]\(([^)\s]+)[^)]*\)", prose):
            if re.match(r"(https?|mailto):", target):
                continue
            name, _, anchor = target.partition("#")
            file = (path.parent / name) if name else path
            if not file.exists():
                faults.append(f"{path.relative_to(root)}: no file {name}")
            elif anchor and anchor not in anchors(file.read_text()):
                faults.append(f"{path.relative_to(root)}: no heading #{anchor} in {file.name}")
    return faults + check_readme((root / "README.md").read_text())


def check_readme(text):
    lines = text.splitlines()
    faults = [f"README.md:{number}: {len(line)} columns; {README_COLUMNS} at most"
              for number, line in enumerate(lines, 1) if len(line) > README_COLUMNS]
    if len(lines) > README_LINES:
        faults.append(f"README.md: {len(lines)} lines; {README_LINES} at most")
    calls = [content for _, language, content in blocks(text) if language in CPP]
    if len(calls) != 1 or len(calls[0].splitlines()) > CALL_LINES:
        faults.append(f"README.md: expected one call, of {CALL_LINES} lines at most")
    return faults


def extract(root, folder):
    cmake = [content for _, language, content in blocks((root / "README.md").read_text())
             if language == "cmake"]
    if not cmake:
        return ["README.md: no CMake block"]
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "CMakeLists.txt").write_text(cmake[0])
    for name in ("quick_start.cu", "example.hpp"):
        shutil.copy(root / "examples" / name, folder)
    return []


def lines_of(text):
    return [line.strip() for line in text.splitlines() if line.strip()]


def is_passage(block, program):
    inner, outer = lines_of(block), lines_of(program)
    return any(outer[i:i + len(inner)] == inner for i in range(len(outer) - len(inner) + 1))


def fault_of_command(command, place):
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return [f"{place}: {result.stdout}"] if result.returncode else []


def check_blocks(root, *compiler):
    programs = [p.read_text() for p in (root / "examples").rglob("*.cu*")]
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "block.cu"
        for path in documents(root):
            for line, language, content in blocks(path.read_text()):
                place = f"{path.relative_to(root)}:{line}"
                file.write_text(content)
                if not language:
                    faults.append(f"{place}: the code block names no language")
                elif language in CPP and not any(is_passage(content, p) for p in programs):
                    faults += fault_of_command([*compiler, str(file)], place)
                elif language in SHELL:
                    faults += fault_of_command(["bash", "-n", str(file)], place)
    return faults


def statuses(header):
    """(name, text) of every enumerator of status; the text is None if to_string() has none."""
    enumerators = re.search(r"enum class status : int \{(.*?)\};", header, re.S)[1]
    texts = {name: "".join(re.findall(r'"((?:\\.|[^"\\])*)"', literals)) for name, literals in
             re.findall(r'case status::(\w+):\s*return ((?:"(?:\\.|[^"\\])*"\s*)+);', header)}
    for name in re.findall(r"^\s*(\w+)(?: = \d+)?,", enumerators, re.M):
        yield name, texts.get(name)


def check_statuses(root):
    document = "examples/README.md"
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in (root / document).read_text().splitlines()
            if re.match(r"\| `\w+` \|", line)]
    listed = {row[0].strip("`"): row[1:] for row in rows}
    expected = dict(statuses((root / "include" / "pageunion" / "status.hpp").read_text()))
    faults = []
    for name, text in expected.items():
        if text is None:
            faults.append(f"status.hpp: to_string() has no text for {name}")
        elif name not in listed:
            faults.append(f"{document}: no row for the status {name}")
        elif listed[name][0] != text:
            faults.append(f"{document}: {name}: '{listed[name][0]}' is not its text, '{text}'")
        elif len(listed[name]) != 3 or not all(listed[name]):
            faults.append(f"{document}: {name}: expected a text, a cause and a cure")
    faults += [f"{document}: {name} is no status" for name in listed if name not in expected]
    if not faults and [row[0].strip("`") for row in rows] != list(expected):
        faults.append(f"{document}: the statuses are not in the order of status.hpp, or not each once")
    return faults if expected else ["status.hpp: no enumerator was found"]


COMMANDS = {"links": check_links, "extract": extract, "statuses": check_statuses,
            "compile": check_blocks}


def main(command, repository, *rest):
    faults = COMMANDS[command](pathlib.Path(repository), *rest)
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
