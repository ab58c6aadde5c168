"""Rows cut into requests: those of one place together, not too many and not too large.

Next: cometmq.spark.sink.sender
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cometmq.model.queue import MessageQueue
from cometmq.offline.columns.pieces import contents
from cometmq.spark.sink.encode import Rows
from cometmq.spark.sink.settings import SinkSettings

# What is encoded at once: Arrow's offsets are 32 bit, and memory is for more than one task.
SLICE_BYTES = 128 << 20
# Rows that travel alone leave together, so that a crossing to the loop serves many.
_SINGLES_MAX = 256


class Place(NamedTuple):
    """Where rows go.

    Attributes:
        topic: the topic.
        queue: the queue that the rows named or their key chose; None: any of the topic.
    """

    topic: str
    queue: MessageQueue | None = None


class Batch(NamedTuple):
    """Rows in one request.

    Attributes:
        place: where it goes.
        rows: how many messages it holds.
        body: the encoded items, end to end.
        sys_flag: of all of them.
    """

    place: Place
    rows: int
    body: bytes
    sys_flag: int = 0

    def only(self, _failed: Sequence[int]) -> "Batch":
        """What is sent again: all of it."""
        return self


class Single(NamedTuple):
    """A row in a request of its own.

    Attributes:
        flag: the user's number.
        sys_flag: how its body is compressed.
        body: as it is stored.
        properties: its property block.
    """

    flag: int
    sys_flag: int
    body: bytes
    properties: str


class Singles(NamedTuple):
    """Rows that travel alone, but leave together.

    Attributes:
        place: where they go.
        messages: the rows.
    """

    place: Place
    messages: Sequence[Single]

    @property
    def rows(self) -> int:
        """How many."""
        return len(self.messages)

    def only(self, failed: Sequence[int]) -> "Singles":
        """Those at some indexes, to be sent again."""
        return Singles(self.place, [self.messages[index] for index in failed])


Request = Batch | Singles


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in pieces that can be encoded at once."""
    rows = max(1, batch.num_rows * SLICE_BYTES // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def cut(rows: Rows, places: Place | list[Place], settings: SinkSettings) -> Iterator[Request]:
    """The requests that carry rows.

    Args:
        rows: encoded.
        places: where all rows go, or where each goes.
        settings: how many messages and bytes a request may have.
    """
    is_plain = not rows.is_alone.any() and not rows.sys_flags.any()
    if isinstance(places, Place) and is_plain:
        yield from _batches(rows.items(), places, 0, settings)
        return
    if isinstance(places, Place):
        places = [places] * len(rows.bodies)
    for (place, sys_flag, is_alone), indexes in _groups(rows, places):
        chosen = rows.take(indexes)
        if is_alone:
            yield from _singles(chosen, place, settings)
        else:
            yield from _batches(chosen.items(), place, sys_flag, settings)


def _groups(
    rows: Rows, places: list[Place]
) -> Iterator[tuple[tuple[Place, int, bool], npt.NDArray[np.int64]]]:
    """Rows that may share a request, by where and how they travel.

    Rows of a queue that was chosen keep their order: there, each change of how they travel begins a
    new group.
    """
    kinds = zip(places, rows.sys_flags.tolist(), rows.is_alone.tolist(), strict=True)
    groups: dict[tuple[tuple[Place, int, bool], int], list[int]] = {}
    turns: dict[Place, tuple[tuple[Place, int, bool], int]] = {}
    for row, kind in enumerate(kinds):
        place, number = kind[0], 0
        if place.queue is not None:
            last, number = turns.get(place, (kind, 0))
            number += last != kind
            turns[place] = kind, number
        groups.setdefault((kind, number), []).append(row)
    for (kind, _), indexes in groups.items():
        yield kind, np.array(indexes)


def _singles(rows: Rows, place: Place, settings: SinkSettings) -> Iterator[Singles]:
    count_max = min(_SINGLES_MAX, settings.batch_rows_max)
    messages = [
        Single(*each)
        for each in zip(
            rows.flags.tolist(),
            rows.sys_flags.tolist(),
            rows.bodies.to_pylist(),
            rows.blocks.cast(pa.string()).to_pylist(),
            strict=True,
        )
    ]
    for start in range(0, len(messages), count_max):
        yield Singles(place, messages[start : start + count_max])


def _batches(
    items: pa.Array, place: Place, sys_flag: int, settings: SinkSettings
) -> Iterator[Batch]:
    """One message longer than a request may be goes alone: the broker has the last word."""
    octets, _, ends = contents(items)
    view = memoryview(octets)
    start = 0
    while start < len(items):
        full = int(np.searchsorted(ends, ends[start] + settings.batch_bytes_max, "right")) - 1
        end = min(max(full, start + 1), start + settings.batch_rows_max, len(items))
        yield Batch(place, end - start, bytes(view[ends[start] : ends[end]]), sys_flag)
        start = end
