"""A message for a time comes at its millisecond, whatever happens to the broker meanwhile.

Those that wait are counted by topic, in Java's files: timermetrics and transactionMetrics.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cometmq.codec.bodies.delay_offset import decode_delay_offsets
from cometmq.codec.bodies.waiting_counts import (
    TIMER,
    TRANSACTION,
    WaitingTable,
    decode_waiting,
    encode_waiting,
)
from cometmq.codec.queue_entry import decode_entry
from cometmq.codec.recall_handle import decode_recall_handle
from cometmq.codec.timer_files import decode_check
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import CodecError, StoreFull
from cometmq.model.topic import TopicConfig
from tests.support.hand_clock import HandClock
from tests.unit.broker.conftest import eventually, put_as_broker, serve
from tests.unit.broker.test_transactions import COMMIT, ROLLBACK, end, send_half
from tests.unit.broker.waiting import (
    SCHEDULE,
    by_hand,
    delivered,
    lying_in,
    send,
    stays_empty,
)

WHEEL = "rmq_sys_wheel_timer"
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
    (waiting,) = await lying_in(served, WHEEL)
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
        put_as_broker(served, WHEEL, b"bad", properties)
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
    put_as_broker(served, WHEEL, b"pop", properties)
    store = served.broker._store
    queue = await eventually(lambda: store.queue("%RETRY%group+topic", 0))
    assert len(store.entries(queue, 0, 9)) == 1


async def test_it_waits_where_java_lets_it_wait(tmp_path, clock):
    async with by_hand(tmp_path, clock) as served:
        answer = await send(served, b"b", {"DELAY": "3", "UNIQ_KEY": KEY}, queue_id=2)
        assert answer.code == ResponseCode.SUCCESS
        assert (answer.fields["queueId"], answer.fields["queueOffset"]) == ("2", "0")
        queue = served.broker._store.queue(SCHEDULE, 2)
        (entry,) = served.broker._store.entries(queue, 0, 10)
        assert entry.tags_code == clock.now_ms() + 10_000
        (record,) = await lying_in(served, SCHEDULE, 2)
    assert record.properties().items() >= {
        ("DELAY", "3"), ("REAL_TOPIC", "Orders"), ("REAL_QID", "2"), ("UNIQ_KEY", KEY),
    }  # fmt: skip


async def test_it_comes_when_it_is_due_and_not_before(tmp_path, clock):
    async with by_hand(tmp_path, clock) as served:
        await send(served, b"later", {"DELAY": "2", "TAGS": "t"}, flag="7", queue_id=1)
        clock.turn(4.999)
        assert await stays_empty(served, queue_id=1)
        clock.turn(0.001)
        (record,) = await delivered(served, 1, queue_id=1)
        queue = served.broker._store.queue("Orders", 1)
        (entry,) = served.broker._store.entries(queue, 0, 1)
    assert (record.body, record.flag, record.born_timestamp) == (b"later", 7, 1_700_000_000_000)
    assert record.properties()["DELAY"] == "2"  # Java's keeps it, too.
    assert entry.tags_code == ord("t")


async def test_levels_can_be_chosen_and_the_last_one_stands_for_all_beyond(tmp_path, clock):
    async with by_hand(tmp_path, clock, delay_levels="1s 3s") as served:
        await send(served, b"beyond", {"DELAY": "18"})
        (record,) = await lying_in(served, SCHEDULE, 1)
        assert record.properties()["DELAY"] == "2"
        clock.turn(3)
        assert [r.body for r in await delivered(served, 1)] == [b"beyond"]


async def test_a_restart_goes_on_where_it_was(tmp_path, clock):
    async with by_hand(tmp_path, clock) as served:
        await send(served, b"first", {"DELAY": "1"})
        await send(served, b"second", {"DELAY": "3"})
        clock.turn(1)
        await delivered(served, 1)
    file = tmp_path / "config" / "delayOffset.json"
    assert decode_delay_offsets(file.read_text()).offsets == {1: 1, 3: 0}
    clock.turn(10)
    async with by_hand(tmp_path, clock) as served:
        found = await delivered(served, 2)
        answer = await served.ask(RequestCode.GET_ALL_DELAY_OFFSET)
    assert [record.body for record in found] == [b"first", b"second"]
    assert decode_delay_offsets(answer.body).offsets == {1: 1, 3: 1}


async def test_a_start_brings_back_an_offset_beyond_its_queue(tmp_path, clock):
    async with by_hand(tmp_path, clock) as served:
        await send(served, b"b", {"DELAY": "1"})
    text = json.dumps({"dataVersion": {}, "offsetTable": {"1": 99, "7": 3}})
    (tmp_path / "config" / "delayOffset.json").write_text(text)
    async with by_hand(tmp_path, clock) as served:
        await send(served, b"c", {"DELAY": "1"})
        clock.turn(1)
        assert [record.body for record in await delivered(served, 1)] == [b"c"]


@pytest.mark.parametrize("error", [StoreFull("no room"), KeyError("a fault of ours")])
async def test_a_delivery_that_fails_is_tried_again_and_harms_no_other_level(
    tmp_path, error, clock
):
    async with by_hand(tmp_path, clock, delay_levels="1s 1s") as served:
        await send(served, b"stuck", {"DELAY": "1"})
        await send(served, b"other", {"DELAY": "2"}, topic="Others")
        store, put_many = served.broker._store, served.broker._store.put_many
        failed: list[int] = []

        def refuse(puts):
            if puts[0][2] == b"stuck" and not failed:
                failed.append(1)
                raise error
            return put_many(puts)

        store.put_many = refuse
        clock.turn(1)
        await delivered(served, 1, "Others")
        assert failed
        assert await stays_empty(served)
        clock.turn(1)
        assert [record.body for record in await delivered(served, 1)] == [b"stuck"]


async def test_nobody_reaches_the_delay_queue_by_its_name(tmp_path):
    async with by_hand(tmp_path, HandClock()) as served:
        await send(served, b"b", {"DELAY": "3"})
        answer = await send(served, b"b", topic=SCHEDULE, queue_id=2)
    assert answer.code == ResponseCode.NO_PERMISSION


def test_the_entry_has_room_for_a_time():
    assert (
        decode_entry(b"\0" * 12 + (1_700_000_010_000).to_bytes(8)).tags_code
        == 1_700_000_010_000
    )


ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "format" / "waiting-counts.md"
NOON = 1_700_000_000_000
JAVAS = ROOT / "tests/golden/stores/clean/store/config/transactionMetrics"


def test_the_page_shows_what_the_code_writes():
    table = WaitingTable(DataVersion(NOON, 15), {"Orders": (3, NOON)})
    assert f"    {encode_waiting(table, TRANSACTION)}\n" in PAGE.read_text()


def test_what_java_wrote_comes_back_byte_for_byte():
    text = JAVAS.read_text()
    table = decode_waiting(text, TRANSACTION)
    assert table.counts["GoldenTx"][0] == 3
    assert encode_waiting(table, TRANSACTION) == text


@pytest.mark.parametrize("text", ["", "[]", '{"timingCount":{"a":1}}'])
def test_what_means_nothing_is_refused(text):
    with pytest.raises(CodecError):
        decode_waiting(text, TIMER)


def counts(folder: Path, name: str, member: str) -> dict[str, int]:
    told = json.loads((folder / "config" / name).read_text())[member]
    return {topic: of["count"] for topic, of in told.items()}


async def test_open_halves_are_counted(tmp_path):
    async with serve(tmp_path) as served:
        halves = [await send_half(served, number) for number in range(3)]
        await end(served, halves[0], COMMIT)
    assert counts(tmp_path, "transactionMetrics", TRANSACTION) == {"Paid": 2}
    async with serve(tmp_path) as served:
        await end(served, halves[1], COMMIT)
        await end(served, halves[2], ROLLBACK)
    assert counts(tmp_path, "transactionMetrics", TRANSACTION) == {"Paid": 0}


async def test_timed_messages_are_counted_and_told(tmp_path):
    clock = HandClock(START)

    async def told(served) -> dict[str, int]:
        body = (await served.ask(RequestCode.GET_TIMER_METRICS)).body
        return {topic: of["count"] for topic, of in json.loads(body)[TIMER].items()}

    async with by_hand(tmp_path, clock) as served:
        assert await told(served) == {}
        for delay_ms in ("3000", "5000"):
            await send(served, b"later", {"TIMER_DELAY_MS": delay_ms})
        await in_wheel(served, 2)
        assert await told(served) == {"Orders": 2}
        clock.turn(3)
        await delivered(served, 1)
        assert await told(served) == {"Orders": 1}
    assert counts(tmp_path, "timermetrics", TIMER) == {"Orders": 1}
    async with by_hand(tmp_path, clock) as served:
        clock.turn(3)
        await delivered(served, 2)
        assert await told(served) == {"Orders": 0}
