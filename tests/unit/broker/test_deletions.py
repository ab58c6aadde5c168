"""A topic or a group that is deleted and made again inherits nothing, whatever was under way when it went."""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Iterable, Iterator

import pytest

from cometmq.broker.pop.feature import PopFeature
from cometmq.broker.server import Broker
from cometmq.codec.bodies.lock import LockRequest, encode_lock_request
from cometmq.codec.fields import decode_fields, encode_fields
from cometmq.codec.headers.pop import (
    FROM_MIN,
    AckRequest,
    NotificationRequest,
    PopRequest,
    PopResponse,
)
from cometmq.codec.headers.send import SendBackRequest
from cometmq.codec.headers.topic import CreateTopic, DeleteGroup, TopicRequest
from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.group import GroupConfig
from cometmq.model.queue import MessageQueue
from tests.unit.broker.conftest import eventually
from tests.unit.broker.test_own_messages import half
from tests.unit.broker.waiting import SCHEDULE, by_hand, delivered, lying_in, send, stays_empty

TOPIC, GROUP = "dead-topic", "dead-group"
V1, V2 = f"%RETRY%{GROUP}_{TOPIC}", f"%RETRY%{GROUP}+{TOPIC}"


async def make(served, queues: int = 4, topic: str = TOPIC) -> None:
    request = CreateTopic(topic, queues, queues)
    await served.done(RequestCode.UPDATE_AND_CREATE_TOPIC, encode_fields(request))


async def delete(served, topic: str = TOPIC) -> None:
    fields = encode_fields(TopicRequest(topic))
    await served.done(RequestCode.DELETE_TOPIC_IN_BROKER, fields)


async def make_anew(served) -> None:
    await delete(served)
    await make(served)


async def delete_group(served, *, clean: bool = True) -> None:
    fields = encode_fields(DeleteGroup(GROUP, clean))
    await served.done(RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)


async def pop(served, count: int = 32, invisible_ms: int = 10_000, **more):
    """Pop; what was given."""
    request = PopRequest(
        consumer_group=GROUP, topic=TOPIC, queue_id=-1, max_msg_nums=count,
        invisible_time=invisible_ms, poll_time=0, born_time=0, init_mode=FROM_MIN, **more,
    )  # fmt: skip
    answer = await served.ask(RequestCode.POP_MESSAGE, encode_fields(request))
    records = decode_records(answer.body) if answer.body else []
    return answer, records


async def popped(served, count: int, **more) -> list[bytes]:
    """Pop until so many messages were given."""
    bodies: list[bytes] = []

    async def look() -> bool:
        _, records = await pop(served, **more)
        bodies.extend(record.body for record in records)
        return len(bodies) >= count

    await eventually(look)
    return bodies


@pytest.fixture
async def served(tmp_path, clock):
    async with by_hand(tmp_path, clock) as served:
        served.clock = clock
        await make(served)
        yield served


async def send_some(served, *bodies: bytes) -> None:
    for number, body in enumerate(bodies):
        answer = await send(served, body, topic=TOPIC, queue_id=number % 4)
        assert answer.code == 0, answer.remark


@pytest.mark.parametrize("is_v2", [False, True])
async def test_a_topic_made_again_gives_a_pop_group_nothing_of_the_old_one(
    tmp_path, is_v2, clock
):
    async with by_hand(tmp_path, clock, is_retry_topic_v2=is_v2) as served:
        await make(served)
        await send_some(served, b"old", b"older")
        assert len(await popped(served, 2, invisible_ms=10_000)) == 2
        clock.turn(11)
        name = V2 if is_v2 else V1
        await eventually(lambda: served.broker._topics.get(name))
        await make_anew(served)
        assert served.broker._topics.get(name) is None
        assert (await pop(served))[1] == []
        await send_some(served, b"new")
        assert await popped(served, 1) == [b"new"]


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.2, 0.5, 1.0])
async def test_a_topic_made_again_soon_after_a_pop_gives_each_new_message_at_once(
    served, seconds
):
    await send_some(served, *[b"old"] * 10)
    assert len(await popped(served, 10)) == 10
    served.clock.turn(seconds)
    await make_anew(served)
    await send_some(served, b"1", b"2", b"3")
    assert sorted(await popped(served, 3)) == [b"1", b"2", b"3"]
    served.clock.turn(60)
    # Its own check points end, not those of the old.
    assert sorted(await popped(served, 3)) == [b"1", b"2", b"3"]


async def test_an_old_handle_of_a_pop_in_order_moves_nobody_in_the_new_topic(served):
    await make(served, 1)
    assert (await send(served, b"old", topic=TOPIC)).code == 0
    answer, _ = await pop(served, order=True)
    given = decode_fields(PopResponse, answer.fields)
    handle = f"0 {given.pop_time} {given.invisible_time} {given.revive_qid} 0 broker-a 0 0"
    served.clock.turn(1)
    await delete(served)
    await make(served, 1)
    await send_some(served, b"new")
    await served.ask(
        RequestCode.ACK_MESSAGE, encode_fields(AckRequest(GROUP, TOPIC, 0, handle, 0))
    )
    assert served.broker._offsets.get(GROUP, TOPIC, 0) is None
    assert await popped(served, 1, order=True) == [b"new"]


