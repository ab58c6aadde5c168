"""A message for a time comes at its millisecond, whatever happens to the broker meanwhile."""

from __future__ import annotations

import json

import pytest

from cometmq.codec.recall_handle import decode_recall_handle
from cometmq.codec.timer_files import decode_check
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.topic import TopicConfig
from tests.support.hand_clock import HandClock
from tests.unit.broker.conftest import eventually, put_as_broker
from tests.unit.broker.waiting import by_hand, delivered, lying_in, send, stays_empty

TIMER = "rmq_sys_wheel_timer"
START = 1_700_000_000_000
KEY = "7F0000010000000118B4AAC200000001"


@pytest.fixture
async def timed(tmp_path):
    clock = HandClock(START)
    async with by_hand(tmp_path, clock, is_recall_on=True) as served:
        yield served, clock


async def in_wheel(served, count: int) -> None:
    """Wait until so many messages of the topic are in the wheel."""
    timer = served.feature("_files")
    await eventually(lambda: timer._files.queue_offset >= count)


ASKED = {
    "a delay in seconds": ({"TIMER_DELAY_SEC": "3"}, 3000, 2000),
    "a delay in ms": ({"TIMER_DELAY_MS": "2600"}, 2600, 2000),
    "a time": ({"TIMER_DELIVER_MS": str(START + 2600)}, 2600, 2000),
    "a time at which a second begins": ({"TIMER_DELIVER_MS": str(START + 4000)}, 4000, 3000),
    "seconds before a time": ({"TIMER_DELAY_SEC": "2", "TIMER_DELIVER_MS": "1"}, 2000, 1000),
}


@pytest.mark.parametrize("how", ASKED)
async def test_it_comes_at_its_millisecond_and_not_before(timed, how):
    served, clock = timed
    properties, due_ms, out_ms = ASKED[how]
    answer = await send(served, b"later", {**properties, "UNIQ_KEY": KEY}, queue_id=1)
    assert answer.code == ResponseCode.SUCCESS
    assert answer.fields["queueId"] == "1"
    (waiting,) = await lying_in(served, TIMER)
    assert waiting.properties().items() >= {
        ("TIMER_OUT_MS", str(START + out_ms)), ("REAL_TOPIC", "Orders"), ("REAL_QID", "1"),
    }  # fmt: skip
    await in_wheel(served, 1)
    clock.turn((due_ms - 1) / 1000)
    assert await stays_empty(served, queue_id=1)
    clock.turn(0.001)
    (record,) = await delivered(served, 1, queue_id=1)
    assert record.body == b"later"
    assert record.properties().items() >= {
        ("TIMER_OUT_MS", str(START + out_ms)), ("TIMER_ENQUEUE_MS", str(START)),
        ("TIMER_DEQUEUE_MS", str(START + due_ms)), ("REAL_TOPIC", "Orders"),
    }  # fmt: skip


async def test_a_time_that_is_over_is_now(timed):
    served, _ = timed
    answer = await send(served, b"now", {"TIMER_DELIVER_MS": str(START)})
    assert "recallHandle" not in answer.fields
    (record,) = await lying_in(served, "Orders")
    assert "REAL_TOPIC" not in record.properties()


async def test_a_delay_level_counts_before_a_time(timed):
    served, _ = timed
    await send(served, b"b", {"DELAY": "3", "TIMER_DELAY_MS": "100"})
    (record,) = await lying_in(served, "SCHEDULE_TOPIC_XXXX", 2)
    assert "TIMER_DELAY_MS" not in record.properties()


