"""Division of a sink's rows into send requests, each for one queue or topic; batches of several rows are limited in size."""

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

# Bytes encoded at once: Arrow's offsets have 32 bits, and several tasks share the memory.
SLICE_BYTES = 128 << 20
# Rows in requests of their own are passed to the event loop's thread in groups, to save thread switches.
_SINGLE_SENDS_MAX = 256


class RowPlace(NamedTuple):
    """Topic and queue to which rows go; `queue` is None if any queue of the topic will do."""

    topic: str
    queue: MessageQueue | None = None


class RowPlaces(NamedTuple):
    """Topic and queue of each row: `distinct` has each pair once, `of_rows` the index of its pair for each row."""

    distinct: Sequence[RowPlace]
    of_rows: npt.NDArray[np.int64]


# Indexes of rows that are sent alike, one array per group.
Groups = Sequence[npt.NDArray[np.int64]]


class RowBatch(NamedTuple):
    """Rows sent in one batch request; `body` is the concatenation of the encoded messages."""

    place: RowPlace
    rows: int
    body: bytes
    sys_flag: int = 0

    def only(self, _failed: Sequence[int]) -> "RowBatch":
        """Return the batch itself, to send it again: it has a single outcome for all rows."""
        return self


class SingleSend(NamedTuple):
    """A row sent in a request of its own: user's flag, system flag with the body's compression, body, properties."""

    flag: int
    sys_flag: int
    body: bytes
    properties: str


class SingleSends(NamedTuple):
    """Rows sent at the same time, each in a request of its own."""

    place: RowPlace
    messages: Sequence[SingleSend]

    @property
    def rows(self) -> int:
        """Number of rows, each of which is sent in a request of its own."""
        return len(self.messages)

    def only(self, failed: Sequence[int]) -> "SingleSends":
        """Return the rows at the given indexes, to send them again."""
        return SingleSends(self.place, [self.messages[index] for index in failed])


Request = RowBatch | SingleSends


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Split an Arrow batch by rows, into slices of about 128 MiB at most if the rows have similar sizes."""
    rows = max(1, batch.num_rows * SLICE_BYTES // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def cut(
    rows: MessageRows, places: RowPlace | RowPlaces, settings: SinkSettings
) -> Iterator[Request]:
    """Yield the send requests for encoded rows, one for each topic or selected queue in turn."""
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
    """Yield the requests for the groups of one topic or queue, group by group."""
    for indexes in groups:
        chosen = rows.take(indexes)
        if chosen.is_alone[0]:
            yield from _single_sends(chosen, place, settings)
        else:
            yield from _batches(chosen.items(), place, int(chosen.sys_flags[0]), settings)


def _groups(rows: MessageRows, places: RowPlaces) -> Iterator[tuple[RowPlace, Groups]]:
    """Yield groups of rows that are sent alike (batched, compressed or not) by topic and queue, in the order of first rows.

    Rows for a selected queue keep their order: there, a row that is not sent like the one before begins a new group.
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
    """Yield batch requests within the limits; a message of more bytes than allowed is sent alone, for the broker to decide."""
    octets, _, ends = contents(items)
    view = memoryview(octets)
    start = 0
    while start < len(items):
        full = int(np.searchsorted(ends, ends[start] + settings.batch_bytes_max, "right")) - 1
        end = min(max(full, start + 1), start + settings.batch_rows_max, len(items))
        yield RowBatch(place, end - start, bytes(view[ends[start] : ends[end]]), sys_flag)
        start = end