@pytest.mark.parametrize("is_restarted", [False, True], ids=["", "restarted"])
@pytest.mark.parametrize("kind", ["level", "time", "retry", "half"])
async def test_what_waited_for_a_dead_topic_does_not_come_into_its_namesake(
    clock, tmp_path, kind, is_restarted
):
    deliver = str(clock.now_ms() + 30_000)
    properties = {"level": {"DELAY": "4"}, "time": {"TIMER_DELIVER_MS": deliver}}.get(kind, {})
    end = None
    async with by_hand(tmp_path, clock) as served:
        await make(served)
        if kind == "half":
            end = await half(served, b"old", 0, clock, topic=TOPIC)
        else:
            await send(served, b"old", properties, topic=TOPIC)
        if kind == "retry":
            (record,) = await lying_in(served, TOPIC)
            await give_back(served, record)
        await make_anew(served)
        if not is_restarted:
            if end is not None:
                await end()
            clock.turn(40)
            await stays_away(served)
            return
    async with by_hand(tmp_path, clock) as served:
        clock.turn(40)
        await stays_away(served)


async def stays_away(served) -> None:
    await send(served, b"new", topic=TOPIC)
    await delivered(served, 1, TOPIC)
    assert await stays_empty(served, f"%RETRY%{GROUP}")
    for queue in range(4):
        bodies = {record.body for record in await lying_in(served, TOPIC, queue)}
        assert bodies <= {b"new"}


async def give_back(served, record):
    header = encode_fields(SendBackRequest(record.physical_offset, GROUP, 0))
    await served.done(RequestCode.CONSUMER_SEND_MSG_BACK, header, version=479)


async def test_a_message_of_a_dead_topic_that_is_given_back_later_stays_dead(served):
    await send_some(served, b"old")
    (record,) = await lying_in(served, TOPIC)
    await make_anew(served)
    await give_back(served, record)
    assert await lying_in(served, SCHEDULE, 2) == []


async def test_a_new_topics_own_messages_wait_and_come(served):
    await make_anew(served)
    await send(served, b"new", {"DELAY": "4"}, topic=TOPIC)
    served.clock.turn(31)
    assert [each.body for each in await delivered(served, 1, TOPIC)] == [b"new"]


async def test_a_deletion_is_forgotten_where_the_log_lost_its_tail(tmp_path, clock):
    async with by_hand(tmp_path, clock) as served:
        served.broker._topics.deleted.note(TOPIC, 1 << 40, clock.now_ms())
    async with by_hand(tmp_path, clock) as served:
        await make(served)
        await send(served, b"new", {"DELAY": "4"}, topic=TOPIC)
        clock.turn(31)
        assert [each.body for each in await delivered(served, 1, TOPIC)] == [b"new"]


# --- places of consumers


