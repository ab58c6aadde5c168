"""Rows cut into requests: those of one place together, not too many and not too large."""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cometmq.model.queue import MessageQueue
from cometmq.offline.columns.pieces import contents
from cometmq.spark.sink.encode import MessageRows
from cometmq.spark.sink.settings import SinkSettings

# What is encoded at once: Arrow's offsets are 32 bit, and memory is for more than one task.
SLICE_BYTES = 128 << 20
# Rows that travel alone leave together, so that a crossing to the loop serves many.
_SINGLE_SENDS_MAX = 256


class RowPlace(NamedTuple):
    """The topic and queue to which rows go.

    Attributes:
        topic: the topic.
        queue: the queue that the rows named or their key chose; None: any of the topic.
    """

    topic: str
    queue: MessageQueue | None = None


class RowPlaces(NamedTuple):
    """The places of some rows.

    Attributes:
        distinct: each place once.
        of_rows: for each row the index of its place.
    """

    distinct: Sequence[RowPlace]
    of_rows: npt.NDArray[np.int64]


# Indexes of rows that may share a request, one array for each group.
Groups = Sequence[npt.NDArray[np.int64]]


class RowBatch(NamedTuple):
    """Rows in one request.

    Attributes:
        place: where it goes.
        rows: how many messages it holds.
        body: the encoded items, end to end.
        sys_flag: of all of them.
    """

    place: RowPlace
    rows: int
    body: bytes
    sys_flag: int = 0

    def only(self, _failed: Sequence[int]) -> "RowBatch":
        """The part that is sent again: all of it."""
        return self


class SingleSend(NamedTuple):
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


class SingleSends(NamedTuple):
    """Rows that travel alone, but leave together.

    Attributes:
        place: where they go.
        messages: the rows.
    """

    place: RowPlace
    messages: Sequence[SingleSend]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.messages)

    def only(self, failed: Sequence[int]) -> "SingleSends":
        """The rows at some indexes, to be sent again."""
        return SingleSends(self.place, [self.messages[index] for index in failed])


Request = RowBatch | SingleSends


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in pieces that can be encoded at once."""
    rows = max(1, batch.num_rows * SLICE_BYTES // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def cut(
    rows: MessageRows, places: RowPlace | RowPlaces, settings: SinkSettings
) -> Iterator[Request]:
    """The requests that carry rows; places take turns, so that none waits while another is sent.

    Args:
        rows: encoded.
        places: where all rows go, or where each goes.
        settings: how many messages and bytes a request may have.
    """
    is_plain = not rows.is_alone.any() and not rows.sys_flags.any()
    if isinstance(places, RowPlace) and is_plain:
        yield from _batches(rows.items(), places, 0, settings)
        return
    if isinstance(places, RowPlace):
        places = RowPlaces([places], np.zeros(len(rows.bodies), np.int64))
    lanes = deque(
        _requests_of(rows, place, groups, settings) for place, groups in _groups(rows, places)
    )
    while lanes:
        lane = lanes.popleft()
        request = next(lane, None)
        if request is not None:
            yield request
            lanes.append(lane)


def _requests_of(
    rows: MessageRows, place: RowPlace, groups: Groups, settings: SinkSettings
) -> Iterator[Request]:
    """The requests of one place, in order."""
    for indexes in groups:
        chosen = rows.take(indexes)
        if chosen.is_alone[0]:
            yield from _single_sends(chosen, place, settings)
        else:
            yield from _batches(chosen.items(), place, int(chosen.sys_flags[0]), settings)


def _groups(rows: MessageRows, places: RowPlaces) -> Iterator[tuple[RowPlace, Groups]]:
    """Rows that may share a request, by where and how they travel; places as rows name them first.

    Rows of a queue that was chosen keep their order: there, each change of how they travel begins a
    new group.
    """
    order = np.argsort(places.of_rows, kind="stable")
    at_place = places.of_rows[order]
    ends = np.flatnonzero(np.diff(at_place)) + 1
    kinds = 2 * rows.sys_flags + rows.is_alone
    for indexes in sorted(np.split(order, ends), key=lambda each: int(each[0])):
        place = places.distinct[places.of_rows[indexes[0]]]
        ways = kinds[indexes]
        if place.queue is not None:
            yield place, np.split(indexes, np.flatnonzero(np.diff(ways)) + 1)
        else:
            first = np.unique(ways, return_index=True)[1]
            yield place, [indexes[ways == ways[row]] for row in sorted(first)]


def _single_sends(
    rows: MessageRows, place: RowPlace, settings: SinkSettings
) -> Iterator[SingleSends]:
    count_max = min(_SINGLE_SENDS_MAX, settings.batch_rows_max)
    messages = [
        SingleSend(*each)
        for each in zip(
            rows.flags.tolist(),
            rows.sys_flags.tolist(),
            rows.bodies.to_pylist(),
            rows.blocks.cast(pa.string()).to_pylist(),
            strict=True,
        )
    ]
    for start in range(0, len(messages), count_max):
        yield SingleSends(place, messages[start : start + count_max])


def _batches(
    items: pa.Array, place: RowPlace, sys_flag: int, settings: SinkSettings
) -> Iterator[RowBatch]:
    """One message longer than a request may be goes alone: the broker has the last word."""
    octets, _, ends = contents(items)
    view = memoryview(octets)
    start = 0
    while start < len(items):
        full = int(np.searchsorted(ends, ends[start] + settings.batch_bytes_max, "right")) - 1
        end = min(max(full, start + 1), start + settings.batch_rows_max, len(items))
        yield RowBatch(place, end - start, bytes(view[ends[start] : ends[end]]), sys_flag)
        start = end
