"""The index in the verification of a store: each split's keys against the entries that point into it.

Entries stand in the order of the log, so those of a split are found by halving. That the chains lead
through their entries, and that these are in order, a task for each file looks at. Of a local store only.

Next: cometmq.offline.index_check
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cometmq.codec.index_file import (
    INDEX_ENTRY_SIZE,
    INDEX_HEADER_SIZE,
    decode_header,
    entry_position,
)
from cometmq.kernel.wanted import KEY
from cometmq.offline.findings import Finding, Findings
from cometmq.offline.folder import INDEX_NAME_DIGITS, StoreFolder
from cometmq.offline.index_check import file_keys
from cometmq.offline.index_shape import find_shape
from cometmq.offline.rebuild_keys import Keys
from cometmq.store.real_disk import RealDisk

_PLACED = np.dtype([("offset", ">i8"), ("hash", ">i4")])
_ENTRY = np.dtype([("hash", ">i4"), ("offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4")])
assert (_PLACED.itemsize, _ENTRY.itemsize) == (KEY.size, INDEX_ENTRY_SIZE)
_INT_LIMIT = 1 << 31

Placed = npt.NDArray[np.void]
"""Physical offset and hash of keys, in this order."""


class IndexPart(NamedTuple):
    """An index file that has entries; picklable.

    Attributes:
        path: where it is.
        slots: how many it has; 0 where its size fits no shape.
        entries: how many are in use.
        begin: physical offset of the first entry's record.
        size: bytes of the file.
    """

    path: str
    slots: int
    entries: int
    begin: int
    size: int


def index_parts(folder: StoreFolder) -> list[IndexPart]:
    """The index files with entries, the oldest first; none where the store is not of this machine.

    Raises:
        OSError: a file cannot be read.
    """
    found: list[IndexPart] = []
    if not folder.is_local:
        return found
    disk = RealDisk()
    for each in folder.numbered(folder.path("index"), INDEX_NAME_DIGITS):
        fd = disk.open(each.path, write=False)
        try:
            header = decode_header(disk.pread(fd, INDEX_HEADER_SIZE, 0))
            if header.index_count > 1:
                shape = find_shape(disk, fd, header)
                slots = shape.slots if shape else 0
                # A damaged header may count more than there is room for.
                room = shape.entries if shape else 0
                count = min(header.index_count, room) - 1
                found.append(IndexPart(each.path, slots, count, header.begin_offset, each.size))
        finally:
            disk.close(fd)
    return found


def file_findings(part: IndexPart, *, is_closed: bool) -> list[Finding]:
    """What is wrong with an index file itself: its chains, its slots, its order.

    Raises:
        OSError: it cannot be read.
    """
    findings = Findings()
    last = -1
    for keys in file_keys(RealDisk(), part.path, findings, is_clean=is_closed):
        offsets = np.frombuffer(keys, _PLACED)["offset"].astype(np.int64)
        if len(offsets) and (offsets[0] < last or (np.diff(offsets) < 0).any()):
            findings.add("index", part.path, "its entries are not in the order of the log")
            break
        last = int(offsets[-1]) if len(offsets) else last
    return findings.kept


def pointing(parts: Sequence[IndexPart], lo: int, hi: int) -> Placed:
    """The entries that point into [lo, hi) of the log, sorted.

    Raises:
        OSError: a file cannot be read.
    """
    pieces = []
    for part, following in pairwise([*parts, None]):
        is_before = following is not None and following.begin < lo
        if part is None or not part.slots or part.begin >= hi or is_before:
            continue
        entries = np.memmap(
            part.path, _ENTRY, "r", entry_position(1, part.slots), (part.entries,)
        )
        first = int(np.searchsorted(entries["offset"], lo))
        end = first + int(np.searchsorted(entries["offset"][first:], hi))
        pieces.append(_placed(entries["offset"][first:end], entries["hash"][first:end]))
    return _sorted(pieces)


def wanted(keys: Sequence[Keys], begin: int) -> Placed:
    """The keys of records from where on there is an index, with hashes as it has them, sorted.

    IndexFile.indexKeyHashMethod of RocketMQ 5.3.3: the absolute value; the least int, which has none, is 0.
    """
    pieces = []
    for each in keys:
        hashes = np.abs(each["hash"].astype(np.int64))
        hashes[hashes == _INT_LIMIT] = 0
        later = each["offset"] >= begin
        pieces.append(_placed(each["offset"][later], hashes[later]))
    return _sorted(pieces)


def _placed(offsets: npt.NDArray[np.int64], hashes: npt.NDArray[np.int64]) -> Placed:
    found = np.empty(len(offsets), _PLACED)
    found["offset"], found["hash"] = offsets, hashes
    return found


def _sorted(pieces: Sequence[Placed]) -> Placed:
    every = np.concatenate(pieces) if pieces else np.empty(0, _PLACED)
    found: Placed = every[np.lexsort((every["hash"], every["offset"]))]
    return found


class Compared(NamedTuple):
    """The keys and the entries of a split.

    Attributes:
        alike: entries that are keys of their records.
        strays: (offset, hash) of entries that are none.
        missing: how many keys have no entry.
        first_missing: physical offset of the first such record; -1: none is missing.
    """

    alike: int
    strays: list[tuple[int, int]]
    missing: int
    first_missing: int


def compared(asked: Placed, stored: Placed) -> Compared:
    """Both as multisets."""
    if asked.tobytes() == stored.tobytes():
        return Compared(len(stored), [], 0, -1)
    strays = list(_beyond(stored, asked))
    missing = list(_beyond(asked, stored))
    first = missing[0][0] if missing else -1
    return Compared(len(stored) - len(strays), strays, len(missing), first)


def _beyond(some: Placed, others: Placed) -> Iterator[tuple[int, int]]:
    """What is in `some` more often than in `others`."""
    counts: dict[tuple[int, int], int] = {}
    for key in others.tolist():
        counts[key] = counts.get(key, 0) + 1
    for key in some.tolist():
        if counts.get(key, 0):
            counts[key] -= 1
        else:
            yield key
