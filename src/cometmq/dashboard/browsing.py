"""Reads a topic's messages page by page for the dashboard; offsets of the queues determine the messages of a page.

The newest message of each queue has rank 0, the one before it rank 1. A page has up to 20 messages, chosen by (rank, queue).
While queues do not change, each message counts for exactly one page; if they are evenly filled, pages go back in time.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

from cometmq import AsyncPullConsumer, MessageQueue, StoredMessage
from cometmq.dashboard.bodies import body_line
from cometmq.dashboard.paging import TablePage, check_page, last_page

ROWS = 20
EXAMINED_MAX = 5_000  # By one search with a filter.
_EXAMINED_AT_ONCE = 640
_BYTES_MAX = 32 << 20  # By one read.
_READS_MAX = 16  # By one search; 5,000 small messages take 12.
_QUEUES_AT_ONCE = 4
# If the offsets of a range are inside deleted files, a pull may return nothing; then its next offset is tried.
_EMPTY_PULLS_MAX = 3


class MessageRow(NamedTuple):
    """A row of a message list: the message without its body, the body's beginning as one line and size in bytes.

    If `is_deleted`, its topic seems to be deleted: its queue offset has another message or none, or there is no route.
    """

    message: StoredMessage
    line: str
    size: int
    is_deleted: bool = False


class FoundPage(NamedTuple):
    """The messages that a filter selects among some of a range; the messages of a range count from 0, the newest.

    Attributes:
        rows: The selected messages, newest first.
        begin: Number of the first examined message.
        end: Number after that of the last examined message.
        total: Number of messages in the range.
        missing: Number of examined messages that could not be read: for example deleted, or too large together.
    """

    rows: Sequence[MessageRow]
    begin: int
    end: int
    total: int
    missing: int


class QueueSlice(NamedTuple):
    """A range of offsets of one queue: from `begin` up to, but not including, `end`."""

    queue: MessageQueue
    begin: int
    end: int


def row_of(message: StoredMessage, *, is_deleted: bool = False) -> MessageRow:
    """Return the row of a message in a list, without its whole body."""
    line, size = body_line(message.body), len(message.body)
    return MessageRow(replace(message, body=b""), line, size, is_deleted)


async def browse(
    puller: AsyncPullConsumer, topic: str, from_ms: int | None, until_ms: int | None, page: int
) -> TablePage[MessageRow]:
    """Read one page of a topic's messages stored from `from_ms` to `until_ms` (ms since 1970, included; None: any).

    Raises:
        WrongInput: There is no such page.
        CometError: The topic does not exist, or a broker does not answer or refuses.
    """
    return await browse_slices(
        puller, await time_slices(puller, topic, from_ms, until_ms), page
    )


async def browse_slices(
    puller: AsyncPullConsumer, slices: Sequence[QueueSlice], page: int
) -> TablePage[MessageRow]:
    """Read one page of the messages in these ranges of offsets; its rows are sorted by store time, newest first.

    Raises:
        WrongInput: There is no such page.
        CometError: A broker does not answer, or refuses.
    """
    total = sum(each.end - each.begin for each in slices)
    last = last_page(total, ROWS)
    check_page(page, last)
    rows, missing, _ = await _read(puller, slices_of_page(slices, (page - 1) * ROWS, ROWS))
    return TablePage(_newest_first(rows), page, last, total, missing)


async def search(
    puller: AsyncPullConsumer,
    slices: Sequence[QueueSlice],
    begin: int,
    is_wanted: Callable[[StoredMessage], bool],
) -> FoundPage:
    """Examine messages of these ranges from number `begin` on, until about 20 are selected, 5,000 examined or 512 MiB read.

    Raises CometError if a broker does not answer, or refuses.
    """
    total = sum(each.end - each.begin for each in slices)
    begin = end = min(begin, total)
    rows: list[MessageRow] = []
    stop, missing = min(total, begin + EXAMINED_MAX), 0
    count, count_max = ROWS, _EXAMINED_AT_ONCE
    for _ in range(_READS_MAX):
        if len(rows) >= ROWS or end >= stop:
            break
        count = min(count, count_max, stop - end)
        part, unread, is_cut = await _read(
            puller, slices_of_page(slices, end, count), is_wanted
        )
        if is_cut and count > 1:
            count = count_max = count // 2  # The same messages again, fewer at a time.
            continue
        rows += part
        missing += unread
        end, count = end + count, 2 * count
    return FoundPage(_newest_first(rows), begin, end, total, missing)


def _newest_first(rows: Sequence[MessageRow]) -> list[MessageRow]:
    return sorted(
        rows,
        key=lambda each: (each.message.stored_ms, each.message.queue_offset),
        reverse=True,
    )


async def time_slices(
    puller: AsyncPullConsumer, topic: str, from_ms: int | None, until_ms: int | None
) -> list[QueueSlice]:
    """Return the `time_slice` of each queue of a topic. Raises CometError as `browse` does."""
    queues = await puller.queues(topic)
    return await asyncio.gather(
        *(time_slice(puller, queue, from_ms, until_ms) for queue in queues)
    )


async def time_slice(
    puller: AsyncPullConsumer, queue: MessageQueue, from_ms: int | None, until_ms: int | None
) -> QueueSlice:
    """Return the offsets of a queue's messages stored from `from_ms` to `until_ms` (included; None for no bound)."""
    first, end = await asyncio.gather(puller.min_offset(queue), puller.max_offset(queue))
    begin = first if not from_ms else await puller.offset_by_time(queue, from_ms)
    begin = min(max(begin, first), end)
    stop = end if until_ms is None else await puller.offset_by_time(queue, until_ms + 1)
    return QueueSlice(queue, begin, max(min(stop, end), begin))


