# SPDX-License-Identifier: Apache-2.0
"""Yardsticks for GPUs that have Triton: a row kernel and a tile-union kernel.

Reads problem files, runs both kernels with their usual launch parameters and a small search around
them, compares sampled rows with a float64 reference, and prints a table. Times are medians by CUDA
events after 3 warm-ups. Neither kernel removes duplicates from a token table; other selections are
made token tables first. A file that the kernels cannot take is left out, and named.

    python3 triton_yardsticks.py fresh-8k.safetensors [...] --json triton.json
"""

import argparse
import json
import math
import pathlib
import sys

import torch
import triton
import triton.language as tl

import problem_file

TORCH_TYPES = {"F16": torch.float16, "F32": torch.float32, "I32": torch.int32, "I64": torch.int64}
SKIPPED = 77


class Unsuitable(Exception):
    """Why a problem is left out."""


@triton.jit
def row_kernel(
    q, k, v, out, table, row_request, row_position, sequence_length, block_table,
    q_row, q_head, kv_block, kv_token, kv_head, table_row, blocks_row,
    num_requests, num_blocks, blocks_width, scale_log2,
    WIDTH: tl.constexpr, BLOCK_TOKENS: tl.constexpr, HEADS: tl.constexpr,
    PADDED_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """One program per row and KV head: the row's heads, padded, against its own tokens."""
    row = tl.program_id(0)
    head = tl.program_id(1)
    heads = tl.arange(0, PADDED_HEADS)
    dims = tl.arange(0, HEAD_DIM)
    lanes = tl.arange(0, TILE)
    query = row.to(tl.int64) * q_row + (head * HEADS + heads[:, None]) * q_head + dims[None, :]
    queries = tl.load(q + query, mask=heads[:, None] < HEADS, other=0.0)

    request = tl.load(row_request + row)
    exists = (request >= 0) & (request < num_requests)
    request = tl.where(exists, request, 0)
    length = tl.load(sequence_length + request).to(tl.int64)
    end = tl.minimum(tl.load(row_position + row) + 1, length).to(tl.int32)
    end = tl.where(exists, end, 0)
    # A row has no more tokens than it sees, and its table is filled from the left.
    used = tl.minimum(end, WIDTH)

    maximum = tl.full([PADDED_HEADS], float("-inf"), tl.float32)
    total = tl.zeros([PADDED_HEADS], tl.float32)
    sums = tl.zeros([PADDED_HEADS, HEAD_DIM], tl.float32)
    for start in range(0, used, TILE):
        column = start + lanes
        token = tl.load(table + row.to(tl.int64) * table_row + column, mask=column < used, other=-1)
        valid = (token >= 0) & (token < end) & (token // BLOCK_TOKENS < blocks_width)
        logical = tl.where(valid, token // BLOCK_TOKENS, 0)
        block = tl.load(block_table + request * blocks_row + logical)
        valid = valid & (block >= 0) & (block < num_blocks)
        offset = block.to(tl.int64) * kv_block + (token % BLOCK_TOKENS) * kv_token + head * kv_head
        keys = tl.load(k + offset[:, None] + dims[None, :], mask=valid[:, None], other=0.0)
        scores = tl.dot(queries, tl.trans(keys)) * scale_log2
        scores = tl.where(valid[None, :], scores, float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(scores, 1))
        shift = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
        keep = tl.exp2(maximum - shift)
        weights = tl.exp2(scores - shift[:, None])
        total = total * keep + tl.sum(weights, 1)
        values = tl.load(v + offset[:, None] + dims[None, :], mask=valid[:, None], other=0.0)
        sums = tl.dot(weights.to(tl.float16), values, sums * keep[:, None])
        maximum = new_maximum
    result = sums / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out + query, result.to(tl.float16), mask=heads[:, None] < HEADS)


@triton.jit
def tile_union_kernel(
    q, k, v, out, page_begin, page_offset, page_mask,
    num_rows, q_row, q_head, kv_token, kv_head, scale_log2,
    PAGE_TOKENS: tl.constexpr, GROUP_ROWS: tl.constexpr, HEADS: tl.constexpr,
    PADDED_HEADS: tl.constexpr, HEAD_DIM: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """One program per group and KV head: GROUP_ROWS x PADDED_HEADS m-rows against the union."""
    group = tl.program_id(0)
    head = tl.program_id(1)
    m = tl.arange(0, GROUP_ROWS * PADDED_HEADS)
    dims = tl.arange(0, HEAD_DIM)
    lanes = tl.arange(0, TILE)
    in_group = m // PADDED_HEADS
    row = group * GROUP_ROWS + in_group
    used = (row < num_rows) & (m % PADDED_HEADS < HEADS)
    query = (
        row[:, None].to(tl.int64) * q_row
        + (head * HEADS + m[:, None] % PADDED_HEADS) * q_head
        + dims[None, :]
    )
    queries = tl.load(q + query, mask=used[:, None], other=0.0)
    in_page = lanes % PAGE_TOKENS
    bit = in_group[:, None] * PAGE_TOKENS + in_page[None, :]

    maximum = tl.full([GROUP_ROWS * PADDED_HEADS], float("-inf"), tl.float32)
    total = tl.zeros([GROUP_ROWS * PADDED_HEADS], tl.float32)
    sums = tl.zeros([GROUP_ROWS * PADDED_HEADS, HEAD_DIM], tl.float32)
    # Both ends are multiples of a tile: the lists are padded with pages of mask 0.
    first = tl.load(page_begin + group)
    last = tl.load(page_begin + group + 1)
    for start in range(first, last, TILE // PAGE_TOKENS):
        page = start + lanes // PAGE_TOKENS
        # In units of 8 elements: a product with 8 tells the compiler that 16-byte loads are aligned.
        offset = tl.load(page_offset + page).to(tl.int64) * 8 + in_page * kv_token + head * kv_head
        mask = tl.load(page_mask + page)
        keys = tl.load(k + offset[:, None] + dims[None, :])
        scores = tl.dot(queries, tl.trans(keys)) * scale_log2
        scores = tl.where(((mask[None, :] >> bit) & 1) != 0, scores, float("-inf"))
        new_maximum = tl.maximum(maximum, tl.max(scores, 1))
        shift = tl.where(new_maximum == float("-inf"), 0.0, new_maximum)
        keep = tl.exp2(maximum - shift)
        weights = tl.exp2(scores - shift[:, None])
        total = total * keep + tl.sum(weights, 1)
        values = tl.load(v + offset[:, None] + dims[None, :])
        sums = tl.dot(weights.to(tl.float16), values, sums * keep[:, None])
        maximum = new_maximum
    result = sums / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(out + query, result.to(tl.float16), mask=used[:, None])


class Problem:
    """A problem file on the GPU."""

    def __init__(self, path):
        tensors, metadata = problem_file.read(path)
        number = lambda name: int(metadata[name])  # noqa: E731
        self.name = metadata.get("name", pathlib.Path(path).stem)
        self.page_tokens = number("page_tokens")
        self.block_tokens = number("block_tokens")
        self.num_blocks = number("num_blocks")
        self.num_kv_heads = number("num_kv_heads")
        self.num_heads = number("num_heads")
        self.head_dim = number("head_dim")
        self.heads_per_kv = self.num_heads // self.num_kv_heads
        self.scale = float(metadata.get("scale", self.head_dim**-0.5))
        for name in ("row_request", "row_position", "sequence_length", "block_table"):
            setattr(self, name, upload(tensors[name]))
        if "q" not in tensors or not ("kv" in tensors or "k" in tensors):
            raise Unsuitable(f"{self.name}: it brings no q, k and v, as what compare.sh exports does")
        self.tokens = upload(problem_file.token_table(tensors, metadata))
        self.q = upload(tensors["q"])
        if "kv" in tensors:
            storage = upload(tensors["kv"]).flatten()
            self.strides = [int(s) for s in metadata["k_strides"].split(",")]
            if metadata["k_strides"] != metadata["v_strides"]:
                raise Unsuitable(f"{self.name}: K and V have different strides")
            self.k = storage[number("k_offset") :]
            self.v = storage[number("v_offset") :]
        else:
            self.k = upload(tensors["k"]).flatten()
            self.v = upload(tensors["v"]).flatten()
            token = self.num_kv_heads * self.head_dim
            self.strides = [self.block_tokens * token, token, self.head_dim]
        self.num_rows = self.q.shape[0]
        self.out = torch.empty_like(self.q)
        self.scale_log2 = self.scale * math.log2(math.e)
        self.find_tokens()

    def find_tokens(self):
        """(row, logical token, physical token) of every token that counts, by the library's rules."""
        request = self.row_request.long()
        exists = (request >= 0) & (request < self.sequence_length.shape[0])
        request = torch.where(exists, request, torch.zeros_like(request))
        length = self.sequence_length.long()[request]
        end = torch.where(exists, torch.minimum(self.row_position + 1, length), 0)
        tokens = self.tokens
        logical = tokens // self.block_tokens
        valid = (tokens >= 0) & (tokens < end[:, None]) & (logical < self.block_table.shape[1])
        row, column = valid.nonzero(as_tuple=True)
        token = tokens[row, column].long()
        block = self.block_table[request[row], token // self.block_tokens].long()
        mapped = (block >= 0) & (block < self.num_blocks)
        self.entry_row = row[mapped]
        self.entry_physical = (block * self.block_tokens + token % self.block_tokens)[mapped]

    def kv_offset(self, physical):
        """Element of K or V where the first KV head of a physical token starts."""
        block = physical // self.block_tokens
        return block * self.strides[0] + physical % self.block_tokens * self.strides[1]


class Union:
    """The plan of the tile-union kernel: pages and masks of each group, padded to whole tiles."""

    def __init__(self, p, group_rows, tile_pages):
        num_pages = p.num_blocks * p.block_tokens // p.page_tokens
        self.num_groups = -(-p.num_rows // group_rows)
        page = p.entry_physical // p.page_tokens
        key = p.entry_row // group_rows * num_pages + page
        bit = p.entry_row % group_rows * p.page_tokens + p.entry_physical % p.page_tokens
        pages, index = torch.unique(key, return_inverse=True)
        # Each (row, token) occurs once, so that adding its bit sets it.
        masks = torch.zeros_like(pages).scatter_add_(0, index, torch.ones_like(bit) << bit)
        group = pages // num_pages
        counts = torch.bincount(group, minlength=self.num_groups)
        padded = (counts + tile_pages - 1) // tile_pages * tile_pages
        begin = torch.zeros(self.num_groups + 1, dtype=torch.int64, device=pages.device)
        begin[1:] = padded.cumsum(0)
        place = begin[group] + torch.arange(len(pages), device=pages.device)
        place -= (counts.cumsum(0) - counts)[group]
        total = int(begin[-1])
        self.page_offset = torch.zeros(total, dtype=torch.int32, device=pages.device)
        self.page_mask = torch.zeros(total, dtype=torch.int64, device=pages.device)
        offset = p.kv_offset(pages % num_pages * p.page_tokens) // 8
        if len(offset) and int(offset.max()) > 2**31 - 1:
            raise Unsuitable(f"{p.name}: the cache is too large for 32-bit offsets of pages")
        self.page_offset[place] = offset.to(torch.int32)
        self.page_mask[place] = masks
        self.page_mask = self.page_mask.to(torch.int32)  # wraps: the kernel reads single bits
        self.page_begin = begin.to(torch.int32)
        self.pages_per_group = total / self.num_groups


def upload(tensor):
    """A tensor of a file on the GPU."""
    data = torch.frombuffer(bytearray(tensor.data), dtype=TORCH_TYPES[tensor.dtype])
    return data.reshape(tensor.shape).cuda()


def run_row(p, tile, warps, stages):
    """Enqueues the row kernel."""
    row_kernel[(p.num_rows, p.num_kv_heads)](
        p.q, p.k, p.v, p.out, p.tokens,
        p.row_request, p.row_position, p.sequence_length, p.block_table,
        p.q.stride(0), p.q.stride(1), *p.strides, p.tokens.stride(0), p.block_table.stride(0),
        p.sequence_length.shape[0], p.num_blocks, p.block_table.shape[1], p.scale_log2,
        WIDTH=p.tokens.shape[1], BLOCK_TOKENS=p.block_tokens, HEADS=p.heads_per_kv,
        PADDED_HEADS=16, HEAD_DIM=p.head_dim, TILE=tile, num_warps=warps, num_stages=stages,
    )  # fmt: skip


def run_union(p, union, group_rows, tile, warps, stages):
    """Enqueues the tile-union kernel."""
    tile_union_kernel[(union.num_groups, p.num_kv_heads)](
        p.q, p.k, p.v, p.out, union.page_begin, union.page_offset, union.page_mask,
        p.num_rows, p.q.stride(0), p.q.stride(1), p.strides[1], p.strides[2], p.scale_log2,
        PAGE_TOKENS=p.page_tokens, GROUP_ROWS=group_rows, HEADS=p.heads_per_kv,
        PADDED_HEADS=triton.next_power_of_2(p.heads_per_kv), HEAD_DIM=p.head_dim, TILE=tile,
        num_warps=warps, num_stages=stages,
    )  # fmt: skip


def median_ms(enqueue, repetitions):
    """Median time by events, after 3 warm-ups."""
    times = []
    for i in range(repetitions + 3):
        start = torch.cuda.Event(enable_timing=True)
        stop = torch.cuda.Event(enable_timing=True)
        start.record()
        enqueue()
        stop.record()
        stop.synchronize()
        if i >= 3:
            times.append(start.elapsed_time(stop))
    return sorted(times)[len(times) // 2]


def reference(p, rows):
    """Attention of some rows in float64."""
    result = torch.zeros(len(rows), p.num_heads, p.head_dim, dtype=torch.float64, device=p.q.device)
    dims = torch.arange(p.head_dim, device=p.q.device)
    for i, row in enumerate(rows):
        offset = p.kv_offset(p.entry_physical[p.entry_row == row])
        for head in range(p.num_heads if len(offset) else 0):
            at = offset[:, None] + head // p.heads_per_kv * p.strides[2] + dims[None, :]
            scores = p.k[at].double() @ p.q[row, head].double() * p.scale
            result[i, head] = torch.softmax(scores, 0) @ p.v[at].double()
    return result


def measure(p, enqueue, expected, rows, repetitions):
    """Time and largest error, or the reason why a variant cannot run."""
    p.out.fill_(float("nan"))
    try:
        ms = median_ms(enqueue, repetitions)
    except triton.runtime.errors.OutOfResources as error:
        return None, str(error).split("\n")[0]
    error = (p.out[rows].double() - expected).abs().max().item()
    return ms, error


def variants(search):
    """(kernel, tile tokens, warps, stages); the usual parameters of each kernel come first."""
    row = [(32, 1, 2)]
    union = [(32, 4, 3)]
    if search != "none":
        row += [(16, 1, 2), (32, 1, 3), (32, 2, 2), (64, 2, 2), (64, 4, 2), (64, 4, 3), (128, 4, 2)]
        union += [(32, 4, 2), (32, 4, 4), (32, 8, 3), (16, 4, 4), (64, 4, 2), (64, 8, 2), (64, 8, 3)]
    if search == "full":
        row = [(t, w, s) for t in (16, 32, 64, 128) for w in (1, 2, 4, 8) for s in (1, 2, 3, 4)]
        union = [(t, w, s) for t in (16, 32, 64, 128) for w in (4, 8) for s in (1, 2, 3, 4)]
    return [("triton row", *r) for r in row] + [("triton tile-union", *u) for u in union]


def run_problem(path, arguments):
    """Runs every variant on one problem file; returns its results."""
    p = Problem(path)
    rows = [0, min(1, p.num_rows - 1), min(5, p.num_rows - 1), p.num_rows - 1]
    rows += [(i * 7919 + 13) % p.num_rows for i in range(28)]
    expected = reference(p, rows)
    # 64 m-rows: 8 rows of 6 heads padded to 8, 4 rows of 12 heads padded to 16.
    group_rows = min(8, 64 // triton.next_power_of_2(p.heads_per_kv))
    unions = {}
    results = []
    print(f"\n{p.name}: {p.num_rows} rows")
    for kernel, tile, warps, stages in variants(arguments.search):
        if kernel == "triton row":
            enqueue = lambda: run_row(p, tile, warps, stages)  # noqa: E731
        else:
            tile_pages = tile // p.page_tokens
            if tile_pages not in unions:
                unions[tile_pages] = Union(p, group_rows, tile_pages)
            union = unions[tile_pages]
            enqueue = lambda: run_union(p, union, group_rows, tile, warps, stages)  # noqa: E731
        ms, error = measure(p, enqueue, expected, rows, arguments.repetitions)
        label = f"{kernel:18} tile {tile:3} warps {warps} stages {stages}"
        if ms is None:
            print(f"  {label}  not runnable: {error}")
            continue
        print(f"  {label} {ms:8.3f} ms  error {error:.2e}", flush=True)
        results.append(
            {
                "problem": p.name,
                "kernel": kernel,
                "tile_tokens": tile,
                "warps": warps,
                "stages": stages,
                "time_ms": ms,
                "error_out": error,
            }
        )
    for kernel in ("triton row", "triton tile-union"):
        of_kernel = [r for r in results if r["kernel"] == kernel]
        if of_kernel:
            best = min(of_kernel, key=lambda r: r["time_ms"])
            best["best"] = True
            print(f"  best {kernel}: {best['time_ms']:.3f} ms")
    return results


def main():
    """Runs all problem files."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("problems", nargs="+", help="problem files (.safetensors)")
    parser.add_argument("--search", choices=("none", "small", "full"), default="small")
    parser.add_argument("--repetitions", type=int, default=30)
    parser.add_argument("--json", help="file for the results")
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("no CUDA device: skipped", file=sys.stderr)
        return SKIPPED
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, triton {triton.__version__}")
    results = []
    left_out = []
    for path in arguments.problems:
        try:
            results += run_problem(path, arguments)
        except Unsuitable as reason:
            print(f"\nleft out: {reason}")
            left_out.append(str(reason))
    if arguments.json:
        found = {
            "triton": triton.__version__,
            "repetitions": arguments.repetitions,
            "left_out": left_out,
            "results": results,
        }
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
