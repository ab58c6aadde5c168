"""Single messages as a service."""

from __future__ import annotations

import pytest

from cometmq.broker.admin.lookup import MessageLookup
from cometmq.codec.headers.query import QueryMessageRequest, ViewMessageRequest
from cometmq.codec.properties import encode_properties
from cometmq.codec.record import decode_records
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.net.requests import any_topic
from tests.support.store_puts import make_put

ALWAYS = (0, 1 << 62)


@pytest.fixture
def lookup(tables):
    return MessageLookup(tables.store, unique_count=1)


def put_with_key(store, key, *bodies):
    block = encode_properties({"KEYS": key})
    store.put_many([make_put(store, body=body, property_block=block) for body in bodies])
    store.dispatch_pending()


def bodies(records):
    return [record.body for piece in records for record in decode_records(piece)]


async def test_the_newest_messages_of_a_key_are_found(tables, lookup):
    put_with_key(tables.store, "red", b"1", b"2", b"3")
    found = tables.world.run(
        lookup.by_key(QueryMessageRequest("orders", "red", 2, *ALWAYS), any_topic)
    )
    assert bodies(found.records) == [b"2", b"3"]


async def test_a_key_that_nobody_has_is_not_found(tables, lookup):
    put_with_key(tables.store, "red", b"1")
    with pytest.raises(RequestError) as refused:
        tables.world.run(
            lookup.by_key(QueryMessageRequest("orders", "blue", 2, *ALWAYS), any_topic)
        )
    assert refused.value.code == ResponseCode.QUERY_NOT_FOUND
    assert refused.value.fields["indexLastUpdatePhyoffset"] == "0"


async def test_a_record_is_found_where_it_begins(tables, lookup):
    put_with_key(tables.store, "red", b"1")
    second = tables.store.max_offset
    put_with_key(tables.store, "red", b"2")
    record = tables.world.run(lookup.by_offset(ViewMessageRequest(second), any_topic))
    assert bodies([record]) == [b"2"]


@pytest.mark.parametrize("beyond", [-1, 1, 1 << 40])
async def test_where_no_record_begins_nothing_is_found(tables, lookup, beyond):
    put_with_key(tables.store, "red", b"1")
    with pytest.raises(RequestError, match="can not find message by the offset"):
        tables.world.run(lookup.by_offset(ViewMessageRequest(beyond), any_topic))


async def test_what_is_not_shown_yet_is_not_found(tables, lookup):
    """Consumers do not see it either: a power cut may take it back."""
    tables.store.put_many([make_put(tables.store)])
    assert tables.store.max_offset > 0
    with pytest.raises(RequestError, match="can not find message by the offset"):
        tables.world.run(lookup.by_offset(ViewMessageRequest(0), any_topic))
