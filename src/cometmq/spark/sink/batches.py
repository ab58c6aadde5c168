"""Encoded rows cut into requests: the rows of one place together, not too many and not too large.

Next: cometmq.spark.sink.sender
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from cometmq.model.queue import MessageQueue
from cometmq.spark.columns.pieces import contents
from cometmq.spark.sink.settings import SinkSettings

# What is encoded at once: Arrow's offsets are 32 bit, and memory is for more than one task.
SLICE_BYTES = 128 << 20


class Place(NamedTuple):
    """Where rows go.

    Attributes:
        topic: the topic.
        queue: the queue that the rows named or their key chose; None: any of the topic.
    """

    topic: str
    queue: MessageQueue | None = None


class Batch(NamedTuple):
    """One request.

    Attributes:
        place: where it goes.
        rows: how many messages it holds.
        body: the encoded items, end to end.
    """

    place: Place
    rows: int
    body: bytes


def slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows in pieces that can be encoded at once."""
    rows = max(1, batch.num_rows * SLICE_BYTES // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


def cut(
    items: pa.Array, places: Place | list[Place], settings: SinkSettings
) -> Iterator[Batch]:
    """The requests that carry encoded rows.

    Args:
        items: a binary array of encoded rows.
        places: where all rows go, or where each goes.
        settings: how many messages and bytes a request may have.
    """
    if isinstance(places, Place):
        yield from _cut(items, places, settings)
        return
    rows_of: dict[Place, list[int]] = {}
    for row, place in enumerate(places):
        rows_of.setdefault(place, []).append(row)
    for place, rows in rows_of.items():
        yield from _cut(items.take(pa.array(rows)), place, settings)


def _cut(items: pa.Array, place: Place, settings: SinkSettings) -> Iterator[Batch]:
    """One message longer than a request may be goes alone: the broker has the last word."""
    octets, _, ends = contents(items)
    view = memoryview(octets)
    start = 0
    while start < len(items):
        full = int(np.searchsorted(ends, ends[start] + settings.batch_bytes_max, "right")) - 1
        end = min(max(full, start + 1), start + settings.batch_rows_max, len(items))
        yield Batch(place, end - start, bytes(view[ends[start] : ends[end]]))
        start = end
