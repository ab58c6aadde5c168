"""The log cut into pieces that tasks read, each alone, and every record in exactly one.

A split [lo, hi) of a file owns the records that start in it. A reader that begins in the middle
of a file looks for the first place from lo on that proves to be a record (`proven_places`); the reader of
the split before walks from record to record until it stands at or behind hi, and checks that its
neighbour has begun at the very same place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from struct import Struct

from cometmq.codec.record import MAGIC_AT, PHYSICAL_OFFSET_AT
from cometmq.kernel import MAGIC_V1, MAGIC_V2, RECORD_SIZE_MIN
from cometmq.offline.folder import ListedFile

SPLIT_BYTES = 128 << 20
PROOF_SIZE = (
    PHYSICAL_OFFSET_AT + 8
)  # Bytes of a record that prove it: up to its physical offset.
_SIZE = Struct(">i")
_OFFSET = Struct(">q")
_MAGICS = tuple(magic.to_bytes(4) for magic in (MAGIC_V1, MAGIC_V2))
_PREFIX = _MAGICS[0][:3]  # What both have in common.


@dataclass(frozen=True)
class Split:
    """The records of a file that start in a range.

    Attributes:
        file: the file.
        lo: physical offset of the range's begin.
        hi: and of its end.
        stop: physical offset at which the log is to end, whatever stands behind; None: where it ends.
        is_behind_record: a record ends at lo.
    """

    file: ListedFile
    lo: int
    hi: int
    stop: int | None = None
    is_behind_record: bool = False

    @property
    def is_whole_begin(self) -> bool:
        """Whether a record must start at lo: the file begins there, or a record ends."""
        return self.lo == self.file.start or self.is_behind_record


def cut(files: Sequence[ListedFile], split_bytes: int) -> list[Split]:
    """Splits of at most so many bytes that cover all files."""
    return [
        Split(file, lo, min(lo + split_bytes, file.end))
        for file in files
        for lo in range(file.start, file.end, split_bytes)
    ]


def between(splits: Sequence[Split], start: int | None, end: int | None) -> list[Split]:
    """The parts of the splits within [start, end): records that start there.

    The log is to end at `end`: what stands behind is nobody's concern.
    """
    kept = []
    for split in splits:
        lo = split.lo if start is None else max(split.lo, start)
        hi = split.hi if end is None else min(split.hi, end)
        if lo < hi:
            is_in_file = end is not None and end <= split.file.end
            kept.append(replace(split, lo=lo, hi=hi, stop=end if is_in_file else split.stop))
    return kept


def joined(splits: Sequence[Split], task_bytes: int) -> list[tuple[Split, ...]]:
    """Splits in tasks: small neighbours together, up to so many bytes. A task costs 30 ms."""
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
    """The places in a piece where records start that prove themselves, in order.

    A magic counts if the record says of itself that it lies where it does.

    Args:
        piece: bytes of the log.
        offset: physical offset of the first.
        file_end: physical offset behind the file, which no record crosses.
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
