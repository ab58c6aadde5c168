"""A message that the broker stores by itself lies in a queue that is read, however the topic was changed meanwhile.

One that is given back comes again later, and after its last try lies in the dead letters.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest

from cometmq.broker.inner.put_marks import WRITES_MAX, PutMarks
from cometmq.broker.retry.retries import Retries, ReturnedMessage
from cometmq.codec.bodies.group_config import encode_group_config
from cometmq.codec.bodies.kv import decode_kv_table
from cometmq.codec.fields import encode_fields
from cometmq.codec.headers.send import SendBackRequest
from cometmq.codec.headers.transaction import EndTransaction
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.properties import PROPERTIES_SIZE_MAX, encode_properties
from cometmq.codec.record import Record
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.flags import PERM_READ, TOPIC_UNIT_SUB, TRANSACTION_COMMIT
from cometmq.model.group import GroupConfig
from cometmq.model.queue import MessageQueue
from cometmq.model.topic import TopicConfig
from cometmq.store.appender import Put, PutResult
from tests.support.hand_clock import HandClock
from tests.support.steps import run
from tests.support.store_puts import make_put, put, read_all
from tests.unit.broker.conftest import eventually
from tests.unit.broker.waiting import SCHEDULE, by_hand, delivered, lying_in, send

RETRY = "%RETRY%billing"
WAITING_SECONDS = 30


async def half(served, body: bytes, queue_id: int, _clock: HandClock, **more):
    """Send a half message; gives what commits it."""
    properties = {"TRAN_MSG": "true", "PGROUP": "payers", "UNIQ_KEY": body.hex().upper()}
    sent = await send(served, body, properties, queue_id=queue_id, sysFlag="4", **more)
    place = sent.fields["msgId"]
    end = EndTransaction(
        producer_group="payers",
        tran_state_table_offset=int(sent.fields["queueOffset"]),
        commit_log_offset=int(place[-16:], 16),
        commit_or_rollback=TRANSACTION_COMMIT,
        msg_id=place,
        transaction_id=body.hex().upper(),
    )

    async def commit() -> None:
        await served.done(RequestCode.END_TRANSACTION, encode_fields(end))

    return commit


async def of_level(served, body: bytes, queue_id: int, clock: HandClock):
    assert (await send(served, body, {"DELAY": "4"}, queue_id=queue_id)).code == 0

    async def wait() -> None:
        clock.turn(WAITING_SECONDS)

    return wait


async def timed(served, body: bytes, queue_id: int, clock: HandClock):
    deliver = str(clock.now_ms() + WAITING_SECONDS * 1000)
    sent = await send(served, body, {"TIMER_DELIVER_MS": deliver}, queue_id=queue_id)
    assert sent.code == 0, sent.remark

    async def wait() -> None:
        clock.turn(WAITING_SECONDS + 2)

    return wait


async def found(served, topic: str, queues: int) -> set[bytes]:
    """The bodies in the first queues of a topic."""
    return {
        record.body
        for queue in range(queues)
        for record in await lying_in(served, topic, queue)
    }


@pytest.mark.parametrize("kind", [half, of_level, timed])
@pytest.mark.parametrize(
    ("read", "write"), [(4, 4), (2, 8), (8, 2), (3, 0)], ids=["fewer", "read", "written", "none written"]
)  # fmt: skip
async def test_what_waited_for_a_queue_that_is_not_read_any_more_lies_in_one_that_is(
    clock, tmp_path, kind, read, write
):
    async with by_hand(tmp_path, clock) as served:
        topics = served.broker._topics
        await topics.put(TopicConfig("Orders", 8, 8))
        bodies = {b"%d" % queue: queue for queue in range(8)}
        ends = [await kind(served, body, queue, clock) for body, queue in bodies.items()]
        await topics.put(TopicConfig("Orders", read, write))
        for end in ends:
            await end()

        async def look() -> bool:
            return await found(served, "Orders", min(read, write) or read) == bodies.keys()

        await eventually(look)
        assert b"1" in {each.body for each in await lying_in(served, "Orders", 1)}


@pytest.mark.parametrize(("before", "after"), [(1, 8), (8, 1), (4, 0), (0, 3)])
async def test_each_retry_lies_in_a_queue_of_the_retry_topic_after_a_change_of_the_groups_number(
    clock, tmp_path, before, after
):
    async with by_hand(tmp_path, clock) as served:
        await served.broker._groups.put(GroupConfig("billing", retry_queues=before))
        if before:
            served.broker._topics.ensure(RETRY, queues=before, perm=6)
        bodies = {b"%d" % number for number in range(30)}
        for body in bodies:
            await send(served, body, queue_id=0)
        changed = GroupConfig("billing", retry_queues=after)
        await served.done(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_group_config(changed)
        )
        for record in await delivered(served, len(bodies)):
            header = encode_fields(SendBackRequest(record.physical_offset, "billing", 1))
            await served.done(RequestCode.CONSUMER_SEND_MSG_BACK, header, version=479)
        clock.turn(2)
        topic = served.broker._topics.get(RETRY if after else "%DLQ%billing")
        assert topic.read_queues >= max(after, 1)
        await eventually(lambda: _are_there(served, topic.name, topic.read_queues, bodies))


async def _are_there(served, topic: str, queues: int, bodies: set[bytes]) -> bool:
    return await found(served, topic, queues) == bodies


async def test_more_retry_queues_are_there_as_soon_as_the_group_is_changed(tmp_path):
    async with by_hand(tmp_path, HandClock()) as served:
        served.broker._topics.ensure(RETRY, queues=1, perm=6)
        changed = GroupConfig("billing", retry_queues=8)
        await served.done(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=encode_group_config(changed)
        )
        topic = served.broker._topics.get(RETRY)
    assert (topic.read_queues, topic.write_queues) == (8, 8)


async def behind(served) -> dict[str, int]:
    answer = await served.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    return json.loads(decode_kv_table(answer.body)["messagesBehindReadQueues"])


async def test_messages_behind_the_last_read_queue_are_counted_until_each_group_has_them(
    tmp_path,
):
    async with by_hand(tmp_path, HandClock()) as served:
        await served.broker._topics.put(TopicConfig("Orders", 4, 4))
        for queue in (0, 2, 3, 3):
            await send(served, b"body", queue_id=queue)
        assert await behind(served) == {}
        await served.broker._topics.put(TopicConfig("Orders", 2, 2))
        assert await behind(served) == {"Orders": 3}
        offsets = served.broker._offsets
        for group, queue, offset in (("one", 2, 1), ("one", 3, 2), ("other", 3, 1)):
            offsets.commit(group, "Orders", queue, offset=offset)
        assert await behind(served) == {"Orders": 2}
        offsets.commit("other", "Orders", 2, offset=1)
        offsets.commit("other", "Orders", 3, offset=2)
        assert await behind(served) == {}


def test_it_goes_back_to_before_the_first_write_that_goes():
    marks: PutMarks[int] = PutMarks()
    for number in range(10):
        marks.note_put([(number, 100 * number, 100)], number)
    assert marks.go_back(1_000) is None
    assert marks.go_back(999) == 9
    assert marks.go_back(999) is None, "it is gone"
    assert marks.go_back(450) == 4
    marks.note_put([(4, 450, 50), (5, 500, 100)], 40)
    assert marks.go_back(599) == 40
    assert marks.go_back(0) == 0


def test_a_write_of_nothing_is_none_and_only_the_last_are_known():
    marks: PutMarks[int] = PutMarks()
    marks.note_put([], 0)
    assert marks.go_back(0) is None
    for number in range(WRITES_MAX + 5):
        marks.note(number + 1, number)
    assert marks.go_back(0) == 5


DEAD = "%DLQ%billing"


async def give_back(served, record: Record, delay_level=0, *, version=479, **more):
    header = SendBackRequest(record.physical_offset, "billing", delay_level, **more)
    return await served.ask(
        RequestCode.CONSUMER_SEND_MSG_BACK, encode_fields(header), version=version
    )


@pytest.fixture
async def consumed(tmp_path):
    """A broker, its clock, and a message that was consumed in vain."""
    clock = HandClock()
    async with by_hand(tmp_path, clock) as served:
        await send(served, b"body", {"TAGS": "t", "KEYS": "k"}, flag="5", queue_id=1)
        (record,) = await lying_in(served, "Orders", 1)
        yield served, clock, record


async def test_it_comes_again_after_ten_seconds_and_knows_where_it_was(consumed):
    served, clock, record = consumed
    assert (await give_back(served, record)).code == ResponseCode.SUCCESS
    (waiting,) = await lying_in(served, SCHEDULE, 2)
    assert waiting.properties()["REAL_TOPIC"] == RETRY
    clock.turn(10)
    (again,) = await delivered(served, 1, RETRY)
    assert (again.body, again.flag, again.reconsume_times) == (b"body", 5, 1)
    assert (again.born_timestamp, again.born_host) == (record.born_timestamp, record.born_host)
    first_id = encode_message_id(record.store_host, record.physical_offset)
    assert again.properties().items() >= {
        ("RETRY_TOPIC", "Orders"), ("ORIGIN_MESSAGE_ID", first_id), ("TAGS", "t"),
        ("KEYS", "k"), ("WAIT", "false"), ("DELAY", "3"),
    }  # fmt: skip


async def test_a_message_that_cannot_be_stored_lets_no_other_pass_for_stored(
    consumed, monkeypatch
):
    """Both are sent back in one loop iteration, in which the first of them stores all."""
    served, _, bad = consumed
    await send(served, b"good", queue_id=1)
    _, good = await lying_in(served, "Orders", 1)
    made = Retries._retry

    def retry(self, record, *rest):
        if record.body == bad.body:
            raise ValueError("no message can be made of this record")
        return made(self, record, *rest)

    monkeypatch.setattr(Retries, "_retry", retry)
    answers = await asyncio.gather(give_back(served, bad), give_back(served, good))
    assert [each.code for each in answers] == [
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SUCCESS,
    ]
    (waiting,) = await lying_in(served, SCHEDULE, 2)
    assert waiting.body == b"good"


async def test_each_try_waits_a_level_longer_and_remembers_the_first_message(consumed):
    served, clock, record = consumed
    await give_back(served, record)
    clock.turn(10)
    (again,) = await delivered(served, 1, RETRY)
    await give_back(served, again)
    (waiting,) = await lying_in(served, SCHEDULE, 3)
    first_id = encode_message_id(record.store_host, record.physical_offset)
    assert waiting.reconsume_times == 2
    assert waiting.properties().items() >= {
        ("RETRY_TOPIC", "Orders"), ("ORIGIN_MESSAGE_ID", first_id), ("DELAY", "4"),
    }  # fmt: skip


async def test_its_consumer_may_choose_the_level(consumed):
    served, _, record = consumed
    await give_back(served, record, 1)
    assert len(await lying_in(served, SCHEDULE, 0)) == 1


@pytest.mark.parametrize(
    ("delay_level", "retries"), [(-1, None), (0, 0)], ids=["at once", "after the last try"]
)
async def test_what_gets_no_further_try_is_a_dead_letter(consumed, delay_level, retries):
    served, _, record = consumed
    await give_back(served, record, delay_level, max_reconsume_times=retries)
    (dead,) = await delivered(served, 1, DEAD)
    assert (dead.body, dead.reconsume_times, dead.properties()["DELAY"]) == (b"body", 1, "0")
    assert dead.properties()["RETRY_TOPIC"] == "Orders"
    topic = served.broker._topics.get(DEAD)
    assert (topic.read_queues, topic.write_queues, topic.perm) == (1, 1, 6)


async def test_the_groups_number_of_tries_counts_for_old_clients(consumed):
    served, _, record = consumed
    await served.broker._groups.put(GroupConfig("billing", retry_max_times=0))
    await give_back(served, record, max_reconsume_times=5, version=120)
    assert len(await lying_in(served, DEAD)) == 1
    await give_back(served, record, max_reconsume_times=5, version=121)
    assert len(await lying_in(served, SCHEDULE, 2)) == 1


@pytest.mark.parametrize("queues", [0, -1])
async def test_what_a_group_without_retry_queues_refuses_is_a_dead_letter_and_not_gone(
    consumed, queues
):
    served, _, record = consumed
    await served.broker._groups.put(GroupConfig("billing", retry_queues=queues))
    assert (await give_back(served, record)).code == ResponseCode.SUCCESS
    assert await lying_in(served, SCHEDULE, 2) == []
    assert [each.body for each in await lying_in(served, DEAD)] == [b"body"]
    # As a client of 5.x sends it by itself, where the broker refuses to take it back.
    sent = await send(served, b"own", {"RETRY_TOPIC": "Orders"}, RETRY)
    assert sent.code == ResponseCode.SUCCESS
    assert [each.body for each in await lying_in(served, DEAD)] == [b"body", b"own"]


async def test_a_unit_is_noted_in_the_retry_topic(consumed):
    served, _, record = consumed
    await served.broker._groups.put(GroupConfig("billing", retry_queues=3))
    await give_back(served, record, unit_mode=True)
    topic = served.broker._topics.get(RETRY)
    assert (topic.sys_flag, topic.read_queues) == (TOPIC_UNIT_SUB, 3)


async def test_what_cannot_be_given_back_is_refused_by_name(consumed):
    served, _, record = consumed
    for place in (1, served.broker._store.max_offset):
        answer = await give_back(served, record._replace(physical_offset=place))
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert answer.remark == f"look message by offset failed, {place}"
    await served.broker._topics.put(TopicConfig(RETRY, 1, 1, PERM_READ))
    answer = await give_back(served, record)
    assert answer.code == ResponseCode.NO_PERMISSION


async def test_an_unknown_group_is_refused_where_groups_are_not_made(tmp_path):
    async with by_hand(tmp_path, HandClock(), is_group_auto_created=False) as served:
        await served.broker._groups.put(GroupConfig("g"))
        await send(served, b"b")
        (record,) = await lying_in(served, "Orders")
        answer = await give_back(served, record)
    assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_a_client_that_sends_its_retry_itself_waits_its_level(consumed):
    served, _, _ = consumed
    served.broker._groups.get("billing")
    await send(served, b"again", {"DELAY": "4", "RETRY_TOPIC": "Orders"}, RETRY)
    (waiting,) = await lying_in(served, SCHEDULE, 3)
    assert waiting.properties()["REAL_TOPIC"] == RETRY


@pytest.mark.parametrize("is_ordered", [False, True])
async def test_such_a_retry_is_a_dead_letter_after_its_last_try_or_from_a_group_in_order(
    consumed, is_ordered
):
    served, _, _ = consumed
    served.broker._groups.get("billing")
    if is_ordered:
        queue = MessageQueue("Orders", "broker-a", 0)
        served.broker._locks.lock([queue], group="billing", client_id="c")
    properties = {"DELAY": "4", "RETRY_TOPIC": "Orders"}
    await send(served, b"b", properties, RETRY, reconsumeTimes="3", maxReconsumeTimes="3")
    await send(served, b"b", properties, RETRY, reconsumeTimes="4", maxReconsumeTimes="3")
    dead = await lying_in(served, DEAD)
    assert len(dead) == (2 if is_ordered else 1)
    assert dead[0].properties()["DELAY"] == "-1"


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

    def prepared(*asked: Any) -> asyncio.Future[ReturnedMessage]:
        return run(retries.prepare(SendBackRequest(*asked), version=NEW, may=_anything))

    asked = [(0, "g", 0), (places[0], "g", 0), (places[1], "g", -1), (0, "other", 0)]
    returned = [await prepared(*each) for each in asked]
    with pytest.raises(RequestError, match="sending message is forbidden"):
        await prepared(0, "closed", 0)
    await run(retries.store(returned))
    outcomes = [type(each.error) for each in returned]
    assert outcomes == [type(None), CodecError, type(None), type(None)]
    assert [record.body for record in read_all(store, SCHEDULE, 2)] == [b"a", b"a"]
    assert [record.body for record in read_all(store, "%DLQ%g")] == [b"hello"]
    assert len(writes) < 4, "not a write each"
    assert tables.counters.sent_back.get("orders", "g").count == 2
    assert tables.counters.dead.get("orders", "g").count == 1
