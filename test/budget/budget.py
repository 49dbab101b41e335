#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares what the sm_70 code of every kernel takes with a table:
budget.py TABLE CUOBJDUMP LAUNCHES, with LAUNCHES the program that launches.cu becomes.

Fails if a kernel takes more than its line allows, has no line, or a line has no kernel."""

import re
import subprocess
import sys


def output_of(*command):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def read_table(path):
    """kernel -> (registers, stack bytes, shared bytes, HMMA instructions) that it may take at most."""
    table = {}
    for line in open(path):
        if line.strip() and not line.startswith("#"):
            kernel, *limits = line.split()
            table[kernel] = tuple(map(int, limits))
    return table


def resource_usage(cuobjdump, program):
    """Mangled name -> resources of the sm_70 machine code."""
    usage, architecture, name = {}, None, None
    for line in output_of(cuobjdump, "--dump-resource-usage", program).splitlines():
        if match := re.match(r"arch = (\w+)", line):
            architecture = match[1]
        elif match := re.match(r"\s*Function (\S+):", line):
            name = match[1]
        elif name and architecture == "sm_70" and "REG:" in line:
            usage[name] = {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", line)}
    return usage


def hmma_instructions(cuobjdump, program):
    """Mangled name -> HMMA instructions in the sm_70 machine code."""
    counts, name = {}, None
    for line in output_of(cuobjdump, "--dump-sass", "--gpu-architecture", "sm_70",
                          program).splitlines():
        if match := re.match(r"\s*Function : (\S+)", line):
            name = match[1]
            counts[name] = 0
        elif name and re.search(r"\bHMMA\.", line):
            counts[name] += 1
    return counts


def main(table_path, cuobjdump, program):
    table = read_table(table_path)
    usage = resource_usage(cuobjdump, program)
    hmma = hmma_instructions(cuobjdump, program)
    launched = {}
    for line in output_of(program).splitlines():
        name, threads, smem_bytes = line.split()
        launched[name] = (int(threads), int(smem_bytes))

    faults, seen = [], set()
    for name in launched:
        if name not in usage:
            faults.append(f"{name}: launched, but without sm_70 code")
    for name, taken in sorted(usage.items()):
        readable = output_of("c++filt", name).strip()
        kernel = re.search(r"(?:::|\s|^)(\w+)(?=<|\()", readable)[1]
        if pages := re.search(r"\b(\w+_pages)<", readable):
            kernel = f"{kernel}:{pages[1]}"
        if name not in launched:
            faults.append(f"{readable}: in the program, but never launched")
            continue
        threads, smem_bytes = launched[name]
        measured = (taken["REG"], taken["STACK"] + taken["LOCAL"], taken["SHARED"] + smem_bytes,
                    hmma[name])
        print(f"{measured[0]:4} registers {measured[1]:4} stack {measured[2]:6} shared {hmma[name]:5} HMMA "
              f"{threads:4} threads  {readable}")
        seen.add(kernel)
        if kernel not in table:
            faults.append(f"{kernel}: no line in {table_path}")
            continue
        for what, value, limit in zip(("registers", "bytes of stack", "bytes of shared memory",
                                       "HMMA instructions"),
                                      measured, table[kernel]):
            if value > limit:
                faults.append(f"{kernel}: {value} {what}; {limit} at most")
    faults += [f"{kernel}: in {table_path}, but no such kernel" for kernel in table
               if kernel not in seen]
    for fault in faults:
        print(fault)
    return 1 if faults or not launched else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
