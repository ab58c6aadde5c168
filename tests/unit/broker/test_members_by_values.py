"""Members by values: who is told of whom, over connections that are made of lists."""

from __future__ import annotations

import pytest

from cometmq.broker.tables.members import TELL_SECONDS, Members
from cometmq.codec.bodies.heartbeat import ConsumerPart
from cometmq.model.codes import RequestCode
from tests.support.hand_clock import HandClock
from tests.unit.broker.client_by_hand import HandClientPeer, client_of

CHANGED = (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": "g"}, b"")


@pytest.fixture
def clock():
    return HandClock()


@pytest.fixture
def members(clock):
    return Members(clock, timeout_ms=1000, is_notified=lambda group: group != "quiet")


def join(members: Members, client_id: str, group: str = "g") -> HandClientPeer:
    peer = HandClientPeer(50_000 + int(client_id[1:]))
    members.register_consumer(ConsumerPart(group), client_of(peer, client_id))
    return peer


async def test_members_are_told_when_one_comes_and_when_one_goes(members, clock):
    first = join(members, "c1")
    clock.turn(TELL_SECONDS)
    second = join(members, "c2")
    assert (first.told, second.told) == ([CHANGED, CHANGED], [CHANGED])
    clock.turn(TELL_SECONDS)
    first.close()
    assert (len(first.told), second.told) == (2, [CHANGED, CHANGED])
    assert [client.client_id for client in members.consumer_group("g").clients.values()] == [
        "c2"
    ]


async def test_a_group_that_wants_no_word_has_none(members):
    assert join(members, "c1", "quiet").told == []


async def test_who_is_silent_for_too_long_is_closed_and_forgotten(members, clock):
    silent = HandClientPeer()
    client = client_of(silent, "p1")
    client.seen = clock.monotonic()
    members.register_producer("asks", client)
    members.expire()
    assert members.producer("p1") is client
    clock.turn(2)
    members.expire()
    assert silent.is_closed
    assert members.producer("p1") is None
    assert members.producer_groups() == []
