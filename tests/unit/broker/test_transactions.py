"""Half messages: invisible until they are committed, once; asked about; discarded and brought back."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Self

import pytest

from cometmq.broker.settings.store_keys import FlushDiskType
from cometmq.codec.batch import encode_batch
from cometmq.codec.properties import encode_properties
from cometmq.codec.record import Record, decode_record, decode_records
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from cometmq.model.names import HALF_TOPIC, OP_HALF_TOPIC, TRANS_CHECK_MAX_TIME_TOPIC
from cometmq.net.channel import Channel
from cometmq.net.loop import loop_clock
from tests.support.request_fields import pull_fields, short_fields
from tests.unit.broker.conftest import Served, eventually, serve
from tests.unit.broker.member import Member

GROUP = "payers"
COMMIT, ROLLBACK = str(TRANSACTION_COMMIT), str(TRANSACTION_ROLLBACK)
SOON: dict[str, Any] = {"transaction_timeout_ms": 0, "transaction_check_interval_ms": 50}


@dataclass
class Half:
    """A half message that the broker took."""

    key: str
    queue_offset: int
    physical_offset: int

    def end(self, how: str, *, is_check: bool = False) -> dict[str, str]:
        return {
            "producerGroup": GROUP,
            "tranStateTableOffset": str(self.queue_offset),
            "commitLogOffset": str(self.physical_offset),
            "commitOrRollback": how,
            "msgId": self.key,
            "fromTransactionCheck": str(is_check).lower(),
        }


async def send_half(served: Served, number: int = 0, **properties: str) -> Half:
    key = f"7F00000100000001{number:016X}"
    marks = {"UNIQ_KEY": key, "TRAN_MSG": "true", "PGROUP": GROUP, "TAGS": "t", **properties}
    fields = short_fields("Paid", 1, marks, sysFlag="4", bornTimestamp=now())
    answer = await served.done(RequestCode.SEND_MESSAGE_V2, fields, b"%d" % number)
    assert answer.fields["queueId"] == "1", "the queue that the sender chose"
    assert answer.fields["transactionId"] == key
    place = int(answer.fields["queueOffset"]), int(answer.fields["msgId"][-16:], 16)
    return Half(key, *place)


def now() -> str:
    return str(loop_clock().now_ms())


async def end(served: Served, half: Half, how: str, **more: str) -> Command:
    return await served.ask(RequestCode.END_TRANSACTION, half.end(how) | more)


async def messages(served: Served, topic: str, queue_id: int = 0) -> list[Record]:
    fields = pull_fields(topic, queue_id, consumerGroup="readers")
    return decode_records((await served.ask(RequestCode.PULL_MESSAGE, fields)).body)


async def bodies(served: Served) -> list[bytes]:
    return [record.body for record in await messages(served, "Paid", 1)]


class Producer(Member):
    """A producer of the group that collects what it is asked, and says what it was told to say."""

    def __init__(self, served: Served, says: str | None = None) -> None:
        super().__init__(served, answer=self._end)
        self.says = says

    async def __aenter__(self) -> Self:
        await self.beat(produces=[GROUP])
        return self

    def _end(self, command: Command, channel: Channel) -> None:
        assert command.code == RequestCode.CHECK_TRANSACTION_STATE
        if self.says is not None:
            half = Half(
                command.fields["msgId"],
                int(command.fields["tranStateTableOffset"]),
                int(command.fields["commitLogOffset"]),
            )
            fields = half.end(self.says, is_check=True)
            channel.oneway(Command(RequestCode.END_TRANSACTION, fields=fields))


@pytest.mark.parametrize("flush", FlushDiskType)
async def test_a_half_is_seen_when_it_is_committed_and_never_when_it_is_rolled_back(
    tmp_path, flush
):
    async with serve(tmp_path / "store", flush_disk_type=flush) as served:
        halves = [await send_half(served, number) for number in range(4)]
        assert await bodies(served) == []
        answers = await asyncio.gather(
            *(
                end(served, half, how)
                for half, how in zip(halves, [COMMIT, ROLLBACK] * 2, strict=True)
            )
        )
        assert [each.code for each in answers] == [ResponseCode.SUCCESS] * 4
        found = await eventually(lambda: messages(served, "Paid", 1))
        assert [record.body for record in found] == [b"0", b"2"]
        for record, half in zip(found, halves[::2], strict=True):
            assert record.sys_flag & TRANSACTION_COMMIT
            assert record.prepared_offset == half.physical_offset
            properties = record.properties()
            assert properties["__transactionId__"] == half.key
            assert (properties["REAL_TOPIC"], properties["REAL_QID"]) == ("Paid", "1")
        marks = [record.body for record in await messages(served, OP_HALF_TOPIC)]
        assert sorted(b",".join(marks).strip(b",").replace(b",,", b",").split(b",")) == [
            b"0", b"1", b"2", b"3",
        ]  # fmt: skip


async def test_a_second_end_does_nothing_or_is_refused(served):
    half = await send_half(served)
    for _ in range(2):
        assert (await end(served, half, COMMIT)).code == ResponseCode.SUCCESS
    late = await end(served, half, ROLLBACK)
    assert late.code == ResponseCode.ILLEGAL_OPERATION
    assert "another outcome: it was committed" in (late.remark or "")
    assert await bodies(served) == [b"0"]


@pytest.mark.parametrize(
    ("more", "remark"),
    [
        ({"producerGroup": "others"}, "The producer group wrong"),
        ({"commitLogOffset": "7"}, "The commit log offset wrong"),
        ({"tranStateTableOffset": "99"}, "Find prepared transaction message failed"),
    ],
)
async def test_an_end_of_something_else_is_refused_in_javas_words(served, more, remark):
    answer = await end(served, await send_half(served), COMMIT, **more)
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, remark)
    assert await bodies(served) == []


async def test_a_producer_that_says_nothing_is_asked_and_its_answer_counts(tmp_path):
    async with serve(tmp_path / "store", **SOON) as served:
        half = await send_half(served, 5)
        async with Producer(served, COMMIT) as producer:
            await eventually(lambda: bodies(served))
            fields, record = producer.asked[0].fields, decode_record(producer.asked[0].body)
            assert await bodies(served) == [b"5"]
            asked = len(producer.asked)
            # The copy that the producer knows is answered late: the message is there already.
            assert (await end(served, half, COMMIT)).code == ResponseCode.SUCCESS
            await asyncio.sleep(0.2)
            assert await bodies(served) == [b"5"]
            assert len(producer.asked) == asked, "nobody is asked once more"
    assert fields["topic"] == HALF_TOPIC
    assert fields["transactionId"] == fields["msgId"] == half.key
    assert fields["bname"] == "broker-a"
    assert fields["offsetMsgId"].endswith(f"{int(fields['commitLogOffset']):016X}")
    assert (record.topic, record.queue_id, record.body) == ("Paid", 1, b"5")
    # A round that came before the producer did has counted, too.
    assert int(record.properties()["TRANSACTION_CHECK_TIMES"]) >= 1


def times(producer: Producer) -> list[str]:
    """What each question says of how often it was asked."""
    records = [decode_record(each.body) for each in producer.asked]
    return [record.properties()["TRANSACTION_CHECK_TIMES"] for record in records]


async def test_a_half_that_nobody_knows_is_discarded_and_can_be_resumed(tmp_path):
    made = serve(tmp_path / "store", transaction_check_max=2, **SOON)
    async with made as served, Producer(served) as producer:
        half = await send_half(served)
        (discarded,) = await eventually(lambda: messages(served, TRANS_CHECK_MAX_TIME_TOPIC))
        assert times(producer) == ["1", "2"]
        late = await end(served, half, COMMIT)
        assert "discarded after too many checks" in (late.remark or "")
        producer.says = COMMIT
        host, offset = discarded.store_host.hex(), discarded.physical_offset
        await served.done(
            RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": f"{host}{offset:016x}".upper()}
        )
        assert await eventually(lambda: bodies(served)) == [b"0"]
        assert times(producer)[2] == "1"


async def test_offsets_follow_the_oldest_open_half(tmp_path):
    at_once: dict[str, Any] = {"flush_thorough_interval_ms": 50}
    async with serve(tmp_path / "store", **at_once) as served:
        halves = [await send_half(served, number) for number in range(3)]
        for half in halves:
            await end(served, half, COMMIT)
        offsets = served.broker._offsets

        def places() -> tuple[int | None, int | None]:
            return tuple(
                offsets.get("CID_RMQ_SYS_TRANS", topic, 0)
                for topic in (HALF_TOPIC, OP_HALF_TOPIC)
            )

        await eventually(lambda: places()[0] == 3 and places()[1] == 3, seconds=15)


@pytest.mark.parametrize(
    ("properties", "fields", "word"),
    [
        ({"DELAY": "3"}, {}, "delayed delivery"),
        ({"TRAN_MSG": "false"}, {"sysFlag": "4"}, "TRAN_MSG does not"),
    ],
)
async def test_what_cannot_be_a_half_is_refused(served, properties, fields, word):
    marks = {"UNIQ_KEY": "7F" * 16, "TRAN_MSG": "true", "PGROUP": GROUP, **properties}
    await served.refused(
        ResponseCode.MESSAGE_ILLEGAL,
        word,
        RequestCode.SEND_MESSAGE_V2,
        short_fields("Paid", 0, marks, **fields),
        b"x",
    )


async def test_a_batch_cannot_be_a_half(served):
    marks = {"UNIQ_KEY": "7F" * 16, "TRAN_MSG": "true", "PGROUP": GROUP}
    body = encode_batch([(0, b"x", encode_properties({"n": "1"}))])
    await served.refused(
        ResponseCode.MESSAGE_ILLEGAL,
        "batch",
        RequestCode.SEND_BATCH_MESSAGE,
        short_fields("Paid", 0, marks, batch="true"),
        body,
    )


async def test_transactions_can_be_forbidden(tmp_path):
    async with serve(tmp_path / "store", is_transaction_refused=True) as served:
        marks = {"UNIQ_KEY": "7F" * 16, "TRAN_MSG": "true", "PGROUP": GROUP}
        answer = await served.ask(
            RequestCode.SEND_MESSAGE_V2, short_fields("Paid", 0, marks), b"x"
        )
        assert answer.code == ResponseCode.NO_PERMISSION
