"""What is sent is what is stored and answered, on the straight way and on every other."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

import pytest

from cometmq.broker.send.requests.big_batches import PIECE_COUNT_MAX, is_big
from cometmq.broker.settings.store_keys import FlushDiskType
from cometmq.codec.batch import encode_batch, encode_item
from cometmq.codec.properties import decode_properties, encode_properties
from cometmq.codec.record import decode_record, decode_records
from cometmq.codec.remoting import Command
from cometmq.kernel import KERNEL
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.net.channels import Channels
from cometmq.net.loop import loop_clock
from tests.support.request_fields import (
    in_letters,
    long_fields,
    pull_fields,
    short_fields,
    topic_fields,
)
from tests.unit.broker.conftest import serve, virtual_loop

KEY = "7F0000010000000118B4AAC200000001"


async def stored(served, answer):
    """The record of a send's answer."""
    offset = str(int(answer.fields["msgId"][-16:], 16))
    view = await served.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": offset})
    return decode_record(view.body)


PLAIN = [
    {"UNIQ_KEY": KEY, "WAIT": "true"},
    {"UNIQ_KEY": KEY, "TAGS": "TagA", "KEYS": "k1 k2", "WAIT": "true"},
    {"KEYS": "k", "UNIQ_KEY": KEY, "TAGS": "é", "WAIT": "true", "color": "blauw ü"},
    {"TAGS": "t", "UNIQ_KEY": KEY * 2, "XTAGS": "no"},
    {"UNIQ_KEY": 'a"b\\c', "n": "1"},
    {"XUNIQ_KEY": "x", "n": "1"},
]


MEANINGLESS = [
    {name: value}
    for name, values in {
        "producerGroup": (None,),
        "topic": (None, ""),
        "defaultTopicQueueNums": ("four", "1.5", ""),
        "queueId": (None, "four", "-2", "9"),
        "sysFlag": (None, "four", str(1 << 40)),
        "bornTimestamp": (None, "four"),
        "flag": (None, "four", str(1 << 40)),
        "reconsumeTimes": ("four", str(1 << 40)),
        "unitMode": ("maybe",),
        "batch": ("maybe",),
        "maxReconsumeTimes": ("four",),
    }.items()
    for value in values
]
ONE_ITEM = encode_batch([(0, b"body", encode_properties({"UNIQ_KEY": KEY}))])


async def test_a_send_that_is_refused_before_its_lane_is_open_is_refused_behind_that(served):
    """A fast path reads few fields, and stored sends in which the others were missing or meant nothing."""
    sends: list[tuple[RequestCode, Callable[[dict[str, str]], dict[str, str]], bytes]] = [
        (RequestCode.SEND_MESSAGE, dict, b"body"),
        (RequestCode.SEND_MESSAGE_V2, in_letters, b"body"),
        (RequestCode.SEND_BATCH_MESSAGE, in_letters, ONE_ITEM),
    ]
    good = long_fields(properties=PLAIN[0])
    for code, named, body in sends:
        await served.done(code, named(good), body)
    for case in MEANINGLESS:
        for code, named, body in sends:
            answers = []
            for queue_id in ("0", "1"):  # Only the first has a lane.
                fields = good | {"queueId": queue_id} | case
                told = {name: text for name, text in fields.items() if text is not None}
                answer = await served.ask(code, named(told), body)
                assert answer.code != ResponseCode.SUCCESS, (code, case, queue_id)
                answers.append((answer.code, answer.remark))
            assert answers[0] == answers[1], (code, case)


@pytest.mark.parametrize("properties", PLAIN)
async def test_the_straight_way_stores_what_admission_stores(served, properties):
    await served.send(b"makes the topic")
    records = []
    for _ in range(2):  # The second time the tail of the properties is remembered.
        for code, fields in (
            (RequestCode.SEND_MESSAGE, long_fields(properties=properties, flag="7")),
            (RequestCode.SEND_MESSAGE_V2, short_fields(properties=properties, flag="7")),
        ):
            answer = await served.done(code, fields, b"body")
            record = await stored(served, answer)
            assert answer.fields["queueOffset"] == str(record.queue_offset)
            assert answer.fields["transactionId"] == record.properties()["UNIQ_KEY"]
            records.append(record)
    first = records[0]
    for record in records:
        found = record.properties()
        if "UNIQ_KEY" not in properties:
            found["UNIQ_KEY"] = first.properties()["UNIQ_KEY"]
        assert found == first.properties()
        assert found.items() >= properties.items()
        assert (record.body, record.flag, record.born_host) == (b"body", 7, first.born_host)
    assert [r.queue_offset for r in records] == list(range(1, 5))


