"""Two copies compared: digests of both, then the messages of the blocks that differ.

Next: cometmq.offline.digests
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from cometmq.model.errors import SettingsError
from cometmq.offline.coverage import Coverage
from cometmq.offline.digests import (
    BLOCK_OFFSETS,
    Block,
    Digest,
    MessageDifference,
    MessageHashes,
    differences,
    differing_blocks,
    digests_of,
    messages_of,
    queued,
)
from cometmq.spark.jobs.copies import Copy
from cometmq.spark.jobs.job import Report
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.tasks import Row, run_tasks

BLOCKS_MAX = 64  # Of those that differ, as many are looked into: 65,536 messages.
SHOWN_MAX = 1000

_AGAIN = "again "  # Before the names of parts that are read a second time.

T = TypeVar("T")
Part = tuple[int, Any]
"""Of which copy (0: A, 1: B), and what of it."""


@dataclass
class CompareCounts:
    """The counts of a comparison; each of a pair for A and B.

    Attributes:
        rows: messages that were compared.
        passed_over: messages that the other copy cannot hold, or that are too new.
    """

    rows: list[int] = field(default_factory=lambda: [0, 0])
    passed_over: list[int] = field(default_factory=lambda: [0, 0])


@dataclass(frozen=True)
class CopyReading:
    """Reads the parts of both copies; picklable.

    Attributes:
        copies: A and B.
        coverage: what each should hold.
        has_brokers: both name the brokers of their queues.
        until_ms: only what was stored before, ms since 1970; None: all.
    """

    copies: tuple[Copy, Copy]
    coverage: tuple[Coverage, Coverage]
    has_brokers: bool
    until_ms: int | None

    @classmethod
    def of(cls, one: Copy, other: Copy, until_ms: int | None) -> "CopyReading":
        """Of two copies.

        Raises:
            SettingsError: one names several brokers, and the other none.
        """
        brokers = one.brokers(), other.brokers()
        has_brokers = all(brokers)
        for copy, names in zip((one, other), brokers, strict=True):
            if len(names) > 1 and not has_brokers:
                raise SettingsError(
                    f"{copy.name} lies on the brokers {', '.join(sorted(names))}, the other side is of "
                    "one: say --broker"
                )
        coverage = one.coverage(), other.coverage()
        if not has_brokers:
            coverage = coverage[0].without_brokers(), coverage[1].without_brokers()
        return cls((one, other), coverage, has_brokers, until_ms)

    def parts(self) -> dict[str, Part]:
        """The parts of both, by name."""
        return {
            f"{'AB'[side]} {name}": (side, part)
            for side, copy in enumerate(self.copies)
            for name, part in copy.parts().items()
        }

    def size_of(self, part: Part) -> int:
        """Of a part, in bytes."""
        return self.copies[part[0]].size_of(part[1])

    def read(self, part: Part, seen: CompareCounts) -> Iterator[pa.RecordBatch]:
        """Read the messages of a part that are compared."""
        side, piece = part
        for every in self.copies[side].read(piece):
            batch = queued(every)
            if not self.has_brokers:
                at = batch.schema.get_field_index("brokerName")
                blank = pa.repeat(pa.scalar("", pa.string()), batch.num_rows)
                batch = batch.set_column(at, batch.schema.field(at), blank)
            keep = self.coverage[1 - side].holds(batch)
            if self.until_ms is not None:
                stored = np.asarray(batch.column("storeTimestamp").view(pa.int64()))
                keep &= stored < self.until_ms * 1000
            if not keep.all():
                seen.passed_over[side] += int((~keep).sum())
                batch = batch.filter(pa.array(keep))
            seen.rows[side] += batch.num_rows
            if batch.num_rows:
                yield batch

    def digest(self, part: Part) -> list[Row]:
        """A row with the counts of a part, then its digests; each begins with the copy's number."""
        side, seen = part[0], CompareCounts()
        digests = digests_of(self.read(part, seen))
        counts = [side, seen.rows[side], seen.passed_over[side]]
        return [counts, *([side, *each] for each in digests)]

    def messages(self, part: Part, blocks: AbstractSet[Block]) -> list[Row]:
        """The messages of a part that lie in some blocks."""
        seen = messages_of(self.read(part, CompareCounts()), blocks)
        return [[part[0], *each[:4], list(each.fields)] for each in seen]


