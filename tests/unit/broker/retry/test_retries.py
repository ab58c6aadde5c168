"""Messages that are given back, as a service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from cometmq.broker.retry.retries import Retries
from cometmq.codec.headers.send_back import SendBackRequest
from cometmq.codec.properties import PROPERTIES_SIZE_MAX, encode_properties
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.flags import PERM_READ
from cometmq.model.group import GroupConfig
from cometmq.model.topic import TopicConfig
from cometmq.store.appender import Put, PutResult
from tests.support.steps import run
from tests.support.store_puts import make_put, put, read_all

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
NEW, OLD = 479, 0  # Versions of clients.


def _anything(_topic: str) -> bool:
    return True


@pytest.fixture
def retries(tables):
    put(tables.store, b"a")
    return Retries(tables)


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


async def test_what_is_given_back_together_shares_a_write_and_fails_alone(
    tables, retries, monkeypatch
):
    """One of them has no room for the properties that a retry adds; one group may not be sent to."""
    store, writes = tables.store, []
    places = [store.max_offset]
    block = encode_properties({"k": "v" * (PROPERTIES_SIZE_MAX - 10)})
    for each in (block, None):
        store.put_many([make_put(store, property_block=each)])
        store.dispatch_pending()
        places.append(store.max_offset)
    put_many = store.put_many

    def counted(puts: Sequence[Put]) -> list[PutResult]:
        writes.append(len(puts))
        return put_many(puts)

    monkeypatch.setattr(store, "put_many", counted)
    tables.topics.put(TopicConfig("%RETRY%closed", 1, 1, perm=PERM_READ))
    asked = [
        (0, "g", 0),
        (places[0], "g", 0),
        (places[1], "g", -1),
        (0, "closed", 0),
        (0, "other", 0),
    ]
    outcomes = await asyncio.gather(
        *(
            run(retries.give_back(SendBackRequest(*each), version=NEW, may=_anything))
            for each in asked
        ),
        return_exceptions=True,
    )
    errors = [type(outcome) for outcome in outcomes]
    assert errors == [type(None), CodecError, type(None), RequestError, type(None)]
    assert [record.body for record in read_all(store, SCHEDULE, 2)] == [b"a", b"a"]
    assert [record.body for record in read_all(store, "%DLQ%g")] == [b"hello"]
    assert len(writes) < 4, "not a write each"
    assert tables.counters.sent_back.get("orders", "g").count == 2
    assert tables.counters.dead.get("orders", "g").count == 1


async def test_what_nobody_can_have_consumed_is_refused(tables, retries):
    storing = retries.give_back(
        SendBackRequest(tables.store.max_offset, "g", 0), version=NEW, may=_anything
    )
    with pytest.raises(RequestError, match="look message by offset failed") as refused:
        await run(storing)
    assert refused.value.code == ResponseCode.SYSTEM_ERROR
