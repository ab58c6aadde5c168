"""No header or body of pop or of filters makes the broker fail inside: it answers, and what was sent is still there."""

import random
from pathlib import Path

from cometmq.codec.bodies.assignment import AssignmentQuery, encode_assignment_query
from cometmq.codec.bodies.batch_ack import BatchAck, encode_batch_ack
from cometmq.codec.record import decode_records
from cometmq.model.codes import RequestCode, ResponseCode
from tests.unit.broker.conftest import serve
from tests.unit.broker.test_pop import ACK, CHANGE, POP, handles, names, pop, pop_fields, send
from tests.unit.broker.test_pulls import config

EVIL = [
    None, "", " ", "-1", "0", "999", "1e9", "٣", "9223372036854775807", "-9223372036854775808",
    "99999999999999999999", "true", "%RETRY%g", "Orders", "a b", "\x01\x02", "é☂", "x" * 5_000,
    "0 0 0 999 0 b 0 0", "0 1 1 7 2 b 0 0", "0 -1 -1 -1 9 b -1 -1",
]  # fmt: skip
WAITS = ("pollTime", "bornTime")  # A pop that waits is no failure, and takes long.


def variants(fields: dict[str, str]):
    for name in fields:
        if name in WAITS:
            continue
        for value in EVIL:
            changed = {**fields, name: value}
            yield {key: text for key, text in changed.items() if text is not None}


def mutated(body: bytes, chance: random.Random) -> bytes:
    """A body with a piece changed, taken out or put in."""
    start = chance.randrange(len(body))
    end = min(start + chance.randrange(12), len(body))
    piece = chance.choice(
        [b"", b"null", b"-1", b"{}", b"[", b'"', b"9" * 30, b"\xff", b"1e999"]
    )
    return body[:start] + piece + body[end:]


async def test_headers_with_anything_in_them(tmp_path: Path):
    async with serve(tmp_path) as served:
        await send(served, b"1", b"2", b"3")
        one, two, _ = handles(await pop(served))
        orderly = handles(await pop(served, order="true", consumerGroup="o"))[0]
        notice = {"consumerGroup": "g", "topic": "Orders", "queueId": "-1", "pollTime": "0"}
        asked = [
            (POP, pop_fields(order="false", expType="SQL92", exp="a > 1", attemptId="x")),
            (ACK, names(one)),
            (ACK, names(orderly)),
            (CHANGE, names(two, invisibleTime=60_000)),
            (CHANGE, names(orderly, invisibleTime=60_000)),
            (RequestCode.NOTIFICATION, notice),
            (RequestCode.POLLING_INFO, notice),
            (RequestCode.PEEK_MESSAGE, notice | {"maxMsgNums": "2"}),
            (
                RequestCode.VIEW_BROKER_STATS_DATA,
                {"statsName": "TOPIC_PUT_NUMS", "statsKey": "T"},
            ),
        ]
        for code, fields in asked:
            for changed in variants(fields):
                answer = await served.ask(code, changed)
                assert "internal error" not in (answer.remark or ""), (code, changed)
        fresh = await pop(served, consumerGroup="fresh")
        assert [record.body for record in decode_records(fresh.body)] == [b"1", b"2", b"3"]


async def test_bodies_with_anything_in_them(tmp_path: Path):
    chance = random.Random(11)
    ack = BatchAck("g", "Orders", "0", 0, 0, 0, 1, 60_000, (0, 1))
    asked = [
        (RequestCode.BATCH_ACK_MESSAGE, encode_batch_ack("broker-a", [ack])),
        (RequestCode.CHECK_CLIENT_CONFIG, config("a > 5 AND b IN ('x')")),
        (RequestCode.QUERY_ASSIGNMENT, encode_assignment_query(AssignmentQuery("T", "g", "c"))),
    ]
    async with serve(tmp_path) as served:
        await send(served, b"1")
        for code, body in asked:
            for _ in range(150):
                answer = await served.ask(code, body=mutated(body, chance))
                assert "internal error" not in (answer.remark or ""), (code, body)
        assert (await pop(served)).code == ResponseCode.SUCCESS
