"""Pop at the broker: what is handed out, hidden, acknowledged, and comes again."""

from __future__ import annotations

import asyncio

import pytest

from cometmq.broker.settings.store_keys import FlushDiskType
from cometmq.codec.bodies.batch_ack import BatchAck, encode_batch_ack
from cometmq.codec.receipt import Receipt, decode_starts
from cometmq.codec.record import decode_records
from cometmq.codec.remoting import Command, encode_command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.flags import ONEWAY
from cometmq.wire.connection import Connection
from tests.support import request_fields
from tests.support.hand_clock import HandClock
from tests.support.request_fields import short_fields
from tests.unit.broker.conftest import eventually, serve

POP, ACK = RequestCode.POP_MESSAGE, RequestCode.ACK_MESSAGE
CHANGE = RequestCode.CHANGE_MESSAGE_INVISIBLETIME
RETRY = "%RETRY%g_Orders"
# Long enough for an acknowledgement to be in time on a busy machine.
HIDDEN_MS = 2_000
HIDDEN_OVER_A_RESTART_MS = 5_000


async def send(served, *bodies, queue_id=0, topic="Orders", **properties):
    for body in bodies:
        fields = short_fields(topic, queue_id, properties={"UNIQ_KEY": "K1"} | properties)
        await served.done(RequestCode.SEND_MESSAGE_V2, fields, body)


def pop_fields(topic="Orders", **more):
    return request_fields.pop_fields(topic, **{"bornTime": 0} | more)


async def pop(served, **more):
    return await served.ask(POP, pop_fields(**more))


def handles(answer):
    """Of each message: its handle, made as a client makes it."""
    fields = answer.fields
    starts = decode_starts(fields["startOffsetInfo"])
    found = []
    for record in decode_records(answer.body):
        given = record.properties().get("POP_CK")
        made = Receipt(
            starts["0", record.queue_id] if given is None else 0,
            int(fields["popTime"]), int(fields["invisibleTime"]), int(fields["reviveQid"]),
            "0", "broker-a", record.queue_id, record.queue_offset,
        )  # fmt: skip
        found.append(given or str(made))
    return found


def bodies(answer):
    return [record.body for record in decode_records(answer.body)]


def names(handle, **more):
    """The header that names a message by its handle."""
    words = handle.split(" ")
    topic = {"0": "Orders", "1": RETRY, "2": "%RETRY%g+Orders"}[words[4]]
    fields = {
        "consumerGroup": "g", "topic": topic, "queueId": words[6], "extraInfo": handle,
        "offset": words[7],
    }  # fmt: skip
    return fields | {name: str(value) for name, value in more.items()}


async def test_messages_are_handed_out_once_while_they_are_hidden(served):
    await send(served, b"1", b"2", b"3")
    first = await pop(served, maxMsgNums=2)
    assert first.code == ResponseCode.SUCCESS
    assert bodies(first) == [b"1", b"2"]
    assert first.fields["startOffsetInfo"] == "0 0 0"
    assert first.fields["msgOffsetInfo"] == "0 0 0,1"
    assert first.fields["restNum"] == "1"
    assert "orderCountInfo" not in first.fields
    assert bodies(await pop(served)) == [b"3"]
    nothing = await pop(served)
    assert nothing.code == ResponseCode.POLLING_TIMEOUT
    other = await pop(served, consumerGroup="h")
    assert bodies(other) == [b"1", b"2", b"3"]


async def test_a_pop_goes_round_all_queues(served):
    for queue_id in range(4):
        await send(served, b"%d" % queue_id, queue_id=queue_id)
    answer = await pop(served)
    assert sorted(bodies(answer)) == [b"0", b"1", b"2", b"3"]
    assert len(answer.fields["startOffsetInfo"].split(";")) == 4


