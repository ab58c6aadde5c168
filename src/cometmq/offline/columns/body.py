"""Message bodies as an Arrow column: copied from the buffer; compressed ones may be decompressed, one by one."""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from cometmq.codec.compression import decompress
from cometmq.codec.record import QUEUE_ID_AT
from cometmq.model import flags
from cometmq.model.errors import CodecError
from cometmq.offline.columns.pieces import BINARY, replace_rows, take_pieces
from cometmq.offline.columns.window import RecordWindow

# Limit per decompressed body: 16 times the 4 MiB that a broker accepts by default (maxMessageSize).
BODY_SIZE_MAX = 64 << 20
# Limit for the decompressed bodies of one batch; Arrow's offsets would allow 2 GiB.
UNPACKED_SIZE_MAX = 64 << 20


def body_column(window: RecordWindow, *, is_decompressed: bool) -> pa.Array:
    """Return the bodies of a window's messages, decompressed or as they are stored.

    Raises:
        CodecError: A body cannot be decompressed, or would exceed 64 MiB; the text names the message and a remedy.
    """
    bodies = take_pieces(pa.py_buffer(window.buffer), window.body, BINARY)
    packed = np.flatnonzero((window.sys_flag & flags.COMPRESSED) != 0)
    if not is_decompressed or len(packed) == 0:
        return bodies
    plain = [_unpacked(window, int(row), bodies[int(row)].as_py()) for row in packed]
    return replace_rows(bodies, packed, pa.array(plain, BINARY))


def bounded(window: RecordWindow) -> Iterator[tuple[RecordWindow, pa.Array]]:
    """Yield (window, its decompressed bodies as an Arrow array) for pieces of a window; raises as `body_column`.

    The bodies of a piece that were compressed have at most 64 MiB in total once decompressed. There is always a piece.
    """
    bodies = take_pieces(pa.py_buffer(window.buffer), window.body, BINARY)
    first, size = 0, 0
    rows: list[int] = []
    plain: list[bytes] = []
    for row in np.flatnonzero((window.sys_flag & flags.COMPRESSED) != 0):
        body = _unpacked(window, int(row), bodies[int(row)].as_py())
        if plain and size + len(body) > UNPACKED_SIZE_MAX:
            yield _piece(window, bodies, first, int(row), rows, plain)
            first, size, rows, plain = int(row), 0, [], []
        rows.append(int(row) - first)
        plain.append(body)
        size += len(body)
    yield _piece(window, bodies, first, len(window), rows, plain) if plain else (window, bodies)


def _piece(
    window: RecordWindow,
    bodies: pa.Array,
    first: int,
    end: int,
    rows: list[int],
    plain: list[bytes],
) -> tuple[RecordWindow, pa.Array]:
    whole = first == 0 and end == len(window)
    piece = window if whole else RecordWindow(window.buffer, window.starts[first:end])
    stored = bodies.slice(first, end - first)
    return piece, replace_rows(stored, np.array(rows), pa.array(plain, BINARY))


def _unpacked(window: RecordWindow, row: int, body: bytes) -> bytes:
    try:
        return decompress(body, int(window.sys_flag[row]), limit=BODY_SIZE_MAX)
    except CodecError as error:
        queue_id, offset = int(window.int32(QUEUE_ID_AT)[row]), int(window.queue_offset[row])
        raise CodecError(
            f"the body of the message at offset {offset} of queue {queue_id} cannot be decompressed: {error}; "
            "decompress=false returns it as stored"
        ) from error
