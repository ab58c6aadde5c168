"""Compares two copies of messages: first digests of both, then the messages of up to 64 differing blocks.

Both copies are read part by part. A `PartRunner` runs the parts: `SequentialRunner` here, Spark tasks in a job.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa

from cometmq.model.clock import Clock
from cometmq.model.errors import SettingsError
from cometmq.model.text import plural
from cometmq.offline.copies import MessageCopy, folder_copy
from cometmq.offline.coverage import Coverage
from cometmq.offline.digests import (
    BLOCK_OFFSETS,
    COMPARED,
    COMPARED_EXACTLY,
    Block,
    BlockDigest,
    MessageDifference,
    MessageHashes,
    differences,
    differing_blocks,
    digests_of,
    messages_of,
    queued,
)
from cometmq.offline.findings import Findings

BLOCKS_MAX = 64  # Number of differing blocks that are examined: 65,536 offsets.
SETTLED_MS = 1000  # If a copy is still being written, newer messages may not be everywhere yet.

AGAIN = "again "  # Prefix of the names of parts that are read a second time.

T = TypeVar("T")
Part = tuple[int, Any]
"""Of which copy (0: A, 1: B), and what of it."""
Row = list[Any]
"""Numbers and texts that JSON can hold."""


class PartRunner(Protocol):
    """Runs work on parts of copies, in this process or elsewhere."""

    def run(self, parts: Mapping[str, Part], work: Callable[[Part], list[Row]]) -> list[Row]:
        """Return the rows of the work on all parts; a runner may reuse rows that a killed run has recorded."""

    def look_again(self, blocks: Sequence[Block]) -> None:
        """Receive the blocks for which parts are about to be read a second time."""


class SequentialRunner:
    """Runs parts one after the other in this process, and calls `on_done` with each part that was read."""

    def __init__(self, on_done: Callable[[Part], None]) -> None:
        self._on_done = on_done

    def run(self, parts: Mapping[str, Part], work: Callable[[Part], list[Row]]) -> list[Row]:
        """Run the work on all parts and return the rows of all of them."""
        rows = []
        for part in parts.values():
            rows += work(part)
            self._on_done(part)
        return rows

    def look_again(self, blocks: Sequence[Block]) -> None:
        """Do nothing with the blocks that will be read again: a killed comparison starts again from the beginning."""


class CopyComparison(NamedTuple):
    """The result of comparing two copies.

    Attributes:
        rows: Number of compared messages of A and of B.
        queues: Number of queues with compared messages in either.
        blocks: Number of differing blocks of 1,024 offsets.
        differences: The offsets of the first 64 differing blocks at which the copies differ.
        notes: Names of the copies, and numbers of messages that were passed over (see `CompareCounts`).
        findings: A line for each queue and kind of difference, and one if there are blocks that were not examined.
        damages: Lines about damage in the logs: bytes that are no records, and bodies that cannot be decompressed.
    """

    rows: tuple[int, int]
    queues: int
    blocks: int
    differences: list[MessageDifference]
    notes: list[str]
    findings: list[str]
    damages: list[str]

    @property
    def is_same(self) -> bool:
        """Whether no block differs: the messages that were readable and compared have the same digests in both."""
        return not self.blocks

    @property
    def differing(self) -> int:
        """Number of known differences; a block that was not examined counts as one."""
        return len(self.differences) + max(self.blocks - BLOCKS_MAX, 0)


@dataclass
class CompareCounts:
    """The counts of a comparison, or of a part of one; pairs are for A and B.

    Attributes:
        passed_over: Messages that the other copy need not hold, that are of deleted topics, or that are too new.
        damages: Findings about damage in a part.
    """

    rows: list[int] = field(default_factory=lambda: [0, 0])
    passed_over: list[int] = field(default_factory=lambda: [0, 0])
    damages: Findings = field(default_factory=Findings)


@dataclass(frozen=True)
class CopyReading:
    """Reads two copies of messages part by part; picklable.

    Attributes:
        copies: The copies A and B, for example a store and an archive.
        coverage: The messages that each copy should hold.
        has_brokers: Whether both name the brokers of their queues.
        until_ms: Only messages stored before this time, ms since 1970; None for all.
        is_exact: Whether to compare values that a broker adds, and retry counts, too.
    """

    copies: tuple[MessageCopy, MessageCopy]
    coverage: tuple[Coverage, Coverage]
    has_brokers: bool
    until_ms: int | None
    is_exact: bool = False

    @classmethod
    def of(
        cls,
        one: MessageCopy,
        other: MessageCopy,
        until_ms: int | None,
        *,
        is_exact: bool = False,
    ) -> "CopyReading":
        """Create a reading of two copies; raises SettingsError if one names several brokers, and the other none."""
        brokers = one.brokers(), other.brokers()
        has_brokers = all(brokers)
        for copy, names in zip((one, other), brokers, strict=True):
            if len(names) > 1 and not has_brokers:
                raise SettingsError(
                    f"{copy.name} is on the brokers {', '.join(sorted(names))}, but the other side has only "
                    "one: name it with --broker"
                )
        coverage = one.coverage(), other.coverage()
        if not has_brokers:
            coverage = coverage[0].without_brokers(), coverage[1].without_brokers()
        return cls((one, other), coverage, has_brokers, until_ms, is_exact)

    def parts(self) -> dict[str, Part]:
        """Return the parts of both copies (such as ranges of a log) by name, prefixed with "A" or "B"."""
        return {
            f"{'AB'[side]} {name}": (side, part)
            for side, copy in enumerate(self.copies)
            for name, part in copy.parts().items()
        }

    def size_of(self, part: Part) -> int:
        """Return the size of a part, to show progress: bytes, or for a part of a topic its number of queue offsets."""
        return self.copies[part[0]].size_of(part[1])

    def read(self, part: Part, seen: CompareCounts) -> Iterator[pa.RecordBatch]:
        """Yield a part's messages to be compared; count these, those passed over, and a log's damage in `seen`."""
        side, piece = part
        for every in self.copies[side].read(piece, seen.damages.take):
            batch = queued(every)
            if not self.has_brokers:
                at = batch.schema.get_field_index("brokerName")
                blank = pa.repeat(pa.scalar("", pa.string()), batch.num_rows)
                batch = batch.set_column(at, batch.schema.field(at), blank)
            mine, other = self.coverage[side], self.coverage[1 - side]
            keep = other.holds(batch) & mine.is_alive(batch)
            # Both copies are of one log.
            if mine.physical is not None or other.physical is not None:
                keep &= other.is_alive(batch)
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
        """Return rows with a part's counts, digests and damages; each row has the copy's number, 0 or 1, first."""
        side, seen = part[0], CompareCounts()
        digests = digests_of(self.read(part, seen), is_exact=self.is_exact)
        counts = [side, seen.rows[side], seen.passed_over[side]]
        damages = ([side, str(each)] for each in seen.damages.told())
        return [counts, *([side, *each] for each in digests), *damages]

    def messages(self, part: Part, blocks: AbstractSet[Block]) -> list[Row]:
        """Return the field hashes of a part's messages in the given blocks, as rows with the copy's number first."""
        seen = messages_of(self.read(part, CompareCounts()), blocks, is_exact=self.is_exact)
        return [[part[0], *each[:4], list(each.fields)] for each in seen]


def compare(reading: CopyReading, runner: PartRunner) -> CopyComparison:
    """Read both copies and return how they differ: the messages only for the first 64 differing blocks."""
    parts = reading.parts()
    seen, digests, damages = CompareCounts(), _Both[BlockDigest](), _Both[str]()
    for side, *found in runner.run(parts, reading.digest):
        if len(found) == len(BlockDigest._fields):
            digests.of[side].append(BlockDigest(*found))
        elif len(found) == 1:
            damages.of[side].extend(found)
        else:
            seen.rows[side] += found[0]
            seen.passed_over[side] += found[1]
    blocks = differing_blocks(*digests.of)
    differing = _look_into(runner, reading, parts, blocks[:BLOCKS_MAX])
    findings = list(_findings(differing))
    if len(blocks) > BLOCKS_MAX:
        findings.append(
            f"{len(blocks) - BLOCKS_MAX} more blocks of {BLOCK_OFFSETS} offsets differ, but were not "
            "compared in detail"
        )
    queues = {each[:3] for side in digests.of for each in side}
    return CopyComparison(
        rows=(seen.rows[0], seen.rows[1]),
        queues=len(queues),
        blocks=len(blocks),
        differences=differing,
        notes=list(_notes(reading, seen)),
        findings=findings,
        damages=[f"{'AB'[side]}: {each}" for side in (0, 1) for each in damages.of[side]],
    )


def compare_folders(
    first: str,
    second: str,
    *,
    clock: Clock,
    is_exact: bool = False,
    on_progress: Callable[[int, int], None] = lambda _done, _size: None,
) -> CopyComparison:
    """Compare two stores or archives part by part; if a store has an `abort` file, only messages older than a second.

    Args:
        first: A folder or URI, called A in the result.
        second: The other one, called B.
        clock: Provides the time.
        is_exact: Also compare what brokers add, such as hosts, store times, physical offsets and retry counts.
        on_progress: Called with the bytes of the parts read so far, at most the total, and the total.

    Raises:
        SettingsError: One is no readable store or archive, or one names several brokers and the other none.
        StoreDamaged: For example, a store has no log, or a file of an archive is damaged.
        OSError: A file cannot be read.
    """
    columns = COMPARED_EXACTLY if is_exact else COMPARED
    one, other = (folder_copy(each, columns=columns) for each in (first, second))
    reading = CopyReading.of(one, other, settled_until([one, other], clock), is_exact=is_exact)
    total, done = sum(map(reading.size_of, reading.parts().values())), 0

    def count(part: Part) -> None:
        nonlocal done
        done = min(done + reading.size_of(part), total)
        on_progress(done, total)

    return compare(reading, SequentialRunner(count))


def settled_until(copies: Sequence[MessageCopy], clock: Clock) -> int | None:
    """Return the store time in ms before which messages are compared, a second ago; None if no copy is live."""
    is_live = any(copy.is_live() for copy in copies)
    return clock.now_ms() - SETTLED_MS if is_live else None


class _Both(Generic[T]):
    def __init__(self) -> None:
        self.of: tuple[list[T], list[T]] = ([], [])


def _look_into(
    runner: PartRunner,
    reading: CopyReading,
    parts: Mapping[str, Part],
    blocks: Sequence[Block],
) -> list[MessageDifference]:
    if not blocks:
        return []
    runner.look_again(blocks)
    wanted = frozenset(blocks)
    again = {
        f"{AGAIN}{name}": part
        for name, part in parts.items()
        if reading.copies[part[0]].may_have(part[1], wanted)
    }
    messages = _Both[MessageHashes]()
    for side, topic, broker, queue_id, offset, fields in runner.run(
        again, lambda part: reading.messages(part, wanted)
    ):
        messages.of[side].append(MessageHashes(topic, broker, queue_id, offset, tuple(fields)))
    return differences(*messages.of)


def _notes(reading: CopyReading, seen: CompareCounts) -> Iterator[str]:
    for side, copy in enumerate(reading.copies):
        yield f"{'AB'[side]} is {copy.name}"
        if seen.passed_over[side]:
            yield (
                f"{seen.passed_over[side]:,} {plural(seen.passed_over[side], 'message')} of {'AB'[side]} "
                f"{plural(seen.passed_over[side], 'was', 'were')} not compared: the other "
                "side has no messages of that age, does not have them yet, or they are too new"
            )


def _findings(found: Sequence[MessageDifference]) -> Iterator[str]:
    counts = Counter((each[:3], each.what.partition(" in ")[0]) for each in found)
    for ((topic, broker, queue_id), what), count in sorted(counts.items()):
        where = f"{topic}@{broker}" if broker else topic
        yield f"{where}:{queue_id}: {count:,} {plural(count, 'message')}: {what}"
