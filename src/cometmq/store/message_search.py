"""Messages by key: what the index finds, read from the log.

The index gives at most so many offsets, the newest; the messages come in the order of the log,
as DefaultMessageStore.queryMessage of RocketMQ 5.3.3 has them. Those under other keys of the same
hash are among them: whoever asks compares.
"""

from collections.abc import Callable
from typing import NamedTuple

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
        *,
        bytes_max: int,
    ) -> None:
        """`bytes_max` bounds the records together; the newest are kept."""
        self._search = search
        self._read_record = read_record
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
            record = self._read_record(offset)
            if record is None:  # Its log file is deleted.
                continue
            size += len(record)
            if size > self._bytes_max and records:
                break
            records.append(record)
        records.reverse()
        return FoundMessages(records, last_ms, last_offset)