async def test_the_broker_adds_region_cluster_and_trace(served):
    answer = await served.ask(
        RequestCode.SEND_MESSAGE_V2, short_fields(properties={"CLUSTER": "mine"}), b"b"
    )
    record = await stored(served, answer)
    assert record.properties().items() >= {
        ("MSG_REGION", "DefaultRegion"), ("CLUSTER", "DefaultCluster"), ("TRACE_ON", "true"),
    }  # fmt: skip
    assert answer.fields["MSG_REGION"] == "DefaultRegion"
    assert answer.fields["TRACE_ON"] == "true"


async def test_a_batch_is_stored_in_one_queue_and_answered_with_every_id(served):
    items = [(i, b"b%d" % i, encode_properties({"KEYS": f"k{i}"})) for i in range(30)]
    answer = await served.done(
        RequestCode.SEND_BATCH_MESSAGE,
        short_fields(properties={"UNIQ_KEY": KEY}, batch="true", queue_id=2),
        encode_batch(items),
    )
    ids = answer.fields["msgId"].split(",")
    assert len(ids) == 30
    assert answer.fields["queueOffset"] == "0"
    pulled = await served.ask(RequestCode.PULL_MESSAGE, pull_fields("Orders", 2))
    records = decode_records(pulled.body)
    assert [r.body for r in records] == [b"b%d" % i for i in range(30)]
    assert [r.flag for r in records] == list(range(30))
    assert decode_properties(records[3].property_block)["KEYS"] == "k3"
    assert [int(i[-16:], 16) for i in ids] == [r.physical_offset for r in records]


async def test_a_oneway_send_is_stored_and_not_answered(served):
    await served.send(b"first")
    channel = await served.channels.get(served.broker.address)
    channel.oneway(Command(310, fields=short_fields(properties=PLAIN[0]), body=b"second"))
    # It asks on the same connection, but a read's sends are stored behind its other requests.
    waits = pull_fields("Orders", offset=1, sysFlag="6", suspendTimeoutMillis="10000")
    pulled = await served.ask(RequestCode.PULL_MESSAGE, waits)
    assert [r.body for r in decode_records(pulled.body)] == [b"second"]


async def test_sends_of_one_read_keep_their_order_whatever_they_are(served):
    await served.send(b"0")
    kinds = [
        PLAIN[0],
        {"UNIQ_KEY": KEY, "WAIT": "false"},
        PLAIN[4],
        {"UNIQ_KEY": KEY, "DELAY": "0"},
    ]
    waiting = [
        await served.begin(310, short_fields(properties=kinds[i % 4]), b"%d" % i)
        for i in range(1, 40)
    ]
    answers = await asyncio.gather(*waiting)
    assert [a.fields["queueOffset"] for a in answers] == [str(i) for i in range(1, 40)]


REFUSED = {
    "a topic name that is a path": (short_fields("../x"), b"b", 13),
    "a topic name of 128 characters": (short_fields("t" * 128), b"b", 13),
    "an empty topic name": (short_fields(""), b"b", 13),
    "a topic name with control characters": (short_fields("a\x07b"), b"b", 13),
    "a topic that users may not send to": (short_fields("SCHEDULE_TOPIC_XXXX"), b"b", 16),
    "a queue beyond the topic's": (short_fields(queue_id=99), b"b", 29),
    "a queue below -1": (short_fields(queue_id=-2), b"b", 29),
    "an empty body": (short_fields(), b"", 13),
    "a body over the limit": (short_fields(), b"b" * 4_194_305, 13),
    "properties over the limit": (short_fields(properties={"p": "x" * 32_700}), b"b", 13),
    "a delay level that is no number": (short_fields(properties={"DELAY": "x"}), b"b", 13),
    "a transaction that does not say so": (short_fields(sysFlag="4"), b"b", 13),
    "a missing field": ({"b": "Orders"}, b"b", 29),
    "a number that is none": (short_fields(bornTimestamp="today"), b"b", 29),
    "a number beyond a record's": (short_fields(flag="2147483648"), b"b", 29),
    "a default topic that may not be inherited": (
        short_fields("Other", defaultTopic="SELF_TEST_TOPIC"), b"b", 17,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
async def test_a_send_is_refused_by_code_and_words(served, case):
    await served.send(b"makes the topic")
    fields, body, code = REFUSED[case]
    answer = await served.ask(RequestCode.SEND_MESSAGE_V2, fields, body)
    assert answer.code == code
    assert answer.remark
    await served.send(b"still here")


async def test_queue_minus_one_is_any_queue(served):
    queues = set()
    for _ in range(60):
        answer = await served.ask(RequestCode.SEND_MESSAGE_V2, short_fields(queue_id=-1), b"b")
        queues.add(answer.fields["queueId"])
    assert queues == {"0", "1", "2", "3"}


async def test_a_topic_that_lost_its_write_permission_refuses_at_once(served):
    await served.send(b"makes the topic")
    queues = {"topic": "Orders", "readQueueNums": "4", "writeQueueNums": "4"}
    await served.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, queues | {"perm": "4"})
    refused = await served.ask(RequestCode.SEND_MESSAGE_V2, short_fields(), b"b")
    assert refused.code == ResponseCode.NO_PERMISSION
    await served.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, queues | {"perm": "6"})
    await served.send(b"b")