def slices_of_page(slices: Sequence[QueueSlice], start: int, count: int) -> list[QueueSlice]:
    """Return slices with up to `count` messages from number `start` on, counted by (rank, queue); rank 0: the newest.

    >>> a, b = MessageQueue("t", "b", 0), MessageQueue("t", "b", 1)
    >>> [s[1:] for s in slices_of_page([QueueSlice(a, 0, 3), QueueSlice(b, 5, 6)], 0, 2)]
    [(2, 3), (5, 6)]
    """
    sizes = [each.end - each.begin for each in slices]
    rank = _rank_at(sizes, start)
    left = start - sum(min(size, rank) for size in sizes)
    taken: dict[int, list[int]] = {}
    total = 0
    while total < count and rank < max(sizes, default=0):
        for place, size in enumerate(sizes):
            if rank >= size or total == count:
                continue
            if left > 0:
                left -= 1
                continue
            taken.setdefault(place, []).append(slices[place].end - 1 - rank)
            total += 1
        rank += 1
    return [
        QueueSlice(slices[place].queue, offsets[-1], offsets[0] + 1)
        for place, offsets in sorted(taken.items())
    ]


def _rank_at(sizes: Sequence[int], start: int) -> int:
    """Return the largest rank (0: the newest message of each queue) with at most `start` messages of smaller rank."""
    low, high = 0, max(sizes, default=0)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(size, middle) for size in sizes) <= start:
            low = middle
        else:
            high = middle - 1
    return low


async def _read(
    puller: AsyncPullConsumer,
    slices: Sequence[QueueSlice],
    is_wanted: Callable[[StoredMessage], bool] | None = None,
) -> tuple[list[MessageRow], int, bool]:
    """Read up to 32 MiB of bodies; return the rows of the wanted messages, and how many messages were not read.

    The last item is whether some were not read because of that limit, and not because they are gone.
    """
    gate = asyncio.Semaphore(_QUEUES_AT_ONCE)
    left, missing = _BYTES_MAX, sum(each.end - each.begin for each in slices)

    async def read(each: QueueSlice) -> list[MessageRow]:
        nonlocal left, missing
        rows: list[MessageRow] = []
        offset, empty = each.begin, 0
        while offset < each.end and empty < _EMPTY_PULLS_MAX and left > 0:
            async with gate:
                pull = await puller.fetch(each.queue, offset, max_count=each.end - offset)
            found = [message for message in pull.messages if message.queue_offset < each.end]
            left -= sum(len(message.body) for message in found)
            missing -= len(found)
            rows += [
                row_of(message) for message in found if is_wanted is None or is_wanted(message)
            ]
            empty = 0 if found else empty + 1
            if pull.next_offset <= offset:
                break
            offset = pull.next_offset
        return rows

    rows = [row for part in await asyncio.gather(*map(read, slices)) for row in part]
    return rows, missing, left <= 0 and missing > 0
