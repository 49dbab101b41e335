#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every public name of the library has a //! comment: doc_comments.py REPOSITORY.

Public: declared in a header directly under include/pageunion, outside namespace detail, and not in
a private part of a class. At namespace scope the comment stands right before the declaration or
behind it (//!<). Members of a class may share one: a run of declarations without an empty line
between them needs one comment. Enumerators are covered by their enum."""

import pathlib
import re
import sys

CLASS_HEAD = re.compile(r"(?:template <.*> )?(struct|class|union) (?:alignas\(\w+\) )?[^=(]*\{")
NEEDS_NONE = re.compile(r"(static_assert|friend|using namespace)\b.*|"
                        r"(template <.*> )?(struct|class|union|enum|enum class) \w+;|"
                        r".*= (default|delete);")

BORDER = re.compile(r"[^(]*[{}];?")  # the first or the last line of a class or of a body


def declarations(lines):
    """(first line, last line, text, is member) of every public declaration; lines from 0. A text ends with
    the body's opening brace. Knows scopes by clang-format's layout: those of namespaces are not indented, a
    class's members are by two blanks, and a body ends where its declaration is indented to."""
    code = [re.sub(r"\s*//.*", "", line) for line in lines]
    are_public, is_detail, number = [], False, -1  # are_public: of the classes around the line
    while (number := number + 1) < len(lines):
        line = code[number]
        if match := re.match(r"PAGEUNION_\w*NAMESPACE_(BEGIN|END)$", line):
            is_detail = "_DETAIL_" in line and match[1] == "BEGIN"
        elif line.startswith("#"):
            while code[number].endswith("\\"):
                number += 1
        elif is_detail:
            continue
        elif match := re.match(r" +(public|private|protected):$", line):
            are_public[-1] = match[1] == "public"
        elif are_public and line == "  " * (len(are_public) - 1) + "};":
            are_public.pop()
        elif line:
            first = number
            while not code[number].endswith((";", "{", "}")):
                number += 1
            text = " ".join(part.strip() for part in code[first:number + 1])
            if all(are_public):
                yield first, number, text, bool(are_public)
            if match := CLASS_HEAD.fullmatch(text):
                are_public.append(match[1] != "class")
            elif text.endswith("{"):
                while not code[number].startswith("  " * len(are_public) + "}"):
                    number += 1


def has_comment(lines, first, last, is_member):
    if lines[first - 1].lstrip().startswith("//!") or lines[last + 1].lstrip().startswith("//!<"):
        return True
    if is_member:
        while lines[first - 1].strip() and not BORDER.fullmatch(lines[first - 1]):
            first -= 1
        while lines[last + 1].strip() and not BORDER.fullmatch(lines[last + 1]):
            last += 1
    return any("//!" in line for line in lines[first:last + 1])


def main(repository):
    root = pathlib.Path(repository)
    faults, seen = [], 0
    for path in sorted((root / "include" / "pageunion").glob("*.[hc]*")):
        lines = path.read_text().splitlines()
        for first, last, text, is_member in declarations(lines):
            seen += 1
            if not NEEDS_NONE.fullmatch(text) and not has_comment(lines, first, last, is_member):
                faults.append(f"{path.relative_to(root)}:{first + 1}: no //! comment: "
                              f"{lines[first].strip()}")
    for fault in faults:
        print(fault)
    print(f"{seen} public declarations, {len(faults)} without a comment")
    return 1 if faults or not seen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
