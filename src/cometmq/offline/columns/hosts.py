"""Hosts and offset message ids of many records as text, from the stored address bytes.

A window usually has few different hosts, so each is formatted once and used by index. Offset ids differ in nearly
every row; they are hex strings, computed by table lookup.
"""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cometmq.codec.host import decode_host
from cometmq.codec.record import PHYSICAL_OFFSET_AT
from cometmq.offline.columns.pieces import STRING, number_array, same
from cometmq.offline.columns.window import Longs, RecordPieces, RecordWindow, elements_at

Octets = npt.NDArray[np.uint8]

# Two characters per byte, as one 16-bit number in memory order; upper case as in MessageDecoder.createMessageId.
_HEX = np.frombuffer("".join(f"{number:02X}" for number in range(256)).encode(), np.uint16)


def host_column(window: RecordWindow, hosts: RecordPieces) -> pa.Array:
    """Return the host of each record as `ip:port`, IPv6 addresses in brackets."""
    return _by_size(
        hosts, lambda rows, size: _host_texts(window.octets, hosts.starts[rows], size)
    )


def offset_id_column(window: RecordWindow) -> pa.Array:
    """Return the offset message id of each record: hex of store host and commitlog offset, 32 or 56 characters."""
    hosts = window.store_host

    def ids(rows: Longs, size: int) -> pa.Array:
        host = _octets(window.octets, hosts.starts[rows], size)
        place = _octets(window.octets, window.starts[rows] + PHYSICAL_OFFSET_AT, 8)
        return _hex_texts(np.concatenate((host, place), axis=1))

    return _by_size(hosts, ids)


def _by_size(hosts: RecordPieces, make: Callable[[Longs, int], pa.Array]) -> pa.Array:
    sizes = hosts.lengths
    order = np.empty(len(sizes), np.int64)
    parts: list[pa.Array] = []
    made = 0
    for size in (8, 20):
        rows = np.flatnonzero(sizes == size)
        order[rows] = made + np.arange(len(rows))
        made += len(rows)
        if len(rows):
            parts.append(make(rows, size))
    if len(parts) == 1:
        return parts[0]  # Rows of one size are in order already.
    return pa.concat_arrays(parts or [pa.array([], STRING)]).take(number_array(order))


def _octets(buffer: Octets, positions: Longs, size: int) -> Octets:
    return elements_at(buffer, positions, f"V{size}").view(np.uint8).reshape(-1, size)


def _hex_texts(rows: Octets) -> pa.Array:
    count, width = rows.shape
    signs = _HEX.take(rows)
    offsets = np.arange(0, (count + 1) * 2 * width, 2 * width, dtype=np.int32)
    return pa.Array.from_buffers(
        STRING, count, [None, pa.py_buffer(offsets), pa.py_buffer(signs)]
    )


def _host_texts(buffer: Octets, positions: Longs, size: int) -> pa.Array:
    hosts = elements_at(buffer, positions, f"V{size}")
    if len(hosts) and (hosts == hosts[0]).all():
        return same(decode_host(hosts[0].tobytes()), len(hosts))
    kinds, which = np.unique(hosts, return_inverse=True)
    return pa.array([decode_host(kind.tobytes()) for kind in kinds], STRING).take(
        number_array(which)
    )
