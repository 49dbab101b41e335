# SPDX-License-Identifier: Apache-2.0
"""What each kernel instance of an sm_70 build costs, read with cuobjdump: no GPU is needed.

    python3 volta_report.py [--cuobjdump PATH] [--json FILE] PROGRAM...

PROGRAM holds sm_70 machine code and, when run, prints what no machine code tells: a line per kernel with
its name (mangled, or as in the table without spaces), its threads and its dynamic shared memory in bytes.
Instructions are counted in the main loop, the smallest one of those with most HMMA, or in the whole
kernel if it has no HMMA. They are counted as they stand in the code, once each.
"""

import argparse
import json
import re
import subprocess
import sys
from collections import Counter

# CUDA C++ Programming Guide, "Features and Technical Specifications", compute capability 7.0;
# allocation granularities: CUDA occupancy calculator, the same capability.
THREADS_PER_SM = 2048
CTAS_PER_SM = 32
REGISTERS_PER_SM = 65536
SMEM_PER_SM = 98304
REGISTERS_OF_WARP_UNIT = 256
SMEM_UNIT = 256

COUNTED = ("HMMA", "LDS", "LDS.128", "STS", "LDG", "SHFL", "MUFU", "BAR")


def run(*command):
    """Output of a command."""
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def resource_usage(cuobjdump, path):
    """Mangled name -> {REG, STACK, SHARED, ...} of the sm_70 code of a file."""
    usage = {}
    architecture = name = None
    for line in run(cuobjdump, "--dump-resource-usage", path).splitlines():
        if line.startswith("arch ="):
            architecture = line.split("=")[1].strip()
        found = re.match(r"\s*Function (\S+):", line)
        if found:
            name = found.group(1)
        elif name and "REG:" in line and architecture == "sm_70":
            usage[name] = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", line)}
            name = None
    return usage


def machine_code(cuobjdump, path):
    """Mangled name -> [(address, instruction)] of the sm_70 code of a file."""
    code = {}
    instructions = None
    for line in run(cuobjdump, "-arch", "sm_70", "--dump-sass", path).splitlines():
        found = re.match(r"\s*Function : (\S+)", line)
        if found:
            instructions = code.setdefault(found.group(1), [])
        found = re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?);", line)
        if found and instructions is not None:
            instructions.append((int(found.group(1), 16), found.group(2).strip()))
    return code


def opcode(instruction):
    """LDS.U.128 of "@P0 LDS.U.128 R0, [R1]"."""
    return re.sub(r"^@!?U?P\w+\s+", "", instruction).split()[0]


def main_loop(instructions):
    """The instructions of the main loop; all of them if the kernel has no HMMA in a loop."""
    loops = []
    for address, instruction in instructions:
        target = re.search(r"\bBRA(?:\.\w+)*\s+(?:`\(\S+\)|!?U?P\d, )?(0x[0-9a-f]+)", instruction)
        if target and int(target.group(1), 16) < address:
            begin = int(target.group(1), 16)
            body = [i for a, i in instructions if begin <= a <= address]
            products = sum(opcode(i).startswith("HMMA") for i in body)
            # A jump back over an EXIT is a rare path's way back, which stands behind the kernel's end.
            if not any(opcode(i) == "EXIT" for i in body):
                loops.append((-products, len(body), body))
    if not loops or min(loops)[0] == 0:
        return [i for _, i in instructions]
    return min(loops, key=lambda loop: loop[:2])[2]


def count(instructions):
    """How often each counted instruction stands in a list."""
    counts = Counter()
    for instruction in instructions:
        parts = opcode(instruction).split(".")
        counts[parts[0]] += 1
        if parts[0] == "LDS" and "128" in parts:
            counts["LDS.128"] += 1
    return {name: counts[name] for name in COUNTED}


def ctas_per_sm(registers, smem_bytes, threads):
    """CTAs that fit on an SM of compute capability 7.0."""
    warps = -(-threads // 32)
    warp_registers = -(-registers * 32 // REGISTERS_OF_WARP_UNIT) * REGISTERS_OF_WARP_UNIT
    limits = [CTAS_PER_SM, THREADS_PER_SM // threads, REGISTERS_PER_SM // warp_registers // warps]
    if smem_bytes:
        limits.append(SMEM_PER_SM // (-(-smem_bytes // SMEM_UNIT) * SMEM_UNIT))
    return min(limits)


def short_name(mangled):
    """Demangled, without namespaces and parameters; of an attention its pages and its policy alone."""
    name = run("c++filt", mangled).strip()
    name = re.sub(r"^void ", "", re.sub(r"\(anonymous namespace\)::", "", name))
    depth = 0
    for end, character in enumerate(name):
        depth += (character == "<") - (character == ">")
        if character == "(" and depth == 0:
            name = name[:end]
            break
    name = re.sub(r"\(int\)", "", name)
    name = re.sub(r"\b(\w+::)+", "", name).replace(" >", ">").replace("> >", ">>")
    attention = re.match(r"attention_kernel<.*?\b(\w+_pages)<attention_shape<(\w+)", name)
    return f"attention_kernel<{attention[1]}, {attention[2]}>" if attention else name


def launches_of(program):
    """Name -> (threads, bytes of dynamic shared memory), as a program prints them."""
    lines = [line.split() for line in run(program).splitlines()]
    return {name: (int(threads), int(smem_bytes)) for name, threads, smem_bytes in lines}


def report(cuobjdump, program):
    """Rows of the table for one program."""
    code = machine_code(cuobjdump, program)
    launches = launches_of(program)
    rows = []
    for mangled, used in sorted(resource_usage(cuobjdump, program).items()):
        name = short_name(mangled)
        launch = launches.get(mangled) or launches.get(name.replace(" ", ""))
        if not launch:
            sys.exit(f"{program} does not say how it launches {name}")
        threads, smem_bytes = launch[0], launch[1] + used.get("SHARED", 0)
        instructions = code.get(mangled, [])
        row = {
            "kernel": name,
            "registers": used["REG"],
            "stack_bytes": used["STACK"],
            "local_accesses": sum(opcode(i).split(".")[0] in ("LDL", "STL") for _, i in instructions),
            "smem_bytes": smem_bytes,
            "threads": threads,
            "ctas_per_sm": ctas_per_sm(used["REG"], smem_bytes, threads),
        }
        row.update(count(main_loop(instructions)))
        rows.append(row)
    return rows


def main():
    """Prints one table for all programs."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("programs", nargs="+")
    parser.add_argument("--cuobjdump", default="cuobjdump")
    parser.add_argument("--json", help="file for the rows")
    arguments = parser.parse_args()
    rows = [row for program in arguments.programs for row in report(arguments.cuobjdump, program)]
    if not rows:
        sys.exit("no sm_70 machine code was found: build for it with CUDA 11.x or 12.x")
    heads = list(rows[0])
    cells = [heads] + [[str(row[head]) for head in heads] for row in rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(heads))]
    for line in cells:
        numbers = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        print("  ".join([line[0].ljust(widths[0])] + numbers))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