async def test_of_a_turn_of_many_connections_only_the_message_too_long_for_a_file_is_refused(
    tmp_path,
):
    """Each connection's answers come in its order, and what it sent stands in its queue in that order."""
    async with serve(tmp_path, commitlog_file_size=65_536) as served:
        await served.send(b"makes the topic")
        clients = [Channels(loop_clock()) for _ in range(12)]
        channels = [await client.get(served.broker.address) for client in clients]
        for round_ in range(5):
            bodies = [
                [
                    bytes([number]) * 100,
                    bytes([number]) * (70_000 if number == 7 else 200),
                    b"end",
                ]
                for number in range(12)
            ]
            calls = [
                channel.start_call(
                    Command(RequestCode.SEND_MESSAGE_V2, fields=short_fields(), body=body),
                    timeout_ms=20_000,
                )
                for channel, some in zip(channels, bodies, strict=True)
                for body in some
            ]
            answers = await asyncio.gather(*calls)
            refused = [place for place, answer in enumerate(answers) if answer.code]
            assert refused == [7 * 3 + 1], round_
            assert answers[refused[0]].code == ResponseCode.MESSAGE_ILLEGAL
            for number in range(12):
                of_one = [
                    answer for answer in answers[3 * number : 3 * number + 3] if not answer.code
                ]
                offsets = [int(answer.fields["queueOffset"]) for answer in of_one]
                assert offsets == sorted(offsets)
                for answer, body in zip(
                    of_one, [b for b in bodies[number] if len(b) < 1000], strict=True
                ):
                    assert (await stored(served, answer)).body == body
        for client in clients:
            await client.close()


async def test_without_auto_creation_an_unknown_topic_is_named(tmp_path):
    async with serve(tmp_path, is_topic_auto_created=False) as served:
        send = RequestCode.SEND_MESSAGE_V2
        fields = short_fields("Nobody")
        await served.refused(ResponseCode.TOPIC_NOT_EXIST, "Nobody", send, fields, b"b")


