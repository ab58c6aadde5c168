"""Finds messages by key: candidates from the index, read from the log.

Returns the newest messages in log order, as DefaultMessageStore.queryMessage of RocketMQ 5.3.3 does. They may include
messages with other keys or topics of the same hash: the caller compares them. One difference: RocketMQ compares the
index's times, which are rounded down to seconds, and may miss messages stored in the first second after the begin. Here
the record's store time counts.
"""

from typing import NamedTuple, Protocol

from cometmq.codec.record import store_time
from cometmq.store.index_search import IndexSearch


class ReadRecord(Protocol):
    """Reads the record at a physical offset (see `ReadSide.read_record`)."""

    def __call__(self, physical_offset: int, /, *, may_wait: bool) -> bytes | None: ...  # noqa: D102


class FoundMessages(NamedTuple):
    """The result of a search by key.

    Attributes:
        records: Records, oldest first.
        last_ms: Store time of the newest indexed record, ms; 0 if there is none.
        last_offset: Physical offset of the newest indexed record; 0 if there is none.
    """

    records: list[bytes]
    last_ms: int
    last_offset: int


class MessageSearch:
    """A prepared search of messages by key."""

    def __init__(
        self,
        search: IndexSearch,
        read_record: ReadRecord,
        times_ms: range,
        *,
        count_max: int,
        bytes_max: int,
    ) -> None:
        """Create a search for records with these store times (ms).

        If more are found than the limits allow, `run` returns the newest; the newest one alone may exceed `bytes_max`.
        """
        self._search = search
        self._read_record = read_record
        self._times_ms = times_ms
        self._count_max = count_max
        self._bytes_max = bytes_max

    def run(self, may_wait: bool = True) -> FoundMessages:  # noqa: FBT001, FBT002  As steps call it.
        """Return the newest messages within the limits, oldest first; with `may_wait`, any thread may call this.

        Raises:
            BlockingIOError: It would wait for the device, or takes long, and `may_wait` is False.
            OSError: The disk failed.
        """
        offsets, last_ms, last_offset = self._search.run(may_wait=may_wait)
        records: list[bytes] = []
        size = 0
        for offset in offsets:
            if len(records) >= self._count_max:
                break
            record = self._read_record(offset, may_wait=may_wait)
            if record is None:  # Its log file was deleted.
                continue
            if store_time(record) not in self._times_ms:
                continue
            size += len(record)
            if size > self._bytes_max and records:
                break
            records.append(record)
        records.reverse()
        return FoundMessages(records, last_ms, last_offset)
