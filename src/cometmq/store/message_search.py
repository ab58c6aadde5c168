"""Messages by key: what the index finds, read from the log.

The newest messages come, in the order of the log, as DefaultMessageStore.queryMessage of RocketMQ 5.3.3 has
them. Messages under other keys of the same hash are among them: the caller compares keys.

Differs: RocketMQ compares the times of the index, which are rounded down to seconds, so that a message is
missing that was stored in the first second behind the begin. Here the record's own store time counts.
"""

from collections.abc import Callable
from typing import NamedTuple

from cometmq.codec.record import store_time
from cometmq.store.index_search import IndexSearch


class FoundMessages(NamedTuple):
    """The result of a search by key.

    Attributes:
        records: the records, the oldest first.
        last_ms: store time of the newest record indexed, ms.
        last_offset: its physical offset.
    """

    records: list[bytes]
    last_ms: int
    last_offset: int


class MessageSearch:
    """A search that has been prepared; `run` may wait for the device. Any thread, once."""

    def __init__(
        self,
        search: IndexSearch,
        read_record: Callable[[int], bytes | None],
        times_ms: range,
        *,
        count_max: int,
        bytes_max: int,
    ) -> None:
        """Bound the answer: the newest records are kept.

        Args:
            search: finds the candidates.
            read_record: gives the record at a physical offset; None if it was deleted.
            times_ms: the store times that are wanted.
            count_max: most records.
            bytes_max: most bytes of all records together, but for the first.
        """
        self._search = search
        self._read_record = read_record
        self._times_ms = times_ms
        self._count_max = count_max
        self._bytes_max = bytes_max

    def run(self) -> FoundMessages:
        """Find and read them.

        Raises:
            OSError: the disk failed.
        """
        offsets, last_ms, last_offset = self._search.run()
        records: list[bytes] = []
        size = 0
        for offset in offsets:
            if len(records) >= self._count_max:
                break
            record = self._read_record(offset)
            if record is None:  # Its log file is deleted.
                continue
            if store_time(record) not in self._times_ms:
                continue
            size += len(record)
            if size > self._bytes_max and records:
                break
            records.append(record)
        records.reverse()
        return FoundMessages(records, last_ms, last_offset)
