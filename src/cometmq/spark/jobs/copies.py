"""Copies of messages to compare: archives and stores (`offline.copies`), and topics of a cluster."""

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from cometmq.model.errors import SettingsError
from cometmq.offline.copies import MessageCopy, folder_copy
from cometmq.offline.coverage import Coverage
from cometmq.offline.digests import BLOCK_OFFSETS, COMPARED, Block
from cometmq.offline.findings import OnFinding
from cometmq.spark.options import words
from cometmq.spark.schema import arrow_schema, message_schema
from cometmq.spark.source import planning
from cometmq.spark.source.cluster import source_cluster
from cometmq.spark.source.missing import check_missing, missing_queues
from cometmq.spark.source.planning import PlannedRange
from cometmq.spark.source.pull import RangePuller
from cometmq.spark.source.settings import SourceSettings

PART_ROWS = 100_000  # Offsets of a queue per part; parts start at multiples of it.
_SCHEMA = arrow_schema(message_schema(COMPARED))


@dataclass(frozen=True)
class TopicCopy:
    """Topics (`name`, separated by commas) of a live cluster, of all brokers or one, as a copy to compare."""

    name: str
    nameserver: str
    broker: str = ""

    def _settings(self) -> SourceSettings:
        given = {"nameServer": self.nameserver, "subscribe": self.name}
        return SourceSettings.parse(given, is_stream=False)

    def _ranges(self) -> list[PlannedRange]:
        settings = self._settings()
        cluster = source_cluster(settings)
        covered = planning.covered_queues(settings.topics, cluster)
        missing = missing_queues(settings, covered, cluster)
        check_missing([each for each in missing if self.broker in ("", each.broker)], settings)
        queues = [queue for queue in covered if self.broker in ("", queue.broker_name)]
        if self.broker and not queues:
            there = ", ".join(sorted({queue.broker_name for queue in covered})) or "no broker"
            raise SettingsError(
                f"--broker {self.broker}: this broker has no queue of {self.name}; {there} has"
            )
        return planning.between(
            planning.resolve(settings.starting, queues, cluster),
            planning.resolve(settings.ending, queues, cluster),
        )

    def parts(self) -> Mapping[str, Any]:
        """Return the ranges of offsets that the topics' queues have now, by range name, each of at most 100,000 offsets."""
        pieces = [piece for each in self._ranges() for piece in pieces_of(each)]
        return {range_name(piece): piece for piece in pieces}

    def size_of(self, part: Any) -> int:
        """Return the number of offsets in a range of a queue."""
        return int(part.rows)

    def read(self, part: Any, on_finding: OnFinding) -> Iterator[pa.RecordBatch]:
        """Iterate over the messages of a range of a queue as Arrow batches, with the columns that are compared."""
        settings = self._settings()
        return RangePuller(source_cluster(settings), settings, _SCHEMA).batches([part])

    def may_have(self, part: Any, blocks: AbstractSet[Block]) -> bool:
        """Return whether a range overlaps any of the blocks (1,024 offsets of a queue), whatever the block's broker."""
        first, last = part.start // BLOCK_OFFSETS, (part.end - 1) // BLOCK_OFFSETS
        return any(
            (topic, number) == (part.queue.topic, part.queue.queue_id)
            and first <= block <= last
            for topic, _, number, block in blocks
        )

    def coverage(self) -> Coverage:
        """Return the first offset of each queue with messages, from which on the copy should hold all messages."""
        firsts = {
            (each.queue.topic, each.queue.broker_name, each.queue.queue_id): each.start
            for each in self._ranges()
        }
        return Coverage(firsts)

    def brokers(self) -> set[str]:
        """Return the names of the brokers whose queues have messages."""
        return {each.queue.broker_name for each in self._ranges()}

    def is_live(self) -> bool:
        """Return True: messages may be added to a cluster at any time."""
        return True


def copy_of(place: str, *, topics: str, nameserver: str, broker: str) -> MessageCopy:
    """Return the copy to compare: an archive or a store if the place is a folder or has a slash, or else topics.

    Args:
        place: A folder, a URI, or topics separated by commas.
        topics: Topics to which a store or archive is limited, separated by commas.
        nameserver: Nameservers of the cluster, for topics.
        broker: Broker whose queues are read, for topics; empty for all.

    Raises:
        SettingsError: The folder is neither an archive nor a store.
    """
    if "/" in place or Path(place).is_dir():
        return folder_copy(place, words(topics))
    return TopicCopy(",".join(words(place)), nameserver, broker)


def pieces_of(whole: PlannedRange) -> Iterator[PlannedRange]:
    """Yield the pieces of a range of a queue, cut at multiples of `PART_ROWS` (100,000) offsets; none if it is empty."""
    start = whole.start
    while start < whole.end:
        end = min(whole.end, (start // PART_ROWS + 1) * PART_ROWS)
        yield PlannedRange(whole.queue, start, end)
        start = end


def range_name(part: PlannedRange) -> str:
    """Return the name of a range: its queue, and its offsets as "start-end", the end exclusive."""
    return f"{part.queue} {part.start}-{part.end}"
