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


def blank_out(text):
    """The text with comments, literals and preprocessor lines replaced by blanks; same length."""
    pattern = re.compile(
        r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|'
        r'^[ \t]*#(?:[^\n\\]|\\.|\\\n)*', re.S | re.M)
    return pattern.sub(lambda m: re.sub(r"[^\n]", " ", m.group(0)), text)


def as_braces(macro):
    """What a macro of version.hpp that opens or closes a namespace stands for."""
    name = "detail" if "_DETAIL_" in macro[0] else "pageunion"
    return f"namespace {name} {{" if macro[1] == "BEGIN" else "}"


def without_template_head(text):
    text = text.strip()
    while text.startswith("template"):
        depth = 0
        for position, character in enumerate(text):
            depth += (character == "<") - (character == ">")
            if character == ">" and depth == 0:
                text = text[position + 1:].strip()
                break
        else:
            break
    return text


class Scope:
    def __init__(self, kind, name="", public=True):
        self.kind, self.name, self.public = kind, name, public


def scope_of(declaration):
    """The scope that an opening brace after this text opens."""
    text = without_template_head(declaration)
    if match := re.match(r"(?:inline\s+)?namespace\b\s*([\w:]*)", text):
        return Scope("namespace", match[1])
    if re.match(r"enum\b", text):
        return Scope("enum")
    if (match := re.match(r"(struct|class|union)\b", text)) and "=" not in text:
        return Scope("class", public=match[1] != "class")
    return Scope("body")


def declarations(text):
    """(first line, last line, text, is member) of every public declaration; lines from 0."""
    scopes = [Scope("namespace")]
    start, line, continues = None, 0, False
    head = ""
    parentheses = 0
    code = re.sub(r"^PAGEUNION_\w*NAMESPACE_(BEGIN|END)$", as_braces, blank_out(text), flags=re.M)
    for character in code:
        if character == "\n":
            line += 1
        top = scopes[-1]
        visible = top.kind in ("namespace", "class")
        if character == "{":
            opened = Scope("body") if parentheses or not visible else scope_of(head)
            if visible and not parentheses and opened.kind in ("class", "enum", "body"):
                if is_public(scopes) and not continues and start is not None:
                    yield start, line, head + "{", top.kind == "class"
                continues = opened.kind != "namespace"
            scopes.append(opened)
            if opened.kind in ("namespace", "class"):
                start, head, continues = None, "", False
        elif character == "}":
            closed = scopes.pop()
            if closed.kind == "namespace":
                start, head = None, ""
            elif closed.kind in ("class", "enum"):
                continues, start, head = True, None, ""
        elif visible:
            parentheses += (character == "(") - (character == ")")
            if character == ";" and not parentheses:
                if is_public(scopes) and not continues and start is not None:
                    yield start, line, head, top.kind == "class"
                start, head, continues = None, "", False
            elif character == ":" and (label := re.fullmatch(
                    r"\s*(public|private|protected)\s*", head)):
                top.public = label[1] == "public"
                start, head = None, ""
            elif not character.isspace():
                if continues and character not in ",{":
                    start, head, continues = None, "", False  # a body ended without a semicolon
                if start is None:
                    start = line
                head += character
            else:
                head += character


def is_public(scopes):
    return all(
        s.public and s.kind in ("namespace", "class") and not s.name.endswith("detail")
        for s in scopes)


def needs_comment(declaration):
    text = without_template_head(declaration)
    if re.match(r"(static_assert|friend|using namespace)\b", text):
        return False
    if re.fullmatch(r"(struct|class|union|enum class|enum)\s+\w+", text.strip()):
        return False  # a forward declaration needs none
    return not re.search(r"=\s*(default|delete)\s*$", text)


def has_comment(lines, first, last, is_member):
    if first > 0 and lines[first - 1].lstrip().startswith("//!"):
        return True
    if any("//!<" in line for line in lines[first:last + 1]):
        return True
    if last + 1 < len(lines) and lines[last + 1].lstrip().startswith("//!<"):
        return True
    if not is_member:
        return False
    for step, edge in ((-1, first), (1, last)):
        number = edge + step
        while 0 <= number < len(lines) and lines[number].strip():
            if re.search(r"[{}]\s*;?\s*$", lines[number]) and "(" not in lines[number]:
                break  # the class itself begins or ends here
            if "//!" in lines[number]:
                return True
            number += step
    return False


def main(repository):
    root = pathlib.Path(repository)
    faults, seen = [], 0
    for path in sorted((root / "include" / "pageunion").glob("*.[hc]*")):
        text = path.read_text()
        lines = text.splitlines()
        for first, last, declaration, is_member in declarations(text):
            seen += 1
            if needs_comment(declaration) and not has_comment(lines, first, last, is_member):
                faults.append(f"{path.relative_to(root)}:{first + 1}: no //! comment: "
                              f"{lines[first].strip()}")
    for fault in faults:
        print(fault)
    print(f"{seen} public declarations, {len(faults)} without a comment")
    return 1 if faults or not seen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
