"""Resets of groups as a service."""

from __future__ import annotations

import pytest

from cometmq.broker.admin.resets import GroupResets
from cometmq.codec.headers.console import ResetOffsetRequest
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from tests.support.store_puts import put


@pytest.fixture
def resets(tables):
    put(tables.store, b"a", b"b", b"c")
    return GroupResets(tables)


def moved(result):
    return {queue.queue_id: offset for queue, offset in result.offsets.items()}


async def test_a_group_is_moved_in_all_queues_of_a_topic(tables, resets):
    result = tables.world.run(resets.reset(ResetOffsetRequest("orders", "g")))
    assert (moved(result), result.is_for_members) == ({0: 3, 1: 0}, False)
    assert tables.offsets.has_reset("g", "orders", 0)
    back = tables.world.run(resets.reset(ResetOffsetRequest("orders", "g", 0)))
    assert moved(back) == {0: 0, 1: 0}


async def test_a_group_is_moved_to_an_offset_of_one_queue(tables, resets):
    request = ResetOffsetRequest("orders", "g", 0, queue_id=0, offset=2)
    assert moved(tables.world.run(resets.reset(request))) == {0: 2}


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (ResetOffsetRequest("nothing", "g"), ResponseCode.TOPIC_NOT_EXIST),
        (ResetOffsetRequest("orders", "nobody"), ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
        (
            ResetOffsetRequest("orders", "g", 0, queue_id=0, offset=4),
            ResponseCode.SYSTEM_ERROR,
        ),
    ],
)
async def test_what_cannot_be_moves_nothing(tables, resets, request_, code):
    with pytest.raises(RequestError) as refused:
        tables.world.run(resets.reset(request_))
    assert refused.value.code == code
    assert not tables.offsets.has_reset("g", "orders", 0)
