"""Single messages as a service."""

from __future__ import annotations

import pytest

from cometmq.broker.admin.lookup import MessageLookup
from cometmq.codec.headers.query import ViewMessageRequest
from cometmq.model.errors import RequestError
from cometmq.net.requests import any_topic
from tests.support.store_puts import make_put


@pytest.fixture
def lookup(tables):
    return MessageLookup(tables.store, unique_count=1)


async def test_what_is_not_shown_yet_is_not_found(tables, lookup):
    """Consumers do not see it either: a power cut may take it back."""
    tables.store.put_many([make_put(tables.store)])
    assert tables.store.max_offset > 0
    with pytest.raises(RequestError, match="can not find message by the offset"):
        tables.world.run(lookup.by_offset(ViewMessageRequest(0), any_topic))
