"""Converts records of one buffer (a window) to an Arrow batch with the requested columns."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cometmq.codec import record as layout
from cometmq.codec.host import decode_host
from cometmq.model import properties as keys_of
from cometmq.offline.columns.body import body_column
from cometmq.offline.columns.pieces import STRING, number_array, same, take_text
from cometmq.offline.columns.properties import PropertyColumn
from cometmq.offline.columns.window import Longs, RecordPieces, RecordWindow, elements_at

# Larger numbers of milliseconds do not fit Spark's microseconds; a malicious record must not overflow.
_MS_LIMIT = (1 << 63) // 1000 - 1
# Two characters per byte, as one 16-bit number in memory order; upper case as in MessageDecoder.createMessageId.
_HEX = np.frombuffer("".join(f"{number:02X}" for number in range(256)).encode(), np.uint16)

Octets = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class WindowColumns:
    """The Arrow columns of a window of records; their properties are split once, when needed.

    Attributes:
        broker_name: Value of the column `brokerName`, which records do not contain.
        is_decompressed: Whether to decompress bodies, if `bodies` is None.
        bodies: The column of bodies, if it was made already; otherwise None.
        is_json: Whether properties as text are a JSON object instead of their stored form.
        shown_topic: Converts a topic to the name that users see; None for no conversion.
    """

    window: RecordWindow
    broker_name: str
    is_decompressed: bool = True
    bodies: pa.Array | None = None
    is_json: bool = False
    shown_topic: Callable[[str], str] | None = None

    @cached_property
    def octets(self) -> pa.Buffer:
        """The window's whole buffer as an Arrow buffer, which shares its memory."""
        return pa.py_buffer(self.window.buffer)

    @cached_property
    def property_texts(self) -> pa.Array:
        """The property block of each record as one text, with U+FFFD for invalid UTF-8."""
        return take_text(self.octets, self.window.properties)

    @cached_property
    def properties(self) -> PropertyColumn:
        """The properties of each record, split into names and values."""
        return PropertyColumn(self.property_texts)

    @cached_property
    def offset_ids(self) -> pa.Array:
        """Offset message id of each record."""
        return _offset_id_column(self.window)

    def batch(self, schema: pa.Schema) -> pa.RecordBatch:
        """Return an Arrow batch with the columns of `schema`; raises CodecError if a body cannot be decompressed."""
        arrays = [self._column(field) for field in schema]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _column(self, field: pa.Field) -> pa.Array:
        if field.name == "properties":
            if pa.types.is_map(field.type):
                return self.properties.as_map(field.type)
            return self.properties.as_json() if self.is_json else self.property_texts
        if field.name == "body" and self.bodies is not None:
            return self.bodies
        if field.name == "body":
            return body_column(self.window, is_decompressed=self.is_decompressed)
        return _MAKERS[field.name](self)


Maker = Callable[[WindowColumns], pa.Array]


def _number(read: Callable[[RecordWindow], Longs], kind: type[np.integer[Any]]) -> Maker:
    return lambda columns: number_array(read(columns.window).astype(kind))


def _time(read: Callable[[RecordWindow], Longs]) -> Maker:
    def micros(columns: WindowColumns) -> pa.Array:
        bounded = np.clip(read(columns.window), -_MS_LIMIT, _MS_LIMIT)
        return number_array(bounded * 1000).view(pa.timestamp("us", "UTC"))

    return micros


def _field32(position: int) -> Maker:
    return _number(lambda window: window.int32(position), np.int32)


def _topic(columns: WindowColumns) -> pa.Array:
    full = columns.window.topic_texts
    if columns.shown_topic is None:
        return full
    numbered = full.dictionary_encode()
    short = [columns.shown_topic(topic) for topic in numbered.dictionary.to_pylist()]
    return pa.array(short, full.type).take(numbered.indices)


def _message_id(columns: WindowColumns) -> pa.Array:
    """Return the producer's unique id or, without one, the offset message id, as MessageClientExt.getMsgId does."""
    ids = columns.properties.column(keys_of.UNIQ_KEY)
    if not ids.null_count:
        return ids
    # Its import takes 35 ms, which a process that only plans a read does not need.
    import pyarrow.compute as pc

    return pc.coalesce(ids, columns.offset_ids)


_MAKERS: dict[str, Maker] = {
    "topic": _topic,
    "brokerName": lambda columns: same(columns.broker_name, len(columns.window)),
    "queueId": _field32(layout.QUEUE_ID_AT),
    "queueOffset": _number(lambda window: window.queue_offset, np.int64),
    "msgId": _message_id,
    "offsetMsgId": lambda columns: columns.offset_ids,
    "keys": lambda columns: columns.properties.column(keys_of.KEYS),
    "tags": lambda columns: columns.properties.column(keys_of.TAGS),
    "bornTimestamp": _time(RecordWindow.born_ms),
    "bornHost": lambda columns: _host_column(columns.window, columns.window.born_host),
    "storeTimestamp": _time(RecordWindow.stored_ms),
    "storeHost": lambda columns: _host_column(columns.window, columns.window.store_host),
    "flag": _field32(layout.FLAG_AT),
    "sysFlag": _field32(layout.SYS_FLAG_AT),
    "bodyCrc": _field32(layout.BODY_CRC_AT),
    "storeSize": _field32(0),
    "reconsumeTimes": _number(RecordWindow.reconsume_times, np.int32),
    "commitLogOffset": _number(
        lambda window: window.int64(layout.PHYSICAL_OFFSET_AT), np.int64
    ),
    "preparedTransactionOffset": _number(RecordWindow.prepared_offset, np.int64),
}


# --- hosts and offset message ids

# A window usually has few different hosts, so each is formatted once and used by index. Offset ids differ in nearly
# every row; they are hex strings, computed by table lookup.


def _host_column(window: RecordWindow, hosts: RecordPieces) -> pa.Array:
    """Return the host of each record as `ip:port`, IPv6 addresses in brackets."""
    return _by_size(
        hosts, lambda rows, size: _host_texts(window.octets, hosts.starts[rows], size)
    )


def _offset_id_column(window: RecordWindow) -> pa.Array:
    """Return the offset message id of each record: hex of store host and commitlog offset, 32 or 56 characters."""
    hosts = window.store_host

    def ids(rows: Longs, size: int) -> pa.Array:
        host = _octets(window.octets, hosts.starts[rows], size)
        place = _octets(window.octets, window.starts[rows] + layout.PHYSICAL_OFFSET_AT, 8)
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
