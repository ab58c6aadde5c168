"""Determines which messages a copy should hold: a message is only compared if the other copy should hold it.

A store should hold each queue from an offset on, an archive ranges of physical offsets or of queue offsets.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cometmq.offline.columns.window import Flags, Longs
from cometmq.offline.delay_levels import USUAL_LEVELS_MS
from cometmq.offline.folder import StoreFolder
from cometmq.offline.folder_queues import known_queues_in
from cometmq.offline.known_queues import KnownQueues
from cometmq.offline.queue_reader import queue_files, read_queue_file
from cometmq.offline.rebuild import logged_queues

Queue = tuple[str, str, int]
"""Topic, broker (empty where nobody says it), number."""
Range = tuple[int, int]


@dataclass(frozen=True)
class Coverage:
    """The messages that a copy should hold; picklable.

    Attributes:
        firsts: First queue offset held of each queue; a queue that is not listed is held completely.
        physical: Ranges of physical offsets; None for all.
        ranges: Ranges of queue offsets by queue; a queue that is not listed has none. None for all.
        known: The copy's queues, by which messages of deleted topics are recognized; None if they are unknown.
        topics: Only messages of these topics; empty for all.
    """

    firsts: Mapping[Queue, int] = field(default_factory=dict)
    physical: Sequence[Range] | None = None
    ranges: Mapping[Queue, Sequence[Range]] | None = None
    known: KnownQueues | None = None
    topics: Sequence[str] = ()

    def without_brokers(self) -> "Coverage":
        """Return the same coverage with empty broker names, to compare with a copy that names no brokers."""
        ranges = self.ranges
        if ranges is not None:
            ranges = {(topic, "", number): of for (topic, _, number), of in ranges.items()}
        firsts = {(topic, "", number): at for (topic, _, number), at in self.firsts.items()}
        return replace(self, firsts=firsts, ranges=ranges)

    def holds(self, batch: pa.RecordBatch) -> Flags:
        """Return a mask of the messages of another copy's batch that this copy should hold."""
        keep = np.ones(batch.num_rows, np.bool_)
        if self.physical is not None:
            keep &= _within(np.asarray(batch.column("commitLogOffset")), self.physical)
        if self.topics:
            found = pc.is_in(batch.column("topic"), pa.array(self.topics, pa.string()))
            keep &= found.to_numpy(zero_copy_only=False)
        if not self.firsts and self.ranges is None:
            return keep
        offsets = np.asarray(batch.column("queueOffset"))
        for queue, rows in queue_runs(batch):
            keep[rows] &= offsets[rows] >= self.firsts.get(queue, 0)
            if self.ranges is not None:
                keep[rows] &= _within(offsets[rows], self.ranges.get(queue, ()))
        return keep

    def is_alive(self, batch: pa.RecordBatch) -> Flags:
        """Return a mask of the messages that are not known to be of deleted topics; all if `known` is None."""
        keep = np.ones(batch.num_rows, np.bool_)
        if self.known is None:
            return keep
        offsets = np.asarray(batch.column("queueOffset"))
        places = np.asarray(batch.column("commitLogOffset"))
        for (topic, _, queue_id), rows in queue_runs(batch):
            dead = self.known.are_dead(topic, queue_id, offsets[rows], places[rows])
            keep[rows] &= ~dead
        return keep


def _within(places: Longs, ranges: Sequence[Range]) -> Flags:
    found = np.zeros(len(places), np.bool_)
    for lo, hi in ranges:
        found |= (places >= lo) & (places < hi)
    return found


def queue_runs(batch: pa.RecordBatch) -> Iterator[tuple[Queue, npt.NDArray[np.int64]]]:
    """Yield ((topic, broker, queue id), its row numbers) for each queue of a batch."""
    topics = batch.column("topic").dictionary_encode()
    brokers = batch.column("brokerName").fill_null("").dictionary_encode()
    kinds, which = np.unique(
        np.stack(
            [np.asarray(each.indices).astype(np.int64) for each in (topics, brokers)]
            + [np.asarray(batch.column("queueId")).astype(np.int64)],
            axis=1,
        ),
        axis=0,
        return_inverse=True,
    )
    topic_names, broker_names = topics.dictionary.to_pylist(), brokers.dictionary.to_pylist()
    for number, (topic, broker, queue_id) in enumerate(kinds.tolist()):
        rows = np.flatnonzero(which.ravel() == number)
        yield (topic_names[topic], broker_names[broker], queue_id), rows


def coverage_of_store(folder: StoreFolder) -> Coverage:
    """Return what a store should hold: all if its log begins at 0, else usually the messages that its log still has."""
    start = folder.log_files()[0].start
    firsts: dict[Queue, int] = {}
    known = known_queues_in(folder) or logged_queues(folder, USUAL_LEVELS_MS)
    if not start:
        return Coverage(known=known)
    for file in queue_files(folder):
        queue = (file.topic, "", file.queue_id)
        if queue in firsts:
            continue
        found = read_queue_file(folder, file)
        alive = np.flatnonzero(found.entries["offset"] >= start)
        if len(alive):
            firsts[queue] = int(found.offsets[alive[0]])
        elif file.is_last and len(found.offsets):
            firsts[queue] = int(found.offsets[-1]) + 1
    return Coverage(firsts, known=known)