async def commit(served, offset: int) -> int:
    fields = {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": "0",
        "commitOffset": str(offset),
    }
    return (await served.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code


async def test_an_offset_of_the_old_topic_is_not_committed_beyond_the_end_of_the_new_one(
    served,
):
    await send_some(served, b"old")
    assert await commit(served, 20) == 0  # A tool may be ahead of the messages that it copies.
    await make_anew(served)
    await send_some(served, b"new")
    assert await commit(served, 20) != 0
    assert await commit(served, 1) == 0


@pytest.mark.parametrize("is_notification", [False, True], ids=["pop", "notification"])
@pytest.mark.parametrize("is_group", [False, True], ids=["topic", "group"])
async def test_what_waits_for_something_to_pop_is_refused_when_that_is_deleted(
    clock, tmp_path, is_notification, is_group
):
    async with by_hand(tmp_path, clock, is_group_auto_created=False) as served:
        await make(served)
        await served.broker._groups.put(GroupConfig(GROUP))
        pop = PopRequest(GROUP, TOPIC, -1, 32, 10_000, 15_000, clock.now_ms(), FROM_MIN)
        code, fields = RequestCode.POP_MESSAGE, encode_fields(pop)
        if is_notification:
            fields = encode_fields(NotificationRequest(GROUP, TOPIC, -1, 15_000))
            code = RequestCode.NOTIFICATION
        asked = asyncio.ensure_future(served.ask(code, fields))
        (waiting,) = [
            each._waiting
            for each in served.broker.role.features
            if isinstance(each, PopFeature)
        ]
        await eventually(lambda: len(waiting))
        await (delete_group(served) if is_group else delete(served))
        gone = "SUBSCRIPTION_GROUP_NOT_EXIST" if is_group else "TOPIC_NOT_EXIST"
        async with asyncio.timeout(5):
            assert (await asked).code == ResponseCode[gone]


# --- groups


async def test_a_group_made_again_may_read_what_the_old_one_was_forbidden(served):
    groups = served.broker._groups
    await groups.put(GroupConfig(GROUP))
    await groups.permit(GROUP, TOPIC, is_readable=False)
    await delete_group(served, clean=False)
    await groups.put(GroupConfig(GROUP))
    assert groups.is_readable(GROUP, TOPIC)


async def test_a_topic_made_again_is_forbidden_to_nobody(served):
    groups = served.broker._groups
    await groups.put(GroupConfig(GROUP))
    await groups.permit(GROUP, TOPIC, is_readable=False)
    await make_anew(served)
    assert groups.is_readable(GROUP, TOPIC)


async def test_a_group_made_again_gets_no_retry_of_the_old_one(served):
    await send_some(served, b"old", b"old")
    (record,) = await lying_in(served, TOPIC)
    await give_back(served, record)
    await popped(served, 2)
    await delete_group(served)
    served.clock.turn(60)
    await served.broker._groups.put(GroupConfig(GROUP))
    assert await stays_empty(served, f"%RETRY%{GROUP}")
    assert served.broker._topics.get(V1) is None


async def test_a_group_that_keeps_its_place_gets_what_it_had_not_acknowledged(served):
    await send_some(served, b"1", b"2")
    await popped(served, 2)
    await delete_group(served, clean=False)
    served.clock.turn(60)
    await eventually(lambda: served.broker._topics.get(V1))
    await served.broker._groups.put(GroupConfig(GROUP))
    assert sorted(await popped(served, 2)) == [b"1", b"2"]


# --- everything that a broker keeps


async def use(served) -> None:
    """Have every part of the broker keep something under the names of the topic and the group."""
    clock = served.clock
    broker = served.broker
    await broker._groups.put(GroupConfig(GROUP))
    await broker._groups.permit(GROUP, "other", is_readable=False)
    await broker._groups.permit("others", TOPIC, is_readable=False)
    await send_some(served, *[b"old"] * 8)
    await popped(served, 8, invisible_ms=10_000)
    clock.turn(11)
    await eventually(lambda: broker._topics.get(V1))
    await pop(served, count=1, order=True)
    (record, *_) = await lying_in(served, TOPIC)
    await give_back(served, record)
    await send(served, b"old", {"TIMER_DELIVER_MS": str(clock.now_ms() + 60_000)}, topic=TOPIC)
    lock = encode_lock_request(
        LockRequest(GROUP, "me@1", (MessageQueue(TOPIC, "broker-a", 0),))
    )
    await served.ask(RequestCode.LOCK_BATCH_MQ, body=lock)
    broker._offsets.commit(GROUP, "other", 0, offset=1)
    broker._offsets.reset("others", TOPIC, 1, offset=1)


# What is not looked into: it is looked at by itself, or may know the names of the dead.
PASSED_OVER = {
    "Parts", "MessageStore", "Channels", "LoopWorld", "Machines", "Members", "Topics",
    "DeletedTopics",  # Remembers deletions.
    "Counters", "EventCounts", "ConsumeRateSamples",  # Count since the start, or over the last minute.
    "Saver", "Tally", "ConsumeQueue",
}  # fmt: skip
CONTAINERS = (str, dict, list, tuple, set, frozenset, deque)


def inside(at: object) -> Iterable[object]:
    """What an object keeps; a dict of plain values is unknown to the collector."""
    if isinstance(at, dict):
        return (*at.keys(), *at.values())
    return list(at) if isinstance(at, CONTAINERS) else gc.get_referents(at)


def places_of(root: object, needle: str) -> Iterator[str]:
    """Find the texts with a name in all that an object keeps; gives the classes on the way to each."""
    seen = {id(root)}
    left: list[tuple[object, tuple[str, ...]]] = [(root, ())]
    while left:
        at, way = left.pop()
        if isinstance(at, str):
            if needle in at:
                yield " > ".join(way)
            continue
        name = type(at).__name__
        further = way if isinstance(at, CONTAINERS) else (*way, name)
        for each in inside(at):
            is_ours = type(each).__module__.startswith("cometmq.")
            is_kept = isinstance(each, CONTAINERS) or (
                is_ours and type(each).__name__ not in PASSED_OVER
            )
            if is_kept and id(each) not in seen:
                seen.add(id(each))
                left.append((each, further))


def remembered(broker: Broker, name: str) -> list[str]:
    """The places in the tables and features of a broker where a name stands."""
    tables = (broker._topics, broker._groups, broker._offsets, broker._locks, broker._polls)
    parts = (*tables, broker._lanes, *broker.role.features)
    return [place for part in parts for place in places_of(part, name)]


@pytest.mark.parametrize(("name", "go"), [(TOPIC, delete), (GROUP, delete_group)])
async def test_nothing_in_a_broker_remembers_a_deleted_name(served, name, go):
    await use(served)
    assert len(remembered(served.broker, name)) > 5, "the test finds what is kept"
    await go(served)
    served.clock.turn(1)

    def is_forgotten() -> bool:
        return not remembered(served.broker, name)

    try:
        await eventually(is_forgotten, seconds=3)
    except TimeoutError:
        assert remembered(served.broker, name) == []
