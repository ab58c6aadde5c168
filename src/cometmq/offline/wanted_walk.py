"""Walks the log for what its records ask for: entries of queues, of batch queues, and of the index.

Plain records are the kernel's; each of the others goes through `valid_record`, and is given to the
checks by itself. Entries of queues gather where `QueueCheck` compares them; those of the index
come out piece by piece, in the order of the log.
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
    """The index keys that the records of a piece of the log need.

    Attributes:
        records: how many there are.
        end: physical offset behind the last.
        keys: of the index, each as `kernel.wanted.KEY` packs it.
    """

    records: int
    end: int
    keys: bytearray


class WantedWalk:
    """One walk over a log that is compared with everything made from it."""

    def __init__(
        self, queues: QueueCheck | None, batches: BatchCheck, *, is_whole_checked: bool
    ) -> None:
        """Begin one.

        Args:
            queues: None where nothing is compared with them.
            batches: batch queues.
            is_whole_checked: what a valid record is (`valid_record`).
        """
        self._queues = queues
        self._batches = batches
        self._wanted: Wanted = queues.wanted if queues is not None else {}
        self._is_whole_checked = is_whole_checked

    def take(self, chunk: bytes, offset: int) -> tuple[WantedPiece, int, int, WalkEnd]:
        """The valid records that a piece of the log begins with (see `log_scan.Walk`)."""
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
        """Collect the needs of a record that the kernel does not take."""
        if self._queues is not None:
            self._queues.take(record)
        self._batches.take(record)
        found = record_keys((record,))
        for code, offset in zip(found[0::3], found[1::3], strict=True):
            keys += KEY.pack(offset, index_hash(code))
