# SPDX-License-Identifier: Apache-2.0
"""Draws the result files of a folder, each picture as PNG.

    python3 plots.py results [--to DIR] [--peak-tflops N] [--l2-tbps N]

Reads what is there of grouped.json, planner.json, prefill.json and row.json (Google Benchmark's
--benchmark_out) and compare.json (compare.sh). A picture whose files are missing is left out, and
named as left out.
"""

import argparse
import json
import pathlib
import re
import sys

try:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    print("matplotlib is not installed: skipped", file=sys.stderr)
    sys.exit(77)

WORKLOADS = ["fresh-8k", "chunk-32k", "long-tail", "long-tail-131k", "disjoint"]
# Variants of the synchronous yardstick, and what stands in a picture: the fastest beside the published
# shape, since ratios to that alone would flatter.
SYNCHRONOUS = ["synchronous_16_warps", "synchronous_16_warps_x2", "synchronous_8_warps"]
PUBLISHED = "synchronous tile, published shape (16 warps)"
BEST = "synchronous tile, best variant"
# Colours that stay apart for every kind of colour vision (Okabe and Ito).
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]


class Results:
    """The result files of a folder."""

    def __init__(self, folder):
        self.benchmarks = {}
        self.device = ""
        for name in ("grouped", "planner", "prefill", "row"):
            path = folder / f"{name}.json"
            if path.exists():
                data = json.loads(path.read_text(encoding="utf-8"))
                self.device = data["context"].get("device", "")
                self.benchmarks[name] = {
                    re.sub(r"/iterations:.*", "", b["name"]): b
                    for b in data["benchmarks"]
                    if "median_ms" in b
                }
        self.add_best_variants()
        path = folder / "compare.json"
        self.compare = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

    def add_best_variants(self):
        """The fastest variant of the synchronous yardstick in each case, as synchronous_best/CASE."""
        grouped = self.benchmarks.get("grouped", {})
        cases = [name.split("/", 1)[1] for name in grouped if name.startswith(SYNCHRONOUS[0] + "/")]
        for case in cases:
            variants = [grouped.get(f"{kind}/{case}") for kind in SYNCHRONOUS]
            grouped[f"synchronous_best/{case}"] = min(
                filter(None, variants), key=lambda benchmark: benchmark["median_ms"]
            )

    def get(self, file, name):
        """A benchmark, or None."""
        return self.benchmarks.get(file, {}).get(name)

    def sweep(self, file, prefix):
        """[(value of the axis, benchmark)] of the benchmarks whose name is prefix and a number."""
        found = []
        for name, benchmark in self.benchmarks.get(file, {}).items():
            if name.startswith(prefix) and name[len(prefix) :].isdigit():
                found.append((int(name[len(prefix) :]), benchmark))
        return sorted(found, key=lambda pair: pair[0])


def overlap_picture(results, axes):
    """Time against union growth, for each route and width."""
    curves = [
        ("grouped, groups of 8", "grouped", "grouped/overlap:"),
        ("grouped, groups of 4", "grouped", "grouped_4_rows/overlap:"),
        ("row route, whole prefill", "prefill", "prefill/row/overlap:"),
        (BEST, "grouped", "synchronous_best/overlap:"),
        (PUBLISHED, "grouped", "synchronous_16_warps/overlap:"),
    ]
    drawn = False
    for colour, (label, file, prefix) in zip(COLOURS, curves):
        points = [(b["growth_8"], b["median_ms"]) for _, b in results.sweep(file, prefix)]
        if points:
            axes.plot(*zip(*points), marker="o", color=colour, label=label)
            drawn = True
    axes.set_xlabel("union growth of 8 adjacent rows (1 = they share every page)")
    axes.set_ylabel("time, ms")
    axes.set_ylim(bottom=0)
    axes.set_title("8,192 rows at the end of 32,768 tokens", loc="left")
    return drawn


def yardstick_times(rows):
    """Yardstick -> problem -> time; of the synchronous variants the published shape and the best."""
    times = {PUBLISHED: {}, BEST: {}}
    for row in rows:
        problem, time = row["problem"], row["time_ms"]
        if row["kernel"].startswith("synchronous tile"):
            times[PUBLISHED].setdefault(problem, time)  # the first variant
            times[BEST][problem] = min(time, times[BEST].get(problem, time))
        elif not row["kernel"].startswith("pageunion"):
            times.setdefault(row["kernel"], {})[problem] = time
    return times


def speedup_picture(results, axes):
    """Time of every yardstick over the library's, per workload."""
    if not results.compare:
        return False
    rows = results.compare["results"]
    problems = list(dict.fromkeys(r["problem"] for r in rows))
    ours = {r["problem"]: r["time_ms"] for r in reversed(rows) if r["kernel"].startswith("pageunion")}
    yardsticks = yardstick_times(rows)
    width = 0.8 / len(yardsticks)
    for i, (colour, (kernel, times)) in enumerate(zip(COLOURS, yardsticks.items())):
        places = [x + (i - (len(yardsticks) - 1) / 2) * width for x in range(len(problems))]
        heights = [times.get(p, 0) / ours[p] for p in problems]
        bars = axes.bar(places, heights, width * 0.9, color=colour, label=kernel)
        axes.bar_label(bars, fmt="%.1f", fontsize=8)
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_xticks(range(len(problems)), problems)
    axes.set_ylabel("time over the time of pageunion")
    axes.set_title("How many times longer the attention of others takes", loc="left")
    axes.margins(y=0.25)  # room for the legend above the bars
    return True


