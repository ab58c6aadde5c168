"""Walks the log for what its records require: entries of queues, of batch queues, and of the index.

The kernel processes simple records (none if property CRCs are checked, or queues are not compared); each other record
is read by `valid_record` and passed to the checks individually. `QueueCheck` collects and compares the queue entries.
Index keys are returned in log order.
"""

from typing import NamedTuple

from cometmq.codec.record import Record
from cometmq.kernel import WalkEnd, record_keys, wanted_entries
from cometmq.kernel.rows import Wanted
from cometmq.kernel.wanted import KEY, index_hash
from cometmq.offline.batch_check import BatchCheck
from cometmq.offline.queue_check import QueueCheck
from cometmq.store.record_walk import why_not_further
from cometmq.store.stored_record import valid_record


class WantedPiece(NamedTuple):
    """The index keys that the records of a piece of the log require.

    Attributes:
        records: Number of records.
        end: Physical offset of the end of the last record.
        keys: Index keys, each packed as `kernel.wanted.KEY`.
    """

    records: int
    end: int
    keys: bytearray


class WantedWalk:
    """One walk over a log that is compared with its queues, batch queues and index."""

    def __init__(
        self, queues: QueueCheck | None, batches: BatchCheck, *, is_whole_checked: bool
    ) -> None:
        """Create a walk; without `queues` these are not compared. `is_whole_checked`: check property CRCs, too."""
        self._queues = queues
        self._batches = batches
        self._wanted: Wanted = queues.wanted if queues is not None else {}
        self._is_whole_checked = is_whole_checked

    def take(self, chunk: bytes, offset: int) -> tuple[WantedPiece, int, int, WalkEnd]:
        """Process the valid records at the start of a piece of the log.

        Returns their index keys, their number, their end position in the piece, and why the walk ended there.
        """
        keys = bytearray()
        position = count = 0
        while True:
            if not self._is_whole_checked:
                position, plain = wanted_entries(chunk, position, offset, self._wanted, keys)
                count += plain
            record = self._valid_record(chunk, position, offset + position)
            if record is None:
                break
            self._take_one(record, keys)
            position += record.store_size
            count += 1
        if self._queues is not None:
            self._queues.compare_many(count)
        piece = WantedPiece(count, offset + position, keys)
        return piece, count, position, why_not_further(chunk, position)

    def _valid_record(self, chunk: bytes, position: int, offset: int) -> Record | None:
        return valid_record(chunk, position, offset, is_whole_checked=self._is_whole_checked)

    def _take_one(self, record: Record, keys: bytearray) -> None:
        if self._queues is not None:
            self._queues.take(record)
        self._batches.take(record)
        found = record_keys((record,))
        for code, offset in zip(found[0::3], found[1::3], strict=True):
            keys += KEY.pack(offset, index_hash(code))
