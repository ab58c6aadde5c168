"""Many records of one buffer: their positions and the values of their fixed fields.

A pull answer or a piece of a log consists of contiguous records (docs/format/record.md). One walk finds their starts;
numpy then gathers a field of all records with one call. Hosts (IPv4 or IPv6), body, and the topic with its length (V1
or V2) have various sizes, so the positions of the following fields are arrays computed from the records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cometmq.codec import record as layout
from cometmq.codec.host import HOST_V4_SIZE
from cometmq.kernel import MAGIC_V1, MAGIC_V2, record_places, walk_records
from cometmq.model import flags
from cometmq.model.errors import CodecError
from cometmq.offline.columns.pieces import take_text

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Octets = bytes | npt.NDArray[np.uint8]


def record_starts(buffer: bytes) -> Longs:
    """Return the start of each record in a buffer; raises CodecError unless records, by their sizes, fill it."""
    end = len(buffer)
    places, position = record_places(buffer, 0, end)
    if position != end:
        # Walk again to report where it stopped and why; `RecordWindow` checks the magic numbers.
        _, stopped_at, why = walk_records(buffer, 0, end)
        raise CodecError(f"no whole record at byte {stopped_at} of {end} ({why.name.lower()})")
    return np.frombuffer(places, np.int64)


def elements_at(buffer: Octets, places: Longs, kind: str) -> npt.NDArray[Any]:
    """Return the elements of a numpy type at any positions of a buffer.

    An array over the buffer with a stride of one byte makes every position an element, so this is one indexing
    call.
    """
    if not len(places):
        return np.empty(0, kind)
    count = max(len(buffer) - np.dtype(kind).itemsize + 1, 0)
    found: npt.NDArray[Any] = np.ndarray((count,), kind, buffer=buffer, strides=(1,))[places]
    return found


@dataclass(frozen=True)
class RecordPieces:
    """One piece of each record, such as its body: `starts` and `ends` are positions in the buffer.

    Invariant, to be ensured by the creator: 0 <= start <= end <= len(buffer), row by row.
    """

    starts: Longs
    ends: Longs

    @property
    def lengths(self) -> Longs:
        """Size of each piece in bytes."""
        return self.ends - self.starts

    def select(self, rows: Flags | Longs) -> "RecordPieces":
        """Return the pieces of the given rows (a mask or row numbers)."""
        return RecordPieces(self.starts[rows], self.ends[rows])


class RecordWindow:
    """Records of one buffer, in a chosen selection and order.

    Args:
        buffer: The bytes, less than 2 GiB (Arrow's offsets are 32-bit).
        starts: Starts of the records, as `record_starts` returns them.

    Raises:
        CodecError: A record's inner lengths do not fit its size, or its magic number is unknown.
    """

    def __init__(self, buffer: bytes, starts: Longs) -> None:
        self.buffer = buffer
        self.octets: npt.NDArray[np.uint8] = np.frombuffer(buffer, np.uint8)
        self.starts = starts
        self.sys_flag = self.int32(layout.SYS_FLAG_AT)
        self._lay_out(starts + self.int32(0), self._are_v2())

    def __len__(self) -> int:
        return len(self.starts)

    def int32(self, field: int) -> Longs:
        """Return the signed 4-byte field at byte `field` of each record as int64; it must precede the born host."""
        return self._head(field, ">i4")

    def int64(self, field: int) -> Longs:
        """Return the signed 8-byte field at byte `field` of each record; it must precede the born host."""
        return self._head(field, ">i8")

    def select(self, rows: Flags | Longs) -> "RecordWindow":
        """Return a window on the same buffer with only the marked records, or those with the given numbers in order."""
        chosen = object.__new__(RecordWindow)
        chosen.buffer, chosen.octets = self.buffer, self.octets
        chosen.starts, chosen.sys_flag = self.starts[rows], self.sys_flag[rows]
        chosen.body, chosen.topic = self.body.select(rows), self.topic.select(rows)
        chosen.properties = self.properties.select(rows)
        return chosen

    @cached_property
    def queue_offset(self) -> Longs:
        """Queue offset of each record."""
        return self.int64(layout.QUEUE_OFFSET_AT)

    @cached_property
    def topic_texts(self) -> pa.Array:
        """Topic of each record as a string, with U+FFFD for invalid UTF-8."""
        return take_text(pa.py_buffer(self.buffer), self.topic)

    @cached_property
    def born_host_size(self) -> Longs:
        """Size in bytes of each producer's address and port: 8 (IPv4) or 20 (IPv6)."""
        return self._host_size(flags.BORN_HOST_V6)

    @cached_property
    def store_host_size(self) -> Longs:
        """Size in bytes of each broker's address and port: 8 (IPv4) or 20 (IPv6)."""
        return self._host_size(flags.STORE_HOST_V6)

    @cached_property
    def born_host(self) -> RecordPieces:
        """Position of each producer's address and port."""
        at = self.starts + layout.BORN_HOST_AT
        return RecordPieces(at, at + self.born_host_size)

    @cached_property
    def store_host(self) -> RecordPieces:
        """Position of each broker's address and port, after the 8 bytes of the store time."""
        at = self.born_host.ends + 8
        return RecordPieces(at, at + self.store_host_size)

    def born_ms(self) -> Longs:
        """Return the times when producers created the messages, ms since 1970."""
        return self.int64(layout.BORN_TIME_AT)

    def stored_ms(self) -> Longs:
        """Return the times when the broker stored the messages, ms since 1970."""
        return self._gather(self.born_host.ends, ">i8")

    def reconsume_times(self) -> Longs:
        """Return the field reconsumeTimes of each record."""
        return self._gather(self.store_host.ends, ">i4")

    def prepared_offset(self) -> Longs:
        """Return the field preparedTransactionOffset of each record."""
        return self._gather(self.store_host.ends + 4, ">i8")

    @cached_property
    def _heads(self) -> npt.NDArray[np.void]:
        """First 48 bytes of each record, one opaque element each, with nine fields at fixed places that `_head` reads."""
        return elements_at(self.buffer, self.starts, f"V{layout.BORN_HOST_AT}")

    def _head(self, field: int, kind: str) -> Longs:
        """Return the field of numpy type `kind` at byte `field`, before the born host, of all records as int64."""
        if not len(self.starts):
            return self.starts
        size = layout.BORN_HOST_AT
        numbers = np.ndarray(
            (len(self.starts),), kind, buffer=self._heads, offset=field, strides=(size,)
        )
        return numbers.astype(np.int64)

    def _host_size(self, bit: int) -> Longs:
        is_v6 = (self.sys_flag & bit) != 0
        size: Longs = HOST_V4_SIZE + layout.HOST_V6_EXTRA * is_v6.astype(np.int64)
        return size

    def _are_v2(self) -> Flags:
        magic = self.int32(layout.MAGIC_AT) & 0xFFFFFFFF
        is_v2: Flags = magic == MAGIC_V2
        known = is_v2 | (magic == MAGIC_V1)
        if not known.all():
            row = int(np.argmin(known))
            raise CodecError(f"record {row} has the unknown magic {int(magic[row]):#010x}")
        return is_v2

    def _lay_out(self, ends: Longs, is_v2: Flags) -> None:
        """Locate body, topic and properties; raise CodecError unless they fit the records' sizes exactly."""
        body_at = self.store_host.ends + 16
        # Room for what follows every body: the lengths of topic and properties.
        tail = 3 + is_v2.astype(np.int64)
        self._check(body_at + tail <= ends, "fixed fields")
        body_size = self._gather(body_at - 4, ">i4")
        self.body = RecordPieces(body_at, body_at + body_size)
        self._check((body_size >= 0) & (self.body.ends + tail <= ends), "body")
        # V1 has the topic's length in one byte, V2 in two, of which the last is the low byte.
        topic_at = self.body.ends + tail - 2
        topic_size = self.octets[topic_at - 1].astype(np.int64)
        high = self.octets[self.body.ends].astype(np.int64) << 8
        topic_size += np.where(is_v2, high, 0)
        self.topic = RecordPieces(topic_at, topic_at + topic_size)
        self._check(self.topic.ends + 2 <= ends, "topic")
        size = self._gather(self.topic.ends, ">u2")
        self.properties = RecordPieces(self.topic.ends + 2, self.topic.ends + 2 + size)
        self._check(self.properties.ends == ends, "parts")

    def _check(self, fits: Flags, piece: str) -> None:
        if not fits.all():
            row = int(np.argmin(fits))
            raise CodecError(
                f"record {row}: its {piece} do not fit into its {self.int32(0)[row]} bytes"
            )

    def _gather(self, positions: Longs, kind: str) -> Longs:
        return elements_at(self.buffer, positions, kind).astype(np.int64)


def joined(windows: Sequence[RecordWindow]) -> RecordWindow:
    """Return the records of all windows, of which there must be at least one, as one window."""
    if len(windows) == 1:
        return windows[0]
    bases = np.cumsum([0, *(len(each.buffer) for each in windows[:-1])])
    starts = [each.starts + base for each, base in zip(windows, bases, strict=True)]
    return RecordWindow(b"".join(each.buffer for each in windows), np.concatenate(starts))
