"""Messages that are given back, as a service."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from cometmq.broker.retry.retries import Retries
from cometmq.codec.headers.send_back import SendBackRequest
from cometmq.codec.properties import PROPERTIES_SIZE_MAX, encode_properties
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.flags import PERM_READ
from cometmq.model.topic import TopicConfig
from cometmq.store.appender import Put, PutResult
from tests.support.steps import run
from tests.support.store_puts import make_put, put, read_all

SCHEDULE = "SCHEDULE_TOPIC_XXXX"
NEW = 479  # A version of clients.


def _anything(_topic: str) -> bool:
    return True


@pytest.fixture
def retries(tables):
    put(tables.store, b"a")
    return Retries(tables)


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