async def test_a_sent_message_survives_a_restart_with_its_topic(tmp_path):
    async with serve(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as served:
        await served.send(b"kept", properties=PLAIN[1])
    async with serve(tmp_path) as served:
        pulled = await served.ask(RequestCode.PULL_MESSAGE, pull_fields("Orders"))
        assert [r.body for r in decode_records(pulled.body)] == [b"kept"]
        more = await served.ask(
            RequestCode.SEND_MESSAGE_V2, short_fields(properties=PLAIN[1]), b"more"
        )
        assert more.fields["queueOffset"] == "1"


async def test_with_synchronous_flush_nobody_reads_what_is_not_on_disk(tmp_path, monkeypatch):
    async with serve(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as served:
        await served.send(b"0")
        store = served.broker._store
        real, loop = store.flush_files, virtual_loop()

        def slow(upto):
            loop.clock.turn(0.01)
            real(upto)

        # A disk that was slow once: the next flushes are left to a thread (docs/design/0004).
        monkeypatch.setattr(store, "flush_files", slow)
        fields = short_fields(properties=PLAIN[0])
        await served.ask(RequestCode.SEND_MESSAGE_V2, fields, b"1")
        loop.executor_seconds = 1.0
        sends = [await served.begin(310, fields, b"x") for _ in range(10)]
        pulled = await served.ask(RequestCode.PULL_MESSAGE, pull_fields("Orders", offset=2))
        assert pulled.code == ResponseCode.PULL_NOT_FOUND
        assert not any(send.done() for send in sends)
        answers = await asyncio.gather(*sends)
        assert {answer.code for answer in answers} == {0}
        pulled = await served.ask(RequestCode.PULL_MESSAGE, pull_fields("Orders", offset=2))
        assert len(decode_records(pulled.body)) == 10


@pytest.fixture
async def unflushed(tmp_path, monkeypatch):
    """A broker with synchronous flush, whose disk fails behind the first message."""
    async with serve(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as served:
        await served.send(b"0")

        def broken(_upto):
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(served.broker._store, "flush_files", broken)
        yield served


async def test_a_failed_flush_is_told_and_final(unflushed):
    fields = short_fields(properties=PLAIN[0])
    first = await unflushed.ask(RequestCode.SEND_MESSAGE_V2, fields, b"1")
    assert first.code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert first.fields["msgId"]
    assert first.fields["transactionId"] == KEY
    second = await unflushed.ask(RequestCode.SEND_MESSAGE_V2, fields, b"2")
    assert second.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert second.remark


async def test_a_batch_that_is_not_on_disk_is_answered_once_with_all_its_ids(unflushed):
    fields = short_fields(properties=PLAIN[0], batch="true")
    items = encode_batch([(0, b"1", b""), (0, b"2", b""), (0, b"3", b"")])
    late = await unflushed.ask(RequestCode.SEND_BATCH_MESSAGE, fields, items)
    assert late.code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert len({*late.fields["msgId"].split(",")}) == 3
    assert late.fields["transactionId"] == KEY


async def test_no_send_to_a_new_topic_is_answered_before_the_topic_is_on_disk(served):
    virtual_loop().executor_seconds = 1.0  # So long a file takes.
    send = 310, short_fields("New", properties=PLAIN[0]), b"x"
    sends = [await served.begin(*send) for _ in range(3)]
    looked = {"topic": "New", "queueId": "0"}
    await served.ask(RequestCode.GET_MAX_OFFSET, looked)  # The sends have been read by now.
    sends.append(await served.begin(*send))
    await served.ask(RequestCode.GET_MAX_OFFSET, looked)
    assert not any(send.done() for send in sends)
    answers = await asyncio.gather(*sends)
    assert [answer.fields["queueOffset"] for answer in answers] == ["0", "1", "2", "3"]


async def test_any_queue_of_a_topic_without_write_queues_is_refused_by_name(served):
    topic = topic_fields("Closed", 4, writeQueueNums=0)
    await served.done(RequestCode.UPDATE_AND_CREATE_TOPIC, topic)
    await served.refused(
        ResponseCode.INVALID_PARAMETER,
        "0 write",
        RequestCode.SEND_MESSAGE_V2,
        short_fields("Closed", queue_id=-1),
        b"nowhere to go",
    )


async def test_a_broker_without_a_compiler_has_no_fast_path_that_costs_more_than_it_saves(
    served,
):
    intake = served.broker._server.dispatcher.intake
    assert (intake is not None) == (KERNEL == "fast")


@pytest.mark.parametrize("said", ["true", "TRUE", True, "1"])
def test_a_large_batch_is_stored_in_pieces_however_its_header_says_that_it_is_one(said):
    body = encode_item(0, b"", b"") * (PIECE_COUNT_MAX + 1)
    for code, name in ((310, "m"), (10, "batch")):
        assert is_big((code, 0, 1, 0, 0, None, {name: said}, body, 0))
        assert not is_big((code, 0, 1, 0, 0, None, {name: "false"}, body, 0))


async def test_files_of_a_broker_could_be_read_by_each_local_user(tmp_path):
    before = os.umask(0)
    try:
        async with serve(tmp_path / "store") as served:
            for properties in (
                {"UNIQ_KEY": KEY, "KEYS": "k"},
                {"UNIQ_KEY": KEY, "TIMER_DELAY_MS": "600000"},
            ):
                fields = short_fields(properties=properties)
                await served.ask(RequestCode.SEND_MESSAGE_V2, fields, b"b")
    finally:
        os.umask(before)
    made = [tmp_path / "store", *(tmp_path / "store").rglob("*")]
    assert len(made) > 15
    assert not [str(each) for each in made if each.stat().st_mode & 0o077]
