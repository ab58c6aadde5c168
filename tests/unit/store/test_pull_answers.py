"""A pull that is answered at a glance gets what a read with care gives, wherever its entries and messages lie."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cometmq.kernel import TagCodes
from cometmq.kernel.rows import AnswerTerms
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.message_store import MessageStore
from cometmq.store.reader import GetStatus
from cometmq.store.settings import StoreSettings
from tests.support.store_puts import SMALL, clean, put, queue_of, settle, store_with

pytestmark = pytest.mark.compiled
PIECES = tuple(b"<%d:" % number for number in range(8))
NONE_PIECES = tuple(b"[%d:" % number for number in range(8))
NEAR, FAR = 0, 7


def a_store(settings: StoreSettings = SMALL) -> tuple[MessageStore, ConsumeQueue]:
    """Some log files, some queue files, and entries in the queue's tail."""
    store, _, clock = store_with(settings=settings)
    for number in range(90):
        put(store, b"%d" % number * 100, queue_id=number % 2)
    settle(store, clock)
    for number in range(30):
        put(store, b"%d" % number * 100, queue_id=number % 2)
    queue = queue_of(store)
    assert 0 < queue.tail_start < queue.max_offset
    return store, queue


def terms_of(count: int, size: int, match: Any = None) -> AnswerTerms:
    return AnswerTerms(PIECES, count, size, match, NEAR, FAR, 3, 4, NONE_PIECES)


def both_ways(
    store: MessageStore, queue: ConsumeQueue, offset: int, terms: AnswerTerms
) -> bool:
    """Read at a glance and with care; whether there was something at a glance, which was the same then."""
    answer = store.pull(terms, queue, offset, -5)
    if answer is None:
        return False
    frame, size, count, effort = answer
    assert effort % 20 == 0
    result = store.get(
        "orders",
        0,
        offset,
        max_count=terms.count_max,
        max_bytes=terms.size_max,
        match=terms.match,  # type: ignore[arg-type]  # No property filter here.
    )
    if result.cold is not None:
        result = result.cold()
    pieces = PIECES if count else NONE_PIECES
    assert result.status is (GetStatus.FOUND if count else GetStatus.NO_MATCHED_MESSAGE)
    broker = FAR if result.suggest_slave else NEAR
    numbers = broker, result.next_offset, result.min_offset, result.max_offset, 3, 4, -5
    head = pieces[0] + b"".join(
        b"%d%b" % pair for pair in zip(numbers, pieces[1:], strict=True)
    )
    records = b"".join(result.records)
    assert (size, count) == (len(records), result.message_count)
    lengths = (4 + len(head) + size).to_bytes(4) + len(head).to_bytes(4)
    assert frame == lengths + head + records
    return True


@pytest.mark.parametrize(
    "settings",
    [
        SMALL, replace(SMALL, memory_bytes=10_000, transfer_count_on_disk=3),
        replace(SMALL, transfer_bytes_in_memory=900), replace(SMALL, warm_tail_bytes=20_000),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "match", [None, frozenset({0}).__contains__, TagCodes([0, 9]), TagCodes([9]), TagCodes(range(1, 40))]
)  # fmt: skip
def test_what_is_found_at_a_glance_is_what_is_there(settings, match):
    store, queue = a_store(settings)
    taken = [
        both_ways(store, queue, offset, terms_of(count, size, match))
        for count, size in ((1, 1 << 20), (7, 1 << 20), (32, 1_000))
        for offset in range(-1, queue.max_offset + 2)
    ]
    # All but reads over the end of a log file, which are gathered, of what is cold, and of where nothing is. That nothing
    # matches is seen wherever the messages are.
    least = 1 / 4 if settings.warm_tail_bytes == 20_000 else 2 / 3
    assert taken.count(True) > least * len(taken)


def test_what_is_deleted_is_left():
    """Entries of messages that are gone lead to no file; what is behind them does."""
    store, queue = a_store()
    terms = terms_of(1, 1 << 20)
    assert both_ways(store, queue, 0, terms)
    clean(store)
    assert store.min_offset > 0
    for offset in range(queue.max_offset):
        both_ways(store, queue, offset, terms)
    assert both_ways(store, queue, queue.max_offset - 1, terms)