async def test_what_is_not_acknowledged_comes_again_from_the_retry_topic(served):
    await send(served, b"1", b"2", TAGS="t")
    first = await pop(served, invisibleTime=HIDDEN_MS)
    await served.ask(ACK, names(handles(first)[0]))
    again = await pop(served, pollTime=30_000)
    (record,) = decode_records(again.body)
    assert (record.body, record.topic, record.reconsume_times) == (b"2", "Orders", 1)
    assert record.properties()["1ST_POP_TIME"] == first.fields["popTime"]
    assert record.properties()["TAGS"] == "t"
    assert int(again.fields["popTime"]) >= int(first.fields["popTime"]) + HIDDEN_MS
    (handle,) = handles(again)
    assert handle.split(" ")[4:] == ["1", "broker-a", "0", "0"]
    await served.ask(ACK, names(handle))
    assert (await pop(served, pollTime=500)).code == ResponseCode.POLLING_TIMEOUT


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_a_message_may_come_again_and_again(tmp_path, flush):
    async with serve(tmp_path, flush_disk_type=flush) as served:
        await send(served, b"1")
        await pop(served, invisibleTime=100)
        for times in (1, 2, 3):
            answer = await pop(served, invisibleTime=100, pollTime=30_000)
            (record,) = decode_records(answer.body)
            assert record.reconsume_times == times


async def test_acknowledgements_of_one_read_are_each_answered_and_count(served):
    for queue_id in (0, 1):
        await send(served, b"%d" % queue_id, b"%d" % queue_id, queue_id=queue_id)
    given = handles(await pop(served))
    left = given.pop()
    asked = [
        *(names(handle) for handle in (given[0], given[2], given[1], given[0])),
        names(given[0], queueId=9),
        names(given[0]) | {"extraInfo": "x"},
    ]
    frames = [
        encode_command(Command(ACK, opaque=number * 1_000, fields=fields))
        for number, fields in enumerate(asked)
    ]
    oneway = encode_command(Command(ACK, opaque=7, flag=ONEWAY, fields=names(given[1])))
    answers = await exchange(served, b"".join([*frames, oneway]), count=len(asked))
    assert sorted((answer.opaque, answer.code) for answer in answers) == [
        (0, 0), (1_000, 0), (2_000, 0), (3_000, 0), (4_000, 13), (5_000, 29),
    ]  # fmt: skip
    points = served_check_points(served)
    (point,) = points._by_key.values()
    assert f"{point.body.queue_id}" == left.split(" ")[6]
    assert point.offsets_of(~point.acknowledged) == (int(left.split(" ")[7]),)


async def exchange(served, frames, *, count):
    """Write frames at once; so many answers."""
    host, port = served.broker.address.rsplit(":", 1)
    reader, writer = await asyncio.open_connection(host, int(port))
    wire: Connection[None] = Connection()
    answers: list[Command] = []
    writer.write(frames)
    async with asyncio.timeout(30):
        while len(answers) < count:
            read = await reader.read(65_536)
            assert read, "the broker closed the connection"
            answers += [Command(*answer) for answer in wire.receive_data(read)]
    writer.close()
    await writer.wait_closed()
    return answers


async def test_a_batch_acknowledges_what_its_bits_say(served):
    await send(served, b"1", b"2", b"3")
    first = await pop(served, invisibleTime=HIDDEN_MS)
    ack = BatchAck(
        "g", "Orders", "0", 0, 0, int(first.fields["reviveQid"]), int(first.fields["popTime"]),
        HIDDEN_MS, (0, 2),
    )  # fmt: skip
    await served.done(RequestCode.BATCH_ACK_MESSAGE, body=encode_batch_ack("broker-a", [ack]))
    assert bodies(await pop(served, pollTime=30_000)) == [b"2"]
    empty = await served.ask(RequestCode.BATCH_ACK_MESSAGE, body=b'{"acks":[]}')
    assert empty.code == ResponseCode.NO_MESSAGE


async def test_a_message_is_hidden_for_longer_or_shorter(served):
    await send(served, b"long", b"short")
    first = await pop(served, invisibleTime=HIDDEN_MS)
    long, short = handles(first)
    later = await served.done(CHANGE, names(long, invisibleTime=60_000))
    sooner = await served.ask(CHANGE, names(short, invisibleTime=100))
    again = await pop(served, pollTime=30_000)
    assert bodies(again) == [b"short"]
    assert int(sooner.fields["popTime"]) >= int(first.fields["popTime"])
    assert (await pop(served, pollTime=HIDDEN_MS)).code == ResponseCode.POLLING_TIMEOUT
    # The first handle is of no use any more, and the new one acknowledges.
    await served.ask(ACK, names(new_handle(later)))
    assert len(served_check_points(served)) == 1  # The short one's.


