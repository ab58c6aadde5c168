"""Many records of one buffer at once: where they lie and what their fixed fields say.

A pull answer is records end to end (docs/format/record.md). One walk finds their starts; numpy
then gathers a field of all records in one call. Only the two hosts (IPv4 or IPv6) and the length
of the topic's length (V1 or V2) move what follows them, so the positions behind are arrays made
from the records' own flags and mixed records need no second path.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from cometmq.codec import record as layout
from cometmq.codec.host import HOST_V4_SIZE
from cometmq.kernel import MAGIC_V1, MAGIC_V2, record_places, walk_records
from cometmq.model import flags
from cometmq.model.errors import CodecError

Longs = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Octets = bytes | npt.NDArray[np.uint8]


def record_starts(buffer: bytes) -> Longs:
    """The start of each record in a pull answer's body, by walking their sizes.

    Raises:
        CodecError: when something else than whole records stands in it.
    """
    end = len(buffer)
    places, position = record_places(buffer, 0, end)
    if position != end:
        # Walk again, to say where it stopped and why; the magic is looked at by `RecordWindow`.
        _, stopped_at, why = walk_records(buffer, 0, end)
        raise CodecError(f"no whole record at byte {stopped_at} of {end}: {why.name}")
    return np.frombuffer(places, np.int64)


def elements_at(buffer: Octets, places: Longs, kind: str) -> npt.NDArray[Any]:
    """The elements of a numpy type that begin at any places of a buffer.

    An array over the buffer with a stride of one byte makes every place an element, so this is one
    indexing call (5 ns a number, measured; half of what windows of bytes take).
    """
    if not len(places):
        return np.empty(0, kind)
    count = max(len(buffer) - np.dtype(kind).itemsize + 1, 0)
    found: npt.NDArray[Any] = np.ndarray((count,), kind, buffer=buffer, strides=(1,))[places]
    return found


@dataclass(frozen=True)
class RecordPieces:
    """A piece of each record: `starts` and `ends`, bytes in the buffer.

    Invariant, held by whoever makes one: 0 <= start <= end <= len(buffer), row by row.
    """

    starts: Longs
    ends: Longs

    @property
    def lengths(self) -> Longs:
        """Bytes of each piece."""
        return self.ends - self.starts

    def select(self, rows: Flags | Longs) -> "RecordPieces":
        """The pieces of these rows."""
        return RecordPieces(self.starts[rows], self.ends[rows])


class RecordWindow:
    """Records of one buffer, in a chosen selection and order.

    Args:
        buffer: the bytes, below 2 GiB (Arrow's offsets are 32 bit).
        starts: where the records start, as `record_starts` found them.

    Raises:
        CodecError: when a record's inner lengths do not fit its size or its magic is unknown.
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
        """The signed 4-byte field at a fixed distance from each start."""
        return self._head(field, ">i4")

    def int64(self, field: int) -> Longs:
        """The signed 8-byte field at a fixed distance from each start."""
        return self._head(field, ">i8")

    def select(self, rows: Flags | Longs) -> "RecordWindow":
        """A window on the same buffer with only the marked records, or those of the given numbers in their order."""
        chosen = object.__new__(RecordWindow)
        chosen.buffer, chosen.octets = self.buffer, self.octets
        chosen.starts, chosen.sys_flag = self.starts[rows], self.sys_flag[rows]
        chosen.body, chosen.topic = self.body.select(rows), self.topic.select(rows)
        chosen.properties = self.properties.select(rows)
        return chosen

    @cached_property
    def queue_offset(self) -> Longs:
        """The place of each record in its queue."""
        return self.int64(layout.QUEUE_OFFSET_AT)

    @cached_property
    def born_host_size(self) -> Longs:
        """8 or 20: address and port."""
        return self._host_size(flags.BORN_HOST_V6)

    @cached_property
    def store_host_size(self) -> Longs:
        """8 or 20: address and port."""
        return self._host_size(flags.STORE_HOST_V6)

    @cached_property
    def born_host(self) -> RecordPieces:
        """The producer's address and port."""
        at = self.starts + layout.BORN_HOST_AT
        return RecordPieces(at, at + self.born_host_size)

    @cached_property
    def store_host(self) -> RecordPieces:
        """The broker's address and port, behind the 8 bytes of the store time."""
        at = self.born_host.ends + 8
        return RecordPieces(at, at + self.store_host_size)

    def born_ms(self) -> Longs:
        """The times when producers made the records, ms since 1970."""
        return self.int64(layout.BORN_TIME_AT)

    def stored_ms(self) -> Longs:
        """The times when the broker stored the records, ms since 1970."""
        return self._gather(self.born_host.ends, ">i8")

    def reconsume_times(self) -> Longs:
        """The number of times that each message has come back."""
        return self._gather(self.store_host.ends, ">i4")

    def prepared_offset(self) -> Longs:
        """Commitlog offset of the half message it was committed from."""
        return self._gather(self.store_host.ends + 4, ">i8")

    @cached_property
    def _heads(self) -> npt.NDArray[np.void]:
        """The bytes before the hosts, which lie alike in every record, side by side: nine fields are there."""
        return elements_at(self.buffer, self.starts, f"V{layout.BORN_HOST_AT}")

    def _head(self, field: int, kind: str) -> Longs:
        """A number of each head, as int64."""
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
        """Marks the records of version 2; all others are of version 1."""
        magic = self.int32(layout.MAGIC_AT) & 0xFFFFFFFF
        is_v2: Flags = magic == MAGIC_V2
        known = is_v2 | (magic == MAGIC_V1)
        if not known.all():
            row = int(np.argmin(known))
            raise CodecError(f"record {row} has the unknown magic {int(magic[row]):#010x}")
        return is_v2

    def _lay_out(self, ends: Longs, is_v2: Flags) -> None:
        """Find body, topic and properties, each checked to lie inside its record."""
        body_at = self.store_host.ends + 16
        # Room for what every record has behind its body: the lengths of topic and properties.
        tail = 3 + is_v2.astype(np.int64)
        self._check(body_at + tail <= ends, "fixed fields")
        body_size = self._gather(body_at - 4, ">i4")
        self.body = RecordPieces(body_at, body_at + body_size)
        self._check((body_size >= 0) & (self.body.ends + tail <= ends), "body")
        # V1 holds the topic's length in one byte; V2 in two, whose low byte is then the last.
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
                f"record {row}: its {piece} do not fit its {self.int32(0)[row]} bytes"
            )

    def _gather(self, positions: Longs, kind: str) -> Longs:
        """The numbers of `kind` at any byte positions, as int64."""
        return elements_at(self.buffer, positions, kind).astype(np.int64)


def joined(windows: Sequence[RecordWindow]) -> RecordWindow:
    """The records of all windows, one window after the other; at least one."""
    if len(windows) == 1:
        return windows[0]
    bases = np.cumsum([0, *(len(each.buffer) for each in windows[:-1])])
    starts = [each.starts + base for each, base in zip(windows, bases, strict=True)]
    return RecordWindow(b"".join(each.buffer for each in windows), np.concatenate(starts))
