"""A read through an SQL92 filter gives the same whether the kernel tests its messages together or each is tested by itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.broker.pull.filtered_read import LOOKED_MAX, FilteredRead, ReadRequest, TimeBudget
from cometmq.codec.properties import encode_properties
from cometmq.codec.sql92 import sql92_filter
from cometmq.kernel import PropertyFilter
from cometmq.model.clock import Clock
from cometmq.steps.steps import Steps, at_once, at_once_or_elsewhere
from cometmq.store.message_store import MessageStore
from cometmq.store.reader import GetResult
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import SMALL, make_put, open_store

pytestmark = pytest.mark.compiled
COUNT = 2 * LOOKED_MAX
# Some of its records are old, which other pulls get fewer of; a read may reach from one file into the next, of log and queue.
SETTINGS = replace(
    SMALL, commitlog_file_size=1 << 17, queue_file_size=20 * 1_100, memory_bytes=1 << 17
)
EXPRESSIONS = [
    "a = 1",
    "a = 7",
    "a > 3 AND b = 'x'",
    "b IS NULL",
    "NOT (a = 1)",
    "a = 99",
    "c = 1",
]


@pytest.fixture(scope="module")
def store() -> MessageStore:
    """Some properties are no numbers, of which the kernel leaves the whole read."""
    made = open_store(settings=SETTINGS, disk=FakeDisk())
    for start in range(0, COUNT, 100):
        made.put_many(
            [
                make_put(made, body=b"%d" % number, property_block=_properties(number))
                for number in range(start, start + 100)
            ]
        )
        made.dispatch_pending()
    return made


def _properties(number: int) -> bytes:
    some = {"a": str(number % 11), "k": "v"}
    if number % 3:
        some["b"] = "x" if number % 2 else "y"
    if number == COUNT // 2:
        some["c"] = "1e400"
    return encode_properties(some)


def read(store: MessageStore, clock: Clock, request: ReadRequest) -> tuple[object, ...]:
    """What comes out of a read, and whether it was cut; not the hint to read old messages from a slave."""

    def lend(cold: Callable[[], GetResult]) -> Steps[GetResult]:
        return at_once_or_elsewhere(lambda _: cold())

    made = FilteredRead(store, request, TimeBudget(clock), lend)
    result = at_once(made.steps())
    assert result is not None
    return b"".join(result.records), *result[:4], *result[5:7], made.is_cut


@given(
    st.sampled_from(EXPRESSIONS),
    st.one_of(st.integers(0, COUNT + 1), st.just(COUNT - LOOKED_MAX)),
    st.integers(1, 64),
    st.sampled_from([1, 500, 4_000, 1 << 18]),
)
def test_messages_that_pass_are_the_same(store, expression, offset, count_max, size_max):
    wanted = sql92_filter(expression)
    request = ReadRequest("orders", 0, offset, count_max, size_max, wanted.matches)
    clock = HandClock()
    slow = read(store, clock, request)
    assert read(store, clock, request._replace(fast=wanted.fast)) == slow


def test_a_read_of_recent_messages_tests_none_by_itself(store):
    wanted = sql92_filter("a = 1")
    assert isinstance(wanted.fast, PropertyFilter)

    def passes(_block: bytes) -> bool:
        raise AssertionError("the kernel decides all of these")

    offset = COUNT - 300
    request = ReadRequest("orders", 0, offset, 32, 1 << 18, passes, wanted.fast)
    found = read(store, HandClock(), request)
    assert found[2] == COUNT
