"""Messages that are given back, as a service."""

from __future__ import annotations

import random

import pytest

from cometmq.broker.retry.retries import Retries
from cometmq.codec.headers.send_back import SendBackRequest
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.group import GroupConfig
from tests.support.steps import run
from tests.support.store_puts import put, read_all

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
NEW, OLD = 479, 0  # Versions of clients.


def _anything(_topic: str) -> bool:
    return True


@pytest.fixture
def retries(tables):
    put(tables.store, b"a")
    return Retries(
        tables.settings,
        store=tables.store,
        topics=tables.topics,
        groups=tables.groups,
        inner=tables.inner,
        counters=tables.counters,
        chance=random.Random(1),
    )


async def test_a_message_waits_at_the_third_level_for_the_groups_retry_topic(tables, retries):
    await run(retries.give_back(SendBackRequest(0, "g", 0), version=NEW, may=_anything))
    (waiting,) = read_all(tables.store, SCHEDULE, 2)
    assert (waiting.body, waiting.reconsume_times) == (b"a", 1)
    properties = waiting.properties()
    assert (properties["REAL_TOPIC"], properties["RETRY_TOPIC"]) == ("%RETRY%g", "orders")


async def test_a_message_that_is_given_up_lies_in_the_dead_letters(tables, retries):
    await run(retries.give_back(SendBackRequest(0, "g", -1), version=NEW, may=_anything))
    (dead,) = read_all(tables.store, "%DLQ%g")
    assert (dead.body, dead.properties()["DELAY"]) == (b"a", "0")


@pytest.mark.parametrize(("version", "is_dead"), [(NEW, True), (OLD, False)])
async def test_only_a_newer_client_says_how_many_tries_it_wants(
    tables, retries, version, is_dead
):
    request = SendBackRequest(0, "g", 0, max_reconsume_times=0)
    await run(retries.give_back(request, version=version, may=_anything))
    assert bool(read_all(tables.store, "%DLQ%g")) == is_dead


async def test_what_a_group_without_retry_queues_gives_back_is_a_dead_letter(tables, retries):
    tables.groups.put(GroupConfig("once", retry_queues=0))
    await run(retries.give_back(SendBackRequest(0, "once", 0), version=NEW, may=_anything))
    assert [dead.body for dead in read_all(tables.store, "%DLQ%once")] == [b"a"]


async def test_what_nobody_can_have_consumed_is_refused(tables, retries):
    storing = retries.give_back(
        SendBackRequest(tables.store.max_offset, "g", 0), version=NEW, may=_anything
    )
    with pytest.raises(RequestError, match="look message by offset failed") as refused:
        await run(storing)
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