async def test_a_proxy_keeps_the_handles_of_a_pop_good_for_longer_or_gives_its_messages_back(
    served,
):
    await send(served, b"1", b"2")
    first, second = handles(await pop(served, invisibleTime=HIDDEN_MS))
    kept = {"invisibleTime": 60_000, "keepHandle": "true"}
    assert (await served.ask(CHANGE, names(first, **kept, offset=-1))).fields[
        "keepHandle"
    ] == "true"
    # Who asks about one message makes no time shorter.
    await served.done(CHANGE, names(second, **kept | {"invisibleTime": 1}, offset=1))
    assert (await pop(served, pollTime=HIDDEN_MS + 500)).code == ResponseCode.POLLING_TIMEOUT
    await served.done(ACK, names(first))
    refused = await served.ask(CHANGE, names(first, **kept))
    assert refused.code == ResponseCode.NO_MESSAGE
    assert "is hidden under the handle" in str(refused.remark)
    for wrong in ({"invisibleTime": -1}, {"extraInfo": "x y z"}):
        assert (await served.ask(CHANGE, names(second, **kept | wrong))).code != 0
    # Another message of the pop is still hidden; with 0 ms it comes again at once.
    await served.done(CHANGE, names(first, **kept | {"invisibleTime": 0}, offset=-1))
    assert bodies(await pop(served, pollTime=30_000)) == [b"2"]
    assert (await served.ask(CHANGE, names(second, **kept))).code == ResponseCode.NO_MESSAGE
    # Without a handle the answer only says that the broker can do this.
    able = await served.ask(CHANGE, names(first, **kept, extraInfo="", offset=-2))
    assert (able.code, able.fields["keepHandle"]) == (0, "true")


async def test_a_question_about_a_message_popped_in_order_makes_no_time_shorter(served):
    await send(served, b"1", b"2")
    first, second = handles(await pop(served, order="true"))
    short = {"invisibleTime": 1, "keepHandle": "true"}
    await served.done(CHANGE, names(second, **short, offset=1))
    again = await pop(served, order="true", pollTime=500)
    assert again.code == ResponseCode.POLLING_TIMEOUT
    await served.done(CHANGE, names(first, **short, offset=-1))
    assert bodies(await pop(served, order="true", pollTime=30_000)) == [b"1", b"2"]


def new_handle(changed) -> str:
    """The handle of the first message after its invisible time became 60 s."""
    of = changed.fields
    pop_time, revive = int(of["popTime"]), int(of["reviveQid"])
    return str(Receipt(0, pop_time, 60_000, revive, "0", "broker-a", 0, 0))


def served_check_points(served):
    return served.feature("_check_points")._check_points


async def test_a_waiting_pop_is_answered_by_a_message(served):
    await send(served, b"makes the topic")
    await pop(served)
    waiting = [await served.begin(POP, pop_fields(pollTime=20_000)) for _ in range(2)]
    polling = {"consumerGroup": "g", "topic": "Orders", "queueId": "-1"}

    async def all_wait():
        return (await served.ask(RequestCode.POLLING_INFO, polling)).fields["pollingNum"] == "2"

    await eventually(all_wait)
    await send(served, b"one")
    assert bodies(await waiting[0]) == [b"one"]
    assert not waiting[1].done()
    await send(served, b"two", queue_id=3)
    assert bodies(await waiting[1]) == [b"two"]


