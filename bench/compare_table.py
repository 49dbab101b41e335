# SPDX-License-Identifier: Apache-2.0
"""Joins the results of attention_compare and triton_yardsticks.py into one table and one file."""

import argparse
import datetime
import json
import sys


def version(number):
    """13.0 of 13000."""
    return f"{number // 1000}.{number % 1000 // 10}"


def joined(library, triton):
    """All results that belong in the table: of each Triton kernel the best variant alone.

    Of the synchronous tile, every variant, the published shape and the fastest named as such.
    """
    results = [dict(result) for result in library["results"]]
    for problem in dict.fromkeys(r["problem"] for r in results):
        of_problem = [r for r in results if r["problem"] == problem]
        variants = [r for r in of_problem if r["kernel"].startswith("synchronous tile")]
        if variants:
            variants[0]["parameters"] = "published shape"
            best = min(variants, key=lambda r: r["time_ms"])
            names = filter(None, [best.get("parameters"), "best synchronous variant"])
            best["parameters"] = ", ".join(names)
    for result in triton["results"] if triton else []:
        if result.get("best"):
            parameters = f"{result['tile_tokens']} tokens, {result['warps']} warps, "
            parameters += f"{result['stages']} stages"
            results.append({**result, "kernel": result["kernel"], "parameters": parameters})
    return results


def table(results):
    """Lines of text: one block per problem, each kernel with its ratio to the library's."""
    lines = []
    for problem in dict.fromkeys(r["problem"] for r in results):
        rows = [r for r in results if r["problem"] == problem]
        ours = rows[0]
        growth = " / ".join(f"{g:.2f}" for g in ours["growth"])
        lines.append("")
        lines.append(f"{problem}: {ours['rows']} rows, Jaccard {ours['jaccard']:.3f},")
        lines.append(f"  union growth at 2 / 4 / 8 / 16 rows {growth};")
        lines.append(f"  planner {ours['planner_ms']:.3f} ms, not part of the times below")
        lines.append(f"  {'kernel':<30}{'ms':>9}{'ratio':>8}{'TFLOP/s':>9}{'error':>10}")
        for row in rows:
            ratio = row["time_ms"] / ours["time_ms"]
            speed = ours["asked_GFLOP"] / row["time_ms"]
            lines.append(
                f"  {row['kernel']:<30}{row['time_ms']:>9.3f}{ratio:>8.2f}{speed:>9.1f}"
                f"{row['error_out']:>10.1e}  {row.get('parameters', '')}"
            )
    lines.append("")
    lines.append("ratio: time over the time of the first line; TFLOP/s: work asked for over time;")
    lines.append("error: largest difference of sampled rows from a double-precision reference.")
    lines.append("x2: registers bounded so that two CTAs fit on an SM with memory for both.")
    return lines


def main():
    """Prints the table and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", help="JSON of attention_compare")
    parser.add_argument("triton", nargs="?", help="JSON of triton_yardsticks.py")
    parser.add_argument("--json", required=True)
    parser.add_argument("--commit", required=True)
    parser.add_argument("--driver", required=True)
    parser.add_argument("--command", required=True)
    arguments = parser.parse_args()
    with open(arguments.library, encoding="utf-8") as file:
        library = json.load(file)
    triton = None
    if arguments.triton:
        with open(arguments.triton, encoding="utf-8") as file:
            triton = json.load(file)
        if triton["repetitions"] != library["repetitions"]:
            sys.exit("the library and the Triton yardsticks ran with different --repetitions")
    results = joined(library, triton)
    context = {
        "device": library["device"],
        "driver": arguments.driver,
        "cuda_of_build": version(library["cuda_of_build"]),
        "code": f"PTX {library['ptx_version']}, machine code {library['binary_version']}",
        "triton": triton["triton"] if triton else "not installed",
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": arguments.commit,
        "command": arguments.command,
        "repetitions": library["repetitions"],
    }
    for key, value in context.items():
        print(f"{key}: {value}")
    print("\n".join(table(results)))
    left_out = triton["left_out"] if triton else []
    for reason in left_out:
        print(f"left out by the Triton yardsticks: {reason}")
    with open(arguments.json, "w", encoding="utf-8") as file:
        variants = triton["results"] if triton else []
        found = {"context": context, "results": results, "variants": variants, "left_out": left_out}
        json.dump(found, file, indent=1)
        file.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
