"""Whether two stores hold the same messages, queue by queue.

What a broker adds when it stores a message (store time and host, place in the log) is not
compared unless it is asked for: a copy made by replication has the same, one that was sent again
has not.

Next: cometmq.store.message_store
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

from cometmq.codec.record import HOST_BITS, Record, decode_records
from cometmq.model.clock import Clock
from cometmq.offline.found import QueueId, with_found_sizes
from cometmq.store.disk import Disk
from cometmq.store.message_store import MessageStore
from cometmq.store.settings import StoreSettings

DIFFERENCES_MAX = 1000  # Those beyond are counted only.

OnCompared = Callable[[int], None]  # Told how many messages have been compared in all.

_MESSAGE_FIELDS = (
    "flag", "born_timestamp", "born_host", "reconsume_times", "body", "property_block",
)  # fmt: skip
_BROKER_FIELDS = ("physical_offset", "store_timestamp", "store_host", "prepared_offset")


class StoreDifference(NamedTuple):
    """One place where two stores differ.

    Attributes:
        queue: topic/id.
        offset: queue offset; None where the queue as a whole differs.
        what: how, in words.
    """

    queue: str
    offset: int | None
    what: str


class Comparison(NamedTuple):
    """The result of a comparison of two stores.

    Attributes:
        queues: how many queues there are in either.
        messages: how many messages have been compared.
        differing: how many differences there are.
        differences: the first thousand.
    """

    queues: int
    messages: int
    differing: int
    differences: list[StoreDifference]

    @property
    def is_same(self) -> bool:
        """Whether both stores hold the same."""
        return not self.differing


def open_for_reading(
    root: str, settings: StoreSettings | None, *, clock: Clock, disk: Disk
) -> MessageStore:
    """A store as a start would find it, changed in memory alone.

    Raises:
        StoreDamaged: it cannot be opened.
        OSError: the disk failed.
    """
    settings = replace(
        with_found_sizes(root, settings, disk),
        transfer_bytes_in_memory=1 << 22,
        transfer_count_in_memory=1000,
        transfer_bytes_on_disk=1 << 22,
        transfer_count_on_disk=1000,
    )
    return MessageStore.open(root, settings, clock=clock, disk=disk, read_only=True)


class Comparer:
    """One comparison of two open stores."""

    def __init__(
        self,
        first: MessageStore,
        second: MessageStore,
        *,
        is_exact: bool = False,
        on_compared: OnCompared | None = None,
    ) -> None:
        """Prepare.

        Args:
            first: one store, A in what is told.
            second: the other, B.
            is_exact: compare what brokers add, too.
            on_compared: told how far it is.
        """
        self._stores = first, second
        self._fields = _MESSAGE_FIELDS + (_BROKER_FIELDS if is_exact else ())
        self._on_compared = on_compared
        self._messages = 0
        self._differing = 0
        self._differences: list[StoreDifference] = []

    def run(self) -> Comparison:
        """Compare every queue.

        Raises:
            OSError: the disk failed.
        """
        queues = sorted({queue for store in self._stores for queue in _queues_of(store)})
        for queue in queues:
            self._compare_queue(queue)
        return Comparison(len(queues), self._messages, self._differing, self._differences)

    def _compare_queue(self, queue: QueueId) -> None:
        """The messages that both have, and which one has alone."""
        ranges = [_range_of(store, queue) for store in self._stores]
        if ranges[0] != ranges[1]:
            texts = [f"{found[0]} up to {found[1]}" if found else "nothing" for found in ranges]
            self._note(queue, None, f"A has {texts[0]}, B has {texts[1]}")
        if not ranges[0] or not ranges[1]:
            return
        start, end = max(ranges[0][0], ranges[1][0]), min(ranges[0][1], ranges[1][1])
        first, second = (_pieces_of(store, queue, start, end) for store in self._stores)
        for one, other in zip(first, second, strict=True):
            self._compare_pieces(queue, one, other)

    def _compare_pieces(
        self, queue: QueueId, one: dict[int, Record], other: dict[int, Record]
    ) -> None:
        """The messages of a range of offsets."""
        for offset in sorted(one.keys() | other.keys()):
            if offset not in one or offset not in other:
                self._note(queue, offset, f"only {'A' if offset in one else 'B'} has it")
            else:
                fields = [
                    name
                    for name in self._fields
                    if getattr(one[offset], name) != getattr(other[offset], name)
                ]
                if (one[offset].sys_flag ^ other[offset].sys_flag) & ~HOST_BITS:
                    fields.append("sys_flag")
                if fields:
                    self._note(queue, offset, f"differs in {', '.join(fields)}")
        self._messages += len(one.keys() & other.keys())
        if self._on_compared is not None:
            self._on_compared(self._messages)

    def _note(self, queue: QueueId, offset: int | None, what: str) -> None:
        self._differing += 1
        if len(self._differences) < DIFFERENCES_MAX:
            self._differences.append(StoreDifference(str(queue), offset, what))


def messages_of(store: MessageStore) -> int:
    """The number of messages in the queues of a store."""
    queues = [queue for topic in store.topics() for queue in store.queues_of(topic)]
    return sum(queue.max_offset - queue.min_offset for queue in queues)


def _queues_of(store: MessageStore) -> set[QueueId]:
    """The queues of a store that ever had a message."""
    return {
        QueueId(queue.topic, queue.queue_id)
        for topic in store.topics()
        for queue in store.queues_of(topic)
        if queue.max_offset
    }


def _range_of(store: MessageStore, queue: QueueId) -> tuple[int, int] | None:
    """First and next offset of a queue; None where there is none."""
    found = store.queue(*queue)
    return (found.min_offset, found.max_offset) if found is not None else None


_PIECE_MESSAGES = 1000


def _pieces_of(
    store: MessageStore, queue: QueueId, start: int, end: int
) -> Iterator[dict[int, Record]]:
    """The messages of a range by their offsets, so many offsets at a time."""
    for first in range(start, end, _PIECE_MESSAGES):
        stop = min(first + _PIECE_MESSAGES, end)
        found: dict[int, Record] = {}
        offset = first
        while offset < stop:
            result = store.get(*queue, offset, max_count=stop - offset)
            result = result.cold() if result.cold is not None else result
            records = decode_records(b"".join(result.records))
            for place, record in enumerate(records):
                # A light queue's records have their offsets in another queue.
                is_own = record.topic == queue.topic
                found[record.queue_offset if is_own else offset + place] = record
            if result.next_offset <= offset:
                break
            offset = result.next_offset
        yield found
