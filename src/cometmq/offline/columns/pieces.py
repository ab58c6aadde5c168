"""Builds Arrow columns from pieces of a buffer, mostly without a Python object per row.

The kernel copies the pieces to a contiguous buffer; the sums of their sizes are the offsets of an Arrow array.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cometmq.kernel import copy_pieces
from cometmq.kernel.crc import crc32

if TYPE_CHECKING:
    from cometmq.offline.columns.window import Flags, Longs, RecordPieces

BINARY, STRING = pa.binary(), pa.string()


def take_pieces(buffer: pa.Buffer, span: RecordPieces, kind: pa.DataType) -> pa.Array:
    """Return pieces of a buffer as a binary or string array; they may have any order but must total less than 2 GiB."""
    offsets = np.zeros(len(span.starts) + 1, np.int32)
    np.cumsum(span.lengths, out=offsets[1:])
    octets = pa.allocate_buffer(int(offsets[-1]))
    places = span.starts.tobytes(), span.ends.tobytes()
    copy_pieces(memoryview(buffer), *places, memoryview(octets))
    return pa.Array.from_buffers(kind, len(span.starts), [None, pa.py_buffer(offsets), octets])


def number_array(values: npt.NDArray[Any], is_there: Flags | None = None) -> pa.Array:
    """Return numbers as an Arrow array; null where `is_there` is false.

    `pa.array` would import pandas if it is installed, which takes 0.2 s in each process of Spark.
    """
    values = np.ascontiguousarray(values)
    kind = pa.from_numpy_dtype(values.dtype)
    bits = None if is_there is None else _bits(is_there)
    return pa.Array.from_buffers(kind, len(values), [bits, pa.py_buffer(values)])


def indices_of(encoded: pa.DictionaryArray) -> npt.NDArray[np.int32]:
    """Return the dictionary index (32 bits) of each row, none of which may be null."""
    indices = encoded.indices
    octets = indices.buffers()[1] or b""
    found: npt.NDArray[np.int32] = np.frombuffer(octets, np.int32)
    return found[indices.offset : indices.offset + len(indices)]


def flag_array(flags: Flags) -> pa.Array:
    """Return a mask as an Arrow array of booleans."""
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, _bits(flags)])


def _bits(flags: Flags) -> pa.Buffer:
    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def take_text(buffer: pa.Buffer, span: RecordPieces) -> pa.Array:
    """Return pieces of a buffer as strings; invalid UTF-8 is replaced by U+FFFD."""
    texts = take_pieces(buffer, span, STRING)
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        raw = texts.view(BINARY).to_pylist()
        return pa.array([piece.decode("utf-8", "replace") for piece in raw], STRING)
    return texts


def contents(texts: pa.Array) -> tuple[pa.Buffer, npt.NDArray[np.uint8], Longs]:
    """Return the bytes of a string or binary array as Arrow buffer and numpy array, and its rows' limits (rows + 1)."""
    _, offsets, octets = texts.buffers()
    octets = octets if octets is not None else pa.py_buffer(b"")
    ends = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    return octets, np.frombuffer(octets, np.uint8), ends.astype(np.int64)


def crcs(octets: pa.Buffer, ends: Longs) -> Longs:
    """Return the unsigned CRC-32 of each piece of some bytes, where piece i reaches from `ends[i]` to `ends[i + 1]`."""
    view = memoryview(octets)
    found = (crc32(view[lo:hi]) for lo, hi in pairwise(ends.tolist()))
    return np.fromiter(found, np.int64, len(ends) - 1)


def same(value: str, count: int) -> pa.Array:
    """Return an Arrow array of `count` rows with the same text."""
    octets = value.encode()
    offsets = np.arange(count + 1, dtype=np.int32) * np.int32(len(octets))
    return pa.Array.from_buffers(
        STRING, count, [None, pa.py_buffer(offsets), pa.py_buffer(octets * count)]
    )


def replace_rows(column: pa.Array, rows: npt.NDArray[Any], values: pa.Array) -> pa.Array:
    """Return an Arrow column with `values` in place of the rows with the numbers `rows`."""
    order = np.arange(len(column))
    order[rows] = len(column) + np.arange(len(values))
    return pa.concat_arrays([column, values]).take(number_array(order))