async def test_waiting_pops_go_with_their_connection_and_their_time(served):
    await send(served, b"1")
    await pop(served)
    waiting = served.feature("_waiting")._waiting
    call = await served.begin(POP, pop_fields(pollTime=20_000))
    call.add_done_callback(lambda done: done.exception())
    await eventually(lambda: len(waiting) == 1)
    (await served.channels.get(served.broker.address)).close()
    await eventually(lambda: len(waiting) == 0)
    watchers = [each for some in served.broker._polls._watchers.values() for each in some]
    assert waiting._arrived not in watchers
    late = await pop(served, pollTime=300)
    assert (late.code, late.remark) == (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")


async def test_more_pops_than_may_wait_are_told_so(tmp_path):
    async with serve(tmp_path, polling_max=1) as served:
        await send(served, b"1")
        await pop(served)
        calls = [await served.begin(POP, pop_fields(pollTime=5_000)) for _ in range(3)]
        done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        assert done.pop().result().code == ResponseCode.POLLING_FULL


async def test_a_notification_comes_when_there_is_something_to_pop(served):
    await send(served, b"1")
    fields = {"consumerGroup": "g", "topic": "Orders", "queueId": "-1", "pollTime": "0"}
    now = await served.ask(RequestCode.NOTIFICATION, fields)
    assert now.fields["hasMsg"] == "true"
    await pop(served)
    nothing = await served.ask(RequestCode.NOTIFICATION, fields)
    assert nothing.fields["hasMsg"] == "false"
    waiting = await served.begin(RequestCode.NOTIFICATION, fields | {"pollTime": "20000"})
    await asyncio.sleep(0.05)
    await send(served, b"2")
    assert (await waiting).fields["hasMsg"] == "true"


@pytest.mark.parametrize(
    "kind", [{"expType": "TAG", "exp": "b"}, {"expType": "SQL92", "exp": "TAGS = 'b'"}]
)
async def test_a_pop_filters_and_passes_over_what_is_not_wanted(served, kind):
    await send(served, b"1", b"2", TAGS="a")
    await send(served, b"3", TAGS="b")
    await send(served, b"4", TAGS="a")
    answer = await pop(served, **kind)
    assert bodies(answer) == [b"3"]
    assert answer.fields["msgOffsetInfo"] == "0 0 2"
    assert (await pop(served, **kind)).code == ResponseCode.POLLING_TIMEOUT
    offset = {"consumerGroup": "g", "topic": "Orders", "queueId": "0"}

    async def is_behind_all():
        told = await served.ask(RequestCode.QUERY_CONSUMER_OFFSET, offset)
        return told.fields.get("offset") == "4"

    await eventually(is_behind_all)


REFUSED: dict[str, tuple[dict[str, str | int], int]] = {
    "an unknown topic": ({"topic": "Nobody"}, 17),
    "a queue beyond the topic's": ({"queueId": 9}, 29),
    "too many at once": ({"maxMsgNums": 33}, 29),
    "no time to be hidden": ({"invisibleTime": 0}, 29),
    "an illegal group": ({"consumerGroup": "a b"}, 26),
    "a bad expression": ({"expType": "SQL92", "exp": "a >"}, 23),
    "a pop whose time is over": ({"bornTime": 1, "pollTime": 1}, 210),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_pop_is_refused_by_code_and_words(served, case):
    await send(served, b"1")
    changes, code = REFUSED[case]
    answer = await pop(served, **changes)
    assert answer.code == code
    assert answer.remark


async def test_bad_acknowledgements_are_refused(served):
    await send(served, b"1")
    (handle,) = handles(await pop(served))
    for code in (ACK, CHANGE):
        for changes, expected in (
            ({"topic": "Nobody"}, 17), ({"queueId": 9}, 13), ({"offset": 7}, 208),
            ({"extraInfo": "x y z"}, 29), ({"extraInfo": "1"}, 29),
        ):  # fmt: skip
            answer = await served.ask(code, names(handle, invisibleTime=5) | {
                name: str(value) for name, value in changes.items()
            })  # fmt: skip
            assert answer.code == expected, (code, changes, answer.remark)


@pytest.mark.parametrize("count", [1, 3])
async def test_a_handle_that_a_change_of_time_replaced_is_refused(served, count):
    """With a check point that is gone, and with one of which other messages are left."""
    await send(served, *[b"%d" % number for number in range(count)])
    old, *_ = handles(await pop(served))
    changed = await served.ask(CHANGE, names(old, invisibleTime=60_000))
    new = new_handle(changed)
    revive, pop_time = int(changed.fields["reviveQid"]), int(old.split(" ")[1])
    ack = BatchAck("g", "Orders", "0", 0, 0, revive, pop_time, 60_000, tuple(range(count)))
    refused = [
        await served.ask(ACK, names(old)),
        await served.ask(CHANGE, names(old, invisibleTime=1)),
        await served.ask(
            RequestCode.BATCH_ACK_MESSAGE, body=encode_batch_ack("broker-a", [ack])
        ),
    ]
    for answer in refused:
        assert answer.code == ResponseCode.MESSAGE_ILLEGAL
        assert "Orders@0@0 was replaced" in str(answer.remark)
    # The others of the batch are done with, the one with the new handle is not.
    assert [point.body.offsets for point in served_check_points(served).points()] == [(0,)]
    for _ in range(2):  # As an acknowledgement whose answer was lost, and is sent again.
        await served.done(ACK, names(new))
    assert len(served_check_points(served)) == 0
    # Nothing remembers it any more.
    await served.done(ACK, names(old))
    assert not served_check_points(served)._replacing


async def test_each_change_of_time_replaces_the_handle_before(served):
    await send(served, b"1")
    given = [handles(await pop(served))[0]]
    for _ in range(2):
        changed = await served.ask(CHANGE, names(given[-1], invisibleTime=60_000))
        given.append(new_handle(changed))
    codes = [(await served.ask(ACK, names(each))).code for each in given]
    assert codes == [ResponseCode.MESSAGE_ILLEGAL] * 2 + [ResponseCode.SUCCESS]


async def test_an_unknown_handle_changes_nothing(served):
    await send(served, b"1")
    (handle,) = handles(await pop(served))
    words = handle.split(" ")
    words[1] = "5"
    await served.done(ACK, names(" ".join(words)))
    await served.done(CHANGE, names(" ".join(words), invisibleTime=1))
    assert (await pop(served, pollTime=400)).code == ResponseCode.POLLING_TIMEOUT
    assert len(served_check_points(served)) == 1


async def test_a_new_time_for_what_was_handed_out_again_changes_nothing(served):
    await send(served, b"1")
    first = await pop(served, invisibleTime=HIDDEN_MS)
    assert bodies(await pop(served, pollTime=30_000, invisibleTime=60_000)) == [b"1"]
    await served.done(CHANGE, names(handles(first)[0], invisibleTime=1))
    assert (await pop(served, pollTime=HIDDEN_MS)).code == ResponseCode.POLLING_TIMEOUT


async def test_a_peek_shows_what_a_pop_would_give_and_changes_nothing(served):
    async def peek(**more):
        fields = {"consumerGroup": "g", "topic": "Orders", "queueId": "-1", "maxMsgNums": "2"}
        return await served.ask(
            RequestCode.PEEK_MESSAGE,
            fields | {name: str(value) for name, value in more.items()},
        )

    await send(served, b"1", b"2", b"3")
    for _ in range(2):
        answer = await peek()
        assert (answer.code, bodies(answer)) == (ResponseCode.SUCCESS, [b"1", b"2"])
        assert answer.fields["restNum"] == "1"
    assert bodies(await pop(served, maxMsgNums=1, invisibleTime=200)) == [b"1"]
    assert bodies(await peek(maxMsgNums=32)) == [b"2", b"3"]
    assert bodies(await peek(consumerGroup="h", queueId=0)) == [b"1", b"2"]

    async def is_retry_seen():
        return sorted(bodies(await peek(maxMsgNums=32))) == [b"1", b"2", b"3"]

    await eventually(is_retry_seen, seconds=30)
    nothing = await peek(queueId=3, consumerGroup="h")
    assert (nothing.code, nothing.body) == (ResponseCode.PULL_NOT_FOUND, b"")
    assert (await peek(topic="Nobody")).code == ResponseCode.TOPIC_NOT_EXIST
    await served.done(RequestCode.POP_ROLLBACK)


async def test_a_new_group_may_begin_at_the_end_of_a_long_topic(tmp_path):
    async with serve(tmp_path, access_in_memory_ratio=0) as served:
        await send(served, b"1", b"2", b"3")
        assert bodies(await pop(served, initMode=1)) == [b"3"]
        assert bodies(await pop(served, initMode=0, consumerGroup="h")) == [b"1", b"2", b"3"]


async def test_a_queue_that_was_added_while_a_group_was_away_is_popped_from_its_first_message(
    tmp_path,
):
    async with serve(tmp_path, access_in_memory_ratio=0) as served:
        await send(served, b"1", b"2")
        assert bodies(await pop(served, initMode=1, queueId=0)) == [b"2"]
        await asyncio.sleep(0.01)  # The next messages are younger, in ms.
        await send(served, b"3", b"4", queue_id=1)
        await send(served, b"5")
        assert bodies(await pop(served, initMode=1, queueId=1)) == [b"3", b"4"]
        # One that is new begins at the end of each.
        assert bodies(await pop(served, initMode=1, queueId=1, consumerGroup="h")) == [b"4"]
        assert bodies(await pop(served, initMode=1, queueId=0, consumerGroup="h")) == [b"5"]


async def test_retry_topics_of_the_second_form(tmp_path):
    async with serve(tmp_path, is_retry_topic_v2=True) as served:
        await send(served, b"1")
        await pop(served, invisibleTime=100)
        again = await pop(served, pollTime=30_000)
        (handle,) = handles(again)
        assert handle.split(" ")[4] == "2"
        await served.done(ACK, names(handle))


async def test_a_queue_in_order_is_closed_until_its_messages_are_acknowledged(served):
    await send(served, b"1", b"2", b"3")
    first = await pop(served, order="true", maxMsgNums=2)
    assert bodies(first) == [b"1", b"2"]
    assert first.fields["reviveQid"] == "999"
    assert (await pop(served, order="true")).code == ResponseCode.POLLING_TIMEOUT
    one, two = handles(first)
    await served.ask(ACK, names(one))
    assert (await pop(served, order="true")).code == ResponseCode.POLLING_TIMEOUT
    waiting = await served.begin(POP, pop_fields(order="true", pollTime=20_000))
    await asyncio.sleep(0.05)
    await served.ask(ACK, names(two))
    assert bodies(await waiting) == [b"3"]


async def test_what_is_not_acknowledged_in_order_comes_again_with_its_count(tmp_path):
    async with serve(tmp_path) as served:
        await send(served, b"1", b"2")
        first = await pop(served, order="true", invisibleTime=HIDDEN_OVER_A_RESTART_MS)
        await served.ask(ACK, names(handles(first)[0]))
    async with serve(tmp_path) as served:
        assert (await pop(served, order="true")).code == ResponseCode.POLLING_TIMEOUT
        again = await pop(served, order="true", pollTime=30_000)
        assert bodies(again) == [b"2"]
        assert again.fields["orderCountInfo"] == "0 qo0%1 1;0 0 1"


@pytest.mark.parametrize(("ahead_ms", "is_closed"), [(59_000, True), (3_600_000, False)])
async def test_a_queue_in_order_is_not_closed_for_as_long_as_the_clock_was_ahead(
    tmp_path, ahead_ms, is_closed
):
    now_ms = HandClock().now_ms()
    async with serve(tmp_path, clock=HandClock(now_ms + ahead_ms)) as served:
        await send(served, b"1")
        await pop(served, order="true")
    async with serve(tmp_path, clock=HandClock(now_ms)) as served:
        assert bodies(await pop(served, order="true")) == ([] if is_closed else [b"1"])


async def test_an_attempt_whose_answer_was_lost_gets_the_same_messages(served):
    await send(served, b"1")
    await pop(served, order="true", attemptId="a")
    again = await pop(served, order="true", attemptId="a")
    assert bodies(again) == [b"1"]
    assert again.fields["orderCountInfo"] == "0 0 0"


async def test_a_message_in_order_may_come_again_sooner(served):
    await send(served, b"1")
    (handle,) = handles(await pop(served, order="true"))
    await served.ask(CHANGE, names(handle, invisibleTime=100))
    assert bodies(await pop(served, order="true", pollTime=30_000)) == [b"1"]
