"""Divides the log into splits that tasks read independently, with every record in exactly one split.

A split [lo, hi) of a file owns the records that start in it. A reader that begins in the middle of a file searches for
the first place from lo on that proves to be a record (`proven_places`). The reader of the previous split walks from
record to record until it is at or after hi, and checks that the next split does not begin before that.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from struct import Struct

from cometmq.codec.record import MAGIC_AT, PHYSICAL_OFFSET_AT
from cometmq.kernel import MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN
from cometmq.offline.folder import ListedFile

# Bytes of a record needed to prove it: up to its physical offset.
PROOF_SIZE = PHYSICAL_OFFSET_AT + 8
_SIZE = Struct(">i")
_OFFSET = Struct(">q")
_MAGICS = tuple(magic.to_bytes(4) for magic in (MAGIC_V1, MAGIC_V2))
_PREFIX = _MAGICS[0][:3]  # Common to both.


@dataclass(frozen=True)
class Split:
    """The records of a log file that start in a range.

    Attributes:
        lo: Physical offset of the range's start.
        hi: Physical offset of the range's end.
        stop: Physical offset at which to end the log, whatever follows; None for its real end.
        is_behind_record: Whether a walk begins at lo without a search, because a record usually ends there.
    """

    file: ListedFile
    lo: int
    hi: int
    stop: int | None = None
    is_behind_record: bool = False

    @property
    def is_whole_begin(self) -> bool:
        """Whether a walk begins at lo without a search for a record: the file begins there, or `is_behind_record`."""
        return self.lo == self.file.start or self.is_behind_record


def cut(files: Sequence[ListedFile], split_bytes: int) -> list[Split]:
    """Return splits of at most `split_bytes` that cover all log files."""
    return [
        Split(file, lo, min(lo + split_bytes, file.end))
        for file in files
        for lo in range(file.start, file.end, split_bytes)
    ]


def between(splits: Sequence[Split], start: int | None, end: int | None) -> list[Split]:
    """Return the parts of splits that are in [start, end); `end` becomes the `stop` of those in the file of `end`."""
    kept = []
    for split in splits:
        lo = split.lo if start is None else max(split.lo, start)
        hi = split.hi if end is None else min(split.hi, end)
        if lo < hi:
            is_in_file = end is not None and end <= split.file.end
            kept.append(replace(split, lo=lo, hi=hi, stop=end if is_in_file else split.stop))
    return kept


def joined(splits: Sequence[Split], task_bytes: int) -> list[tuple[Split, ...]]:
    """Group successive splits into tasks of at most `task_bytes`, or one larger split."""
    tasks: list[list[Split]] = []
    room = 0
    for split in splits:
        size = split.hi - split.lo
        if not tasks or size > room:
            tasks.append([])
            room = task_bytes
        tasks[-1].append(split)
        room -= size
    return [tuple(task) for task in tasks]


def proven_places(piece: bytes, offset: int, file_end: int) -> Iterator[int]:
    """Yield the positions in a piece of the log at which a record seems to start, in order.

    The signs are a magic number, a size that fits, and the physical offset of the position.

    Args:
        piece: Bytes of the log.
        offset: Physical offset of the first byte.
        file_end: Physical offset of the file's end, which no record crosses.
    """
    at = -1
    while (at := piece.find(_PREFIX, at + 1)) >= 0:
        place = at - MAGIC_AT
        if place < 0 or place + PROOF_SIZE > len(piece) or piece[at : at + 4] not in _MAGICS:
            continue
        (size,) = _SIZE.unpack_from(piece, place)
        (said,) = _OFFSET.unpack_from(piece, place + PHYSICAL_OFFSET_AT)
        fits = RECORD_SIZE_MIN <= size <= file_end - offset - place
        if said == offset + place and fits:
            yield place