def planner_picture(results, axes):
    """Planner and attention, per workload."""
    found = []
    for name in WORKLOADS:
        planner = results.get("planner", f"planner/workload:{name}")
        attention = results.get("grouped", f"grouped/workload:{name}")
        if planner and attention:
            found.append((name, planner["median_ms"], attention["median_ms"]))
    if not found:
        return False
    names, planners, attentions = zip(*found)
    axes.bar(names, attentions, 0.6, color=COLOURS[0], label="attention")
    bars = axes.bar(names, planners, 0.6, bottom=attentions, color=COLOURS[1], label="planner")
    shares = [f"{100 * p / (p + a):.0f} % planner" for p, a in zip(planners, attentions)]
    axes.bar_label(bars, shares, padding=2, fontsize=8)
    axes.set_ylabel("time, ms")
    axes.set_title("Planner and grouped attention, L2 warm", loc="left")
    axes.margins(y=0.12)
    return True


def verify_picture(results, axes):
    """Time against rows, for both routes and the automatic choice."""
    drawn = False
    ticks = set()
    for style, cross, requests in (("-", "x", "one_request"), ("--", "+", "many_requests")):
        for colour, route in zip(COLOURS[:2] + ["black"], ("row", "grouped", "automatic")):
            points = results.sweep("row", f"verify/{requests}/{route}/rows:")
            if points:
                axes.plot(
                    [rows for rows, _ in points],
                    [1e3 * b["median_ms"] for _, b in points],
                    linestyle="" if route == "automatic" else style,
                    marker=cross if route == "automatic" else "o",
                    fillstyle="full" if style == "-" else "none",
                    color=colour,
                    label=f"{route}, {requests.replace('_', ' ')}",
                )
                ticks.update(rows for rows, _ in points if rows & (rows - 1) == 0)
                drawn = True
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted(ticks), [str(tick) for tick in sorted(ticks)])
    axes.set_yscale("log")
    for axis in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        axis(matplotlib.ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_xlabel("rows")
    axes.set_ylabel("time of prefill(), µs")
    axes.set_title("Few rows at the end of 8,192 tokens", loc="left")
    return drawn


def roofline_picture(results, axes, peak_tflops, l2_tbps):
    """Executed speed against executed operations per staged byte."""
    drawn = False
    kinds = [
        ("pageunion", "grouped"),
        (BEST, "synchronous_best"),
        (PUBLISHED, "synchronous_16_warps"),
    ]
    for colour, (label, kind) in zip(COLOURS, kinds):
        axes.scatter([], [], color=colour, label=label)
        for marker, name in zip("os^Dv", WORKLOADS):
            b = results.get("grouped", f"{kind}/workload:{name}")
            if b:
                intensity = 1e3 * b["executed_TFLOP/s"] / b["kv_GB/s"]
                axes.scatter(intensity, b["executed_TFLOP/s"], color=colour, marker=marker)
                drawn = True
    for marker, name in zip("os^Dv", WORKLOADS):
        axes.scatter([], [], color="grey", marker=marker, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    if drawn:
        low, high = axes.get_xlim()
        ridge = peak_tflops / l2_tbps
        xs = [low / 2, ridge, max(high, ridge) * 2]
        ys = [xs[0] * l2_tbps, peak_tflops, peak_tflops]
        axes.plot(xs, ys, color="black", linewidth=1)
        axes.annotate(f"{peak_tflops:g} TFLOP/s", (xs[2], peak_tflops), (-4, 4), textcoords="offset points",
                      ha="right", fontsize=8)  # fmt: skip
        axes.annotate(f"{l2_tbps:g} TB/s through L2", (xs[0], ys[0]), (8, 0), textcoords="offset points",
                      fontsize=8)  # fmt: skip
    axes.set_xlabel("executed operations per byte of K and V that is staged")
    axes.set_ylabel("executed TFLOP/s")
    axes.set_title("Below the roofline", loc="left")
    return drawn


def main():
    """Draws all pictures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=pathlib.Path, help="folder of the result files")
    parser.add_argument("--to", type=pathlib.Path, help="folder of the pictures; default: the same")
    parser.add_argument("--peak-tflops", type=float, default=790, help="measured tensor peak")
    parser.add_argument("--l2-tbps", type=float, default=5.5, help="measured bandwidth of L2")
    arguments = parser.parse_args()
    results = Results(arguments.folder)
    target = arguments.to or arguments.folder
    target.mkdir(parents=True, exist_ok=True)
    roofline = lambda r, a: roofline_picture(r, a, arguments.peak_tflops, arguments.l2_tbps)  # noqa: E731
    pictures = {
        "overlap": overlap_picture,
        "speedup": speedup_picture,
        "planner": planner_picture,
        "verify": verify_picture,
        "roofline": roofline,
    }
    for name, draw in pictures.items():
        figure, axes = plt.subplots(figsize=(8, 4.8), layout="constrained")
        if draw(results, axes):
            axes.grid(alpha=0.3)
            axes.set_axisbelow(True)
            axes.legend(fontsize=8, ncols=2)
            device = results.device or (results.compare or {}).get("context", {}).get("device", "")
            axes.set_title(f"{device}, sm_70 build", loc="right", fontsize=8)
            figure.savefig(target / f"{name}.png", dpi=120)
            print(f"{target / name}.png")
        else:
            print(f"{name}: left out, its result files are not in {arguments.folder}")
        plt.close(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
