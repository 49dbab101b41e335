# SPDX-License-Identifier: Apache-2.0
"""Problems as .safetensors files, with the standard library alone. The format is in README.md."""

import array
import json
import struct
from typing import NamedTuple

ELEMENT_BYTES = {"F16": 2, "F32": 4, "I32": 4, "I64": 8}
TYPECODES = {"I32": "i", "I64": "q"}


class Tensor(NamedTuple):
    """A little-endian array: its element type as safetensors names it, its shape, its bytes."""

    dtype: str
    shape: tuple
    data: bytes


def tensor(dtype, shape, values):
    """A tensor of whole numbers, I32 or I64."""
    return Tensor(dtype, tuple(shape), array.array(TYPECODES[dtype], values).tobytes())


def size_bytes(dtype, shape):
    """Bytes of an array."""
    size = ELEMENT_BYTES[dtype]
    for extent in shape:
        size *= extent
    return size


def write(path, tensors, metadata):
    """Writes tensors (name -> Tensor) and metadata (name -> str)."""
    header = {"__metadata__": dict(metadata)}
    offset = 0
    # The widest elements first, so that each tensor is aligned to its own.
    names = sorted(tensors, key=lambda name: -ELEMENT_BYTES[tensors[name].dtype])
    for name in names:
        dtype, shape, data = tensors[name]
        if len(data) != size_bytes(dtype, shape):
            raise ValueError(f"{name}: {len(data)} bytes do not fill {shape}")
        end = offset + len(data)
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            file.write(tensors[name].data)


def read(path):
    """Reads a file that is known to be right: (name -> Tensor, name -> str)."""
    with open(path, "rb") as file:
        (header_bytes,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(header_bytes))
        data = file.read()
    metadata = header.pop("__metadata__", {})
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        tensors[name] = Tensor(entry["dtype"], tuple(entry["shape"]), data[begin:end])
    return tensors, metadata


def numbers(of):
    """The whole numbers of a tensor, in one array."""
    return array.array(TYPECODES[of.dtype], of.data)


def token_table(tensors, metadata):
    """The selection of a problem as a token table without counts.

    A table that is none yet becomes one: the tokens that each row may see, once each and from the
    left, those of the implied tail page of a page table included, then -1.
    """
    if "token_table" in tensors and "counts" not in tensors:
        return tensors["token_table"]
    by_token = "token_table" in tensors
    table = tensors["token_table" if by_token else "page_table"]
    num_rows, width = table.shape
    page_tokens = int(metadata["page_tokens"])
    entries, requests = numbers(table), numbers(tensors["row_request"])
    positions, lengths = numbers(tensors["row_position"]), numbers(tensors["sequence_length"])
    counts = numbers(tensors["counts"]) if by_token else None
    rows = []
    for row in range(num_rows):
        exists = 0 <= requests[row] < len(lengths)
        end = min(positions[row] + 1, lengths[requests[row]]) if exists else 0
        listed = entries[row * width : (row + 1) * width]
        if by_token:
            tokens = listed[: max(0, counts[row])]
        else:
            pages = [*listed, end // page_tokens]
            tokens = [page * page_tokens + t for page in pages for t in range(page_tokens)]
        rows.append([token for token in dict.fromkeys(tokens) if 0 <= token < end])
    longest = max([1, *map(len, rows)])
    padded = [entry for tokens in rows for entry in tokens + [-1] * (longest - len(tokens))]
    return tensor("I32", (num_rows, longest), padded)
