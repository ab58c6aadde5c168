"""Encodes columns of messages as items of a batch request, many rows per call.

An item is `| size 4 | magic 4 | CRC 4 | flag 4 | body size 4 | body | properties size 2 | properties |`, magic and CRC being 0.
Format: docs/format/batch.md. Fixed parts of all rows are numpy tables, which Arrow joins with bodies and properties.
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.codec.batch import BATCH_ITEM_SIZE_MIN
from cometmq.codec.compression import Compression, compress, compressed_flag
from cometmq.codec.properties import PROPERTIES_SIZE_MAX
from cometmq.model.errors import MessageError
from cometmq.offline.columns.pieces import BINARY, replace_rows

_COMPRESSED = compressed_flag(0, Compression.ZLIB)


def batch_items(bodies: pa.Array, blocks: pa.Array, flags: npt.NDArray[np.int32]) -> pa.Array:
    """Return a binary array with each row as an item of a batch, from its body, property block and user's flag."""
    body_sizes, block_sizes = byte_sizes(bodies), byte_sizes(blocks)
    heads = np.zeros((len(bodies), 5), ">i4")
    heads[:, 0] = BATCH_ITEM_SIZE_MIN + body_sizes + block_sizes
    heads[:, 3] = flags
    heads[:, 4] = body_sizes
    ends = _fixed(block_sizes.astype(">i2"), 2)
    return pc.binary_join_element_wise(_fixed(heads, 20), bodies, ends, blocks, b"")


def compressed_bodies(
    bodies: pa.Array, size_min: int | None
) -> tuple[pa.Array, npt.NDArray[np.int32]]:
    """Compress (zlib) bodies of at least `size_min` bytes (None: none); return all bodies, and the sysFlag of each."""
    sys_flags = np.zeros(len(bodies), np.int32)
    if size_min is None:
        return bodies, sys_flags
    rows = np.flatnonzero(byte_sizes(bodies) >= size_min)
    if len(rows):
        long_ones = bodies.take(pa.array(rows)).to_pylist()
        small = pa.array([compress(body, Compression.ZLIB) for body in long_ones], BINARY)
        bodies = replace_rows(bodies, rows, small)
        sys_flags[rows] = _COMPRESSED
    return bodies, sys_flags


def check_block_sizes(blocks: pa.Array) -> None:
    """Refuse property blocks that do not fit into a record; raises MessageError if one is too long."""
    size_max = int(byte_sizes(blocks).max(initial=0))
    if size_max > PROPERTIES_SIZE_MAX:
        raise MessageError(
            f"a row has properties of {size_max} bytes; a message has room for "
            f"{PROPERTIES_SIZE_MAX}"
        )


def byte_sizes(values: pa.Array) -> Any:
    """Return the size of each binary value in bytes, int64."""
    return pc.binary_length(values).to_numpy(zero_copy_only=False).astype(np.int64)


def _fixed(table: Any, width: int) -> pa.Array:
    octets = np.ascontiguousarray(table).tobytes()
    count = len(octets) // width
    return pa.Array.from_buffers(pa.binary(width), count, [None, pa.py_buffer(octets)]).cast(
        BINARY
    )