def compare(spark: SparkSession, run: Run, reading: CopyReading) -> Report:
    """Read both, and say which messages one lacks or has otherwise."""
    parts = reading.parts()
    rows = run_tasks(spark, run, parts, reading.digest, size_of=reading.size_of)
    seen, digests = CompareCounts(), _Both[Digest]()
    for side, *found in rows:
        if len(found) == len(Digest._fields):
            digests.of[side].append(Digest(*found))
        else:
            seen.rows[side] += found[0]
            seen.passed_over[side] += found[1]
    blocks = differing_blocks(*digests.of)
    found_differences = _look_into(spark, run, reading, parts, blocks[:BLOCKS_MAX])
    counts = {
        "messages of A": seen.rows[0],
        "messages of B": seen.rows[1],
        "differing blocks": len(blocks),
        "differences": len(found_differences),
    }
    shown = [tuple(each) for each in found_differences[:SHOWN_MAX]]
    report = Report(counts, MessageDifference._fields if shown else (), shown)
    report.notes = list(_notes(reading, seen))
    report.findings = list(_findings(found_differences))
    if len(blocks) > BLOCKS_MAX:
        report.findings.append(
            f"{len(blocks) - BLOCKS_MAX} more blocks of {BLOCK_OFFSETS} offsets differ and were not "
            "looked into"
        )
    return report


class _Both(Generic[T]):
    """A pair of lists, one for A and one for B."""

    def __init__(self) -> None:
        self.of: tuple[list[T], list[T]] = ([], [])


def _look_into(
    spark: SparkSession,
    run: Run,
    reading: CopyReading,
    parts: Mapping[str, Part],
    blocks: Sequence[Block],
) -> list[MessageDifference]:
    """Read again what can have messages of the blocks that differ."""
    if not blocks:
        return []
    wanted = frozenset(blocks)
    manifest, listed = run.manifest, [list(block) for block in blocks]
    if manifest.ahead.get("blocks") != listed:
        # A killed run had other blocks: what it knows of their messages is of no use.
        manifest.ranges = [
            each for each in manifest.ranges if not each["task"].startswith(_AGAIN)
        ]
        manifest.ahead = {"blocks": listed}
    again = {
        f"{_AGAIN}{name}": part
        for name, part in parts.items()
        if reading.copies[part[0]].may_have(part[1], wanted)
    }
    messages = _Both[MessageHashes]()
    for side, topic, broker, queue_id, offset, fields in run_tasks(
        spark, run, again, lambda part: reading.messages(part, wanted), size_of=reading.size_of
    ):
        messages.of[side].append(MessageHashes(topic, broker, queue_id, offset, tuple(fields)))
    return differences(*messages.of)


def _notes(reading: CopyReading, seen: CompareCounts) -> Iterator[str]:
    for side, copy in enumerate(reading.copies):
        yield f"{'AB'[side]} is {copy.name}"
        if seen.passed_over[side]:
            yield (
                f"{seen.passed_over[side]:,} messages of {'AB'[side]} are not compared: the other "
                "side has none so old, does not have them yet, or they are too new"
            )


def _findings(found: Sequence[MessageDifference]) -> Iterator[str]:
    """A line for each queue."""
    counts = Counter((each[:3], each.what.partition(" in ")[0]) for each in found)
    for ((topic, broker, queue_id), what), count in sorted(counts.items()):
        where = f"{topic}@{broker}" if broker else topic
        yield f"{where}:{queue_id}: {count:,} messages: {what}"
