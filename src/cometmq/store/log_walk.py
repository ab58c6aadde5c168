"""Reads a log from record to record, one piece at a time: for recoveries, truncations and features' builders."""

from typing import NamedTuple

from cometmq.kernel import WalkEnd
from cometmq.store.batch import Batch, RawRecords, raw_batch
from cometmq.store.log_file import LogFile
from cometmq.store.whole_records import Check

PIECE_SIZE = 1 << 20


class CheckedPiece(NamedTuple):
    """Some records of a log file.

    Attributes:
        end: Physical offset of their end.
        batch: The records, checked; None if there are none.
        why: Reason why the piece ends there.
        is_last: Whether there are no records, or what follows them is not one, not even a part of one.
    """

    end: int
    batch: Batch | None
    why: WalkEnd
    is_last: bool


def read_piece(check: Check, file: LogFile, position: int, end: int) -> CheckedPiece:
    """Read and check the records of a log file from `position` on, at most about 1 MiB or one longer record.

    Both offsets are physical. May block, and raise OSError; any thread.
    """
    size = min(PIECE_SIZE, end - position)
    while True:
        chunk = file.read(position, size)
        walked, kinds, store_ms, why = check(chunk, position)
        wanted = min(int.from_bytes(chunk[:4]), end - position)
        if walked or why is not WalkEnd.SHORT or wanted <= size:
            break
        size = wanted  # The first record is longer.
    is_last = not walked or why not in (WalkEnd.WHOLE, WalkEnd.SHORT)
    batch = raw_batch(RawRecords(position, chunk[:walked], kinds), store_ms) if walked else None
    return CheckedPiece(position + walked, batch, why, is_last)