REFUSED = {
    "beyond timerMaxDelaySec": ({"TIMER_DELAY_SEC": "259201"}, ResponseCode.MESSAGE_ILLEGAL),
    "no number": ({"TIMER_DELAY_MS": "soon"}, ResponseCode.MESSAGE_ILLEGAL),
    "a number of 30 digits": ({"TIMER_DELIVER_MS": "9" * 30}, ResponseCode.MESSAGE_ILLEGAL),
    "a recall that comes too late": (
        {"TIMER_DELIVER_MS": "1", "TIMER_DEL_UNIQKEY": "Orders+k"},
        ResponseCode.MESSAGE_ILLEGAL,
    ),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_a_time_that_cannot_be_kept_is_refused(timed, why):
    served, _ = timed
    properties, code = REFUSED[why]
    answer = await send(served, b"b", properties)
    assert answer.code == code
    assert "timer message illegal" in answer.remark


async def test_without_a_wheel_times_are_refused(tmp_path):
    async with by_hand(tmp_path, HandClock(), is_timer_on=False) as served:
        answer = await send(served, b"b", {"TIMER_DELAY_MS": "1000"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "timerWheelEnable" in answer.remark


async def test_a_restart_delivers_what_was_due_meanwhile_and_keeps_the_rest(tmp_path):
    clock = HandClock(START)
    async with by_hand(tmp_path, clock) as served:
        await send(served, b"first", {"TIMER_DELAY_SEC": "5"})
        await send(served, b"second", {"TIMER_DELAY_SEC": "60"})
        await in_wheel(served, 2)
    check = decode_check((tmp_path / "config" / "timercheck").read_bytes())
    assert (check.read_ms, check.queue_offset, check.log_flushed) == (START, 2, 104)
    clock.turn(30)
    async with by_hand(tmp_path, clock) as served:
        assert [record.body for record in await delivered(served, 1)] == [b"first"]
        clock.turn(30)
        assert [r.body for r in await delivered(served, 2)] == [b"first", b"second"]
        answer = await served.ask(RequestCode.GET_TIMER_CHECK_POINT)
    assert decode_check(answer.body).queue_offset == 2


async def test_beyond_the_window_of_the_settings_it_goes_through_the_topic_again(tmp_path):
    clock = HandClock(START)
    async with by_hand(tmp_path, clock, timer_roll_window_slots=10) as served:
        await send(served, b"far", {"TIMER_DELAY_SEC": "25"})
        for seconds, count in ((0, 1), (11, 2), (6, 3)):
            clock.turn(seconds)
            await in_wheel(served, count)
        assert await stays_empty(served)
        clock.turn(8)
        (record,) = await delivered(served, 1)
    assert record.properties()["TIMER_ROLL_TIMES"] == "2"
    assert record.properties()["TIMER_DEQUEUE_MS"] == str(START + 25_000)


async def recall(served, answer, topic="Orders"):
    fields = {"topic": topic, "recallHandle": answer.fields["recallHandle"]}
    return await served.ask(RequestCode.RECALL_MESSAGE, fields)


async def test_it_can_be_taken_back(timed):
    served, clock = timed
    kept = await send(served, b"kept", {"TIMER_DELAY_SEC": "5"})
    lost = await send(served, b"lost", {"TIMER_DELAY_SEC": "5", "UNIQ_KEY": KEY})
    handle = decode_recall_handle(lost.fields["recallHandle"])
    assert handle == ("Orders", "broker-a", str(START + 4001), KEY)
    answer = await recall(served, lost)
    assert (answer.code, answer.fields["msgId"]) == (ResponseCode.SUCCESS, KEY)
    assert (await recall(served, kept, "Others")).code == ResponseCode.TOPIC_NOT_EXIST
    await in_wheel(served, 3)
    clock.turn(5)
    assert [record.body for record in await delivered(served, 1)] == [b"kept"]
    clock.turn(5)
    assert len(await lying_in(served, "Orders")) == 1


async def test_a_message_of_one_topic_took_back_one_of_another(timed):
    served, clock = timed
    await send(served, b"victim", {"TIMER_DELAY_SEC": "5", "UNIQ_KEY": KEY})
    forged = {"TIMER_DELAY_SEC": "5", "UNIQ_KEY": "m", "TIMER_DEL_UNIQKEY": f"Orders+{KEY}"}
    answer = await send(served, b"m", forged, topic="Mine")
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert "does not name a message of topic Mine" in answer.remark
    own = await send(served, b"m", {**forged, "TIMER_DEL_UNIQKEY": "Orders+other"})
    assert own.code == ResponseCode.SUCCESS
    await in_wheel(served, 2)
    clock.turn(5)
    assert [record.body for record in await delivered(served, 1)] == [b"victim"]


async def test_what_cannot_be_taken_back_is_refused_by_name(timed):
    served, clock = timed
    sent = await send(served, b"b", {"TIMER_DELAY_SEC": "5"})
    await send(served, b"b", topic="Others")
    assert (await recall(served, sent, "Others")).code == ResponseCode.ILLEGAL_OPERATION
    sent.fields["recallHandle"] += "x"
    assert (await recall(served, sent)).code == ResponseCode.ILLEGAL_OPERATION
    sent.fields["recallHandle"] = sent.fields["recallHandle"][:-1]
    clock.turn(5)
    answer = await recall(served, sent)
    assert (answer.code, answer.remark) == (604, "recall failed, timestamp invalid")


async def test_recalls_are_off_unless_they_are_wanted(tmp_path):
    async with by_hand(tmp_path, HandClock()) as served:
        sent = await send(served, b"b", {"TIMER_DELAY_SEC": "5"})
        assert (await recall(served, sent)).code == ResponseCode.NO_PERMISSION


async def test_what_clients_once_put_into_the_timers_topic_harms_nobody(timed):
    served, clock = timed
    for properties in (
        {"TIMER_OUT_MS": "x"}, {"TIMER_OUT_MS": "1", "REAL_TOPIC": "../x", "REAL_QID": "0"},
        {"TIMER_OUT_MS": "1", "REAL_TOPIC": "Orders", "REAL_QID": "-1"}, {"k": "v"},
    ):  # fmt: skip
        put_as_broker(served, TIMER, b"bad", properties)
    await send(served, b"good", {"TIMER_DELAY_SEC": "1"})
    await in_wheel(served, 5)
    clock.turn(1)
    assert [record.body for record in await delivered(served, 1)] == [b"good"]


async def test_consoles_see_how_far_it_is(timed):
    served, clock = timed
    for seconds in (5, 60, 90):
        await send(served, b"b", {"TIMER_DELAY_SEC": str(seconds)})
    await send(served, b"b", {"DELAY": "1"})
    await in_wheel(served, 3)
    clock.turn(5)
    await delivered(served, 2)
    answer = await served.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    facts = json.loads(answer.body)["table"]
    assert (facts["timerOffsetBehind"], facts["scheduleMessageOffset_1"]) == ("0", "1,1")
    clock.turn(1)

    async def has_two_left() -> bool:
        answer = await served.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
        return json.loads(answer.body)["table"]["timerCongestNum"] == "2"

    await eventually(has_two_left)


async def test_a_topic_that_is_there_gets_its_messages_whatever_its_name(timed):
    served, _ = timed
    await served.broker._topics.put(TopicConfig("%RETRY%group+topic", 1, 1))
    properties = {"TIMER_OUT_MS": "1", "REAL_TOPIC": "%RETRY%group+topic", "REAL_QID": "0"}
    put_as_broker(served, TIMER, b"pop", properties)
    store = served.broker._store
    queue = await eventually(lambda: store.queue("%RETRY%group+topic", 0))
    assert len(store.entries(queue, 0, 9)) == 1
