"""Is a store sound? Each split of the log alone: its records, and the queues beside them, both ways.

A split's records ask for entries (`packed`); the queues hold entries that point into the split. Both
must be the same. Chains of sizes, CRCs of bodies and places are looked at on the way, and where the rules
name index files, the keys and the entries of the index.

Next: cometmq.offline.packed
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

import numpy as np

from cometmq.codec.other_queues import is_extended_address
from cometmq.codec.record import PHYSICAL_OFFSET_AT
from cometmq.offline.columns.window import Longs, RecordWindow
from cometmq.offline.folder import StoreFolder
from cometmq.offline.packed import ENTRY, Entries, Packer
from cometmq.offline.plan import Task
from cometmq.offline.queue_reader import (
    QueueEntries,
    QueueFile,
    first_place,
    queue_files,
    read_queue_file,
)
from cometmq.offline.rebuild_keys import Keys, window_keys
from cometmq.offline.rows import sound_bodies
from cometmq.offline.scan import Damage, scan
from cometmq.offline.splits import Split
from cometmq.spark.store.verify_index import (
    IndexPart,
    compared,
    file_findings,
    pointing,
    wanted,
)

FINDINGS_MAX = 20  # Of one queue in one split; the rest is counted.
_NOTHING = QueueEntries(np.zeros(0, np.int64), np.zeros(0, ENTRY))
_EVERYWHERE = 2**63 - 1

Queue = tuple[str, int]


class Found(NamedTuple):
    """A row of the verdict: a split that was looked at, or one thing that is wrong in it.

    Attributes:
        part: split, log or queue.
        place: a file and a place in it, or a queue and an offset.
        finding: what is wrong, in words; of a split None.
        is_error: False for what the next start of the broker puts right.
        messages: of a split: sound records.
        size: of a split: their bytes.
        queue_entries: of a split: entries that are as the log has them.
        index_entries: of a split: entries of the index that are keys of their records.
    """

    part: str
    place: str
    finding: str | None = None
    is_error: bool = False
    messages: int = 0
    size: int = 0
    queue_entries: int = 0
    index_entries: int = 0


@dataclass(frozen=True)
class VerifyRules:
    """What is known of the store; picklable.

    Attributes:
        delay_levels_ms: the delay of each level, ms (messageDelayLevel).
        is_closed: it was closed in order; else entries may be missing, which a start puts right.
        index: its index files; none: the index is not looked at.
    """

    delay_levels_ms: tuple[int, ...]
    is_closed: bool = True
    index: tuple[IndexPart, ...] = ()


def verify_task(folder: StoreFolder, task: Task, rules: VerifyRules) -> Iterator[Found]:
    """Look at a part of the log and at the queue entries that point into it.

    Raises:
        OSError: a file cannot be read.
    """
    files = {
        queue: list(of) for queue, of in groupby(queue_files(folder), lambda file: file[:2])
    }
    for split in task:
        yield from _SplitCheck(folder, split, rules).run(files)


def verify_index_file(part: IndexPart, rules: VerifyRules) -> list[Found]:
    """Look at an index file itself: its chains, its slots, the order of its entries.

    Raises:
        OSError: it cannot be read.
    """
    found = file_findings(part, is_closed=rules.is_closed)
    return [Found(each.part, each.where, each.what, each.is_error) for each in found]


class _SplitCheck:
    """One split."""

    def __init__(self, folder: StoreFolder, split: Split, rules: VerifyRules) -> None:
        self._folder = folder
        self._split = split
        self._rules = rules
        self._packer = Packer(rules.delay_levels_ms)
        self._keys: list[Keys] = []
        self._messages = self._size = self._entries = 0

    def run(self, files: dict[tuple[str, int], list[QueueFile]]) -> Iterator[Found]:
        split = self._split
        for found in scan(self._folder, split):
            if isinstance(found, Damage):
                place = f"{found.path} at byte {found.at}"
                yield Found("log", place, _damage_text(found), is_error=True)
            else:
                yield from self._look(found.window, found.path)
        wanted: dict[Queue, list[QueueEntries]] = {}
        for run in self._packer.runs():
            piece = QueueEntries(np.arange(run.first, run.end), run.entries)
            wanted.setdefault((run.topic, run.queue_id), []).append(piece)
        for queue in sorted(wanted.keys() | files.keys()):
            stored = self._pointing(files.get(queue, []))
            yield from self._compare(queue, _joined(wanted.get(queue, [])), stored)
        place = f"{split.file.path} from byte {split.lo - split.file.start}"
        index = yield from self._look_at_index(place)
        yield Found(
            "split",
            place,
            messages=self._messages,
            size=self._size,
            queue_entries=self._entries,
            index_entries=index,
        )

    def _look_at_index(self, place: str) -> Generator[Found, None, int]:
        """The index entries that point into the split; gives how many are as they should be."""
        parts = self._rules.index
        if not parts:
            return 0
        split = self._split
        hi = _EVERYWHERE if self._is_end else split.hi
        found = compared(wanted(self._keys, parts[0].begin), pointing(parts, split.lo, hi))
        for offset, code in found.strays[:FINDINGS_MAX]:
            what = f"an entry of hash {code} is no key of a record at {offset}"
            error = offset < split.hi or self._rules.is_closed
            yield Found("index", f"offset {offset}", what, is_error=error)
        if len(found.strays) > FINDINGS_MAX:
            rest = f"{len(found.strays) - FINDINGS_MAX} more such entries"
            yield Found("index", place, rest, is_error=True)
        if found.missing:
            what = f"{found.missing} keys have no entry, the first of the record at {found.first_missing}"
            yield Found("index", place, what, is_error=self._rules.is_closed)
        return found.alike

    def _look(self, window: RecordWindow, path: str) -> Iterator[Found]:
        self._messages += len(window)
        self._size += int(window.int32(0).sum())
        self._packer.take(window)
        if self._rules.index:
            self._keys.append(window_keys(window))
        for row in np.flatnonzero(~sound_bodies(window)).tolist():
            at = int(window.int64(PHYSICAL_OFFSET_AT)[row]) - self._split.file.start
            yield Found(
                "log", f"{path} at byte {at}", "the body's CRC is another", is_error=True
            )

    @property
    def _is_end(self) -> bool:
        """Whether nothing of the log is behind the split."""
        split = self._split
        return split.file.is_last and split.stop is None and split.hi == split.file.end

    def _pointing(self, files: Sequence[QueueFile]) -> QueueEntries:
        """The entries of a queue that point into the split."""
        lo, hi = self._split.lo, _EVERYWHERE if self._is_end else self._split.hi
        pieces = []
        for number, file in enumerate(files):
            begins = first_place(self._folder, file.path)
            following = files[number + 1].path if number + 1 < len(files) else None
            ends = first_place(self._folder, following) if following else 0
            # A blank first entry says nothing of where the others point.
            if begins >= hi or 0 < ends <= lo:
                continue
            found = read_queue_file(self._folder, file)
            into = (found.entries["offset"] >= lo) & (found.entries["offset"] < hi)
            if into.any():
                pieces.append(QueueEntries(found.offsets[into], found.entries[into]))
        return _joined(pieces)

    def _compare(
        self, queue: Queue, wanted: QueueEntries, stored: QueueEntries
    ) -> Iterator[Found]:
        """Both as they should be, or how they differ."""
        if np.array_equal(wanted.offsets, stored.offsets) and _same(wanted, stored):
            self._entries += len(wanted.offsets)
            return
        asked, there = _by_offset(wanted), _by_offset(stored)
        told, is_any_error = 0, False
        for offset in sorted(asked.keys() | there.keys()):
            what = _difference(asked.get(offset, ()), there.get(offset, ()))
            if what is None:
                self._entries += 1
                continue
            told += 1
            is_any_error |= offset in there
            if told <= FINDINGS_MAX:
                yield self._finding(queue, f" offset {offset}", what, is_error=offset in there)
        if told > FINDINGS_MAX:
            rest = f"{told - FINDINGS_MAX} more such entries"
            yield self._finding(queue, "", rest, is_error=is_any_error)

    def _finding(self, queue: Queue, at: str, what: str, *, is_error: bool) -> Found:
        error = is_error or self._rules.is_closed
        return Found("queue", f"{queue[0]}/{queue[1]}{at}", what, is_error=error)


Entry = tuple[int, int, int]


def _difference(asked: Sequence[Entry], there: Sequence[Entry]) -> str | None:
    """How the entries of one queue offset differ; None where they do not."""
    if len(asked) > 1:
        return f"{len(asked)} records of the log are this message: at {[each[0] for each in asked]}"
    if not there:
        return f"the record at {asked[0][0]} has no entry"
    if not asked:
        return f"points at {there[0][0]}, where no record of this queue begins"
    if len(there) == 1 and _is_same(asked[0], there[0]):
        return None
    return f"is {there[0]}, the log says {asked[0]}"


def _is_same(asked: Entry, there: Entry) -> bool:
    return asked == there or (asked[:2] == there[:2] and is_extended_address(there[2]))


def _same(wanted: QueueEntries, stored: QueueEntries) -> bool:
    return wanted.entries.tobytes() == stored.entries.tobytes()


def _by_offset(found: QueueEntries) -> dict[int, list[Entry]]:
    entries: dict[int, list[Entry]] = {}
    for offset, entry in zip(found.offsets.tolist(), found.entries.tolist(), strict=True):
        entries.setdefault(offset, []).append(entry)
    return entries


def _joined(pieces: Sequence[QueueEntries]) -> QueueEntries:
    if not pieces:
        return _NOTHING
    offsets: Longs = np.concatenate([piece.offsets for piece in pieces])
    entries: Entries = np.concatenate([piece.entries for piece in pieces])
    return QueueEntries(offsets, entries)


def _damage_text(damage: Damage) -> str:
    return f"{damage.end - damage.start} bytes are no record: {damage.why}"


@dataclass(frozen=True)
class Total:
    """The verdicts of all splits together.

    Attributes:
        messages: sound records.
        size: their bytes.
        queue_entries: entries that are as the log has them.
        index_entries: entries of the index that are keys of their records.
        errors: what is wrong.
        notes: what the next start of the broker puts right.
    """

    messages: int
    size: int
    queue_entries: int
    index_entries: int
    errors: tuple[Found, ...]
    notes: tuple[Found, ...]

    @classmethod
    def of(cls, rows: Iterable[Found]) -> "Total":
        """Add up."""
        every = list(rows)
        findings = [row for row in every if row.finding is not None]
        return cls(
            sum(row.messages for row in every),
            sum(row.size for row in every),
            sum(row.queue_entries for row in every),
            sum(row.index_entries for row in every),
            tuple(row for row in findings if row.is_error),
            tuple(row for row in findings if not row.is_error),
        )
