"""What a hostile, broken or merely strange nameserver or broker can do to our client: little.

One client process and one server of raw sockets serve all tests; each tells how long the client's loop was held and
how much memory it took.
"""

import json
import random
import re
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import lz4.frame
import pytest
import zstandard

from cometmq.codec.record import Record, encode_record
from tests.support.memory import MIB, MemoryWatch
from tests.support.strange_server import (
    BEAT,
    MEMBERS,
    PULL,
    ROUTE,
    SEND,
    TOPIC,
    StrangeServer,
    pulled,
)

HELD_MS_MAX = 250  # The client's own processor time in a turn of its loop, on a slow machine.
FLAGS = {"zlib": 0x301, "lz4": 0x101, "zstd": 0x201}
COMPRESS = {
    "zlib": zlib.compress,
    "lz4": lz4.frame.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}


class Said(NamedTuple):
    """What the client tells of one verb."""

    said: Any
    error: str
    held_ms: float
    seconds: float


class Client:
    """The client process."""

    def __init__(self, address: str, log: Path) -> None:
        self.log = log
        self._log_file = log.open("w")
        self._program = subprocess.Popen(
            [sys.executable, "-m", "tests.support.strange_client", address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log_file,
            text=True,
            cwd=Path(__file__).resolve().parents[2],
        )
        assert self._line() == "ready\n"

    def _line(self) -> str:
        assert self._program.stdout is not None
        return self._program.stdout.readline()

    def do(
        self,
        verb: str,
        number: int = 0,
        *,
        growth_max: int = 64 * MIB,
        held_ms_max: float = HELD_MS_MAX,
    ) -> Said:
        """Have it do something; its memory stays bounded, and its loop comes round."""
        assert self._program.stdin is not None
        with MemoryWatch(self._program.pid) as memory:
            self._program.stdin.write(f"{verb} {number}\n")
            self._program.stdin.flush()
            line = self._line()
        assert line, f"the client is gone: {self.log.read_text()[-2000:]}"
        said = Said(**json.loads(line))
        print(verb, str(said)[:300])
        memory.check(growth_max=growth_max)
        assert said.held_ms <= held_ms_max, str(said)[:300]
        return said

    def end(self) -> None:
        self._program.kill()
        self._program.communicate()
        self._log_file.close()


@pytest.fixture(scope="module")
def shared():
    with StrangeServer() as server:
        yield server


@pytest.fixture
def server(shared):
    shared.reset()
    return shared


@pytest.fixture(scope="module")
def client(shared, tmp_path_factory):
    process = Client(shared.address, tmp_path_factory.mktemp("client") / "client.log")
    process.do("route", held_ms_max=5_000)  # It imports the last of what it needs.
    yield process
    process.end()


def record(offset: int, body: bytes = b"x", **values: Any) -> bytes:
    return encode_record(Record(queue_offset=offset, topic=TOPIC, body=body, **values))


def records(count: int, body: bytes = b"x", **values: Any) -> bytes:
    return b"".join(record(at, body, **values) for at in range(count))


# --- routes


@pytest.mark.parametrize("queues", [100_000, (1 << 31) - 1])
def test_a_route_of_very_many_queues_is_refused_by_its_number(server, client, queues):
    body = json.dumps(server.route(queues)).encode()
    server.scripts[ROUTE] = lambda asked: asked.answer(body=body)
    said = client.do("route")
    assert said.error == "CodecError"
    assert f"'{TOPIC}' has {queues} queues, and a client accepts at most 65536" in said.said


def test_a_route_of_as_many_queues_as_a_broker_makes_is_taken(server, client):
    body = json.dumps(server.route(65_536)).encode()
    server.scripts[ROUTE] = lambda asked: asked.answer(body=body)
    assert client.do("route").said == 65_536


def test_an_order_configuration_of_very_many_queues_is_refused(server, client):
    route = {**server.route(2), "orderTopicConf": ";".join(f"b{at}:65536" for at in range(500))}
    server.scripts[ROUTE] = lambda asked: asked.answer(body=json.dumps(route).encode())
    assert "queues, and a client accepts at most 65536" in client.do("route").said


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_route_of_14_mib_is_refused_by_its_size(server, client, is_strict):
    brokers = [
        {"cluster": "c", "brokerName": f"b{at}", "brokerAddrs": {"0": "127.0.0.1:1"}}
        for at in range(190_000)
    ]
    body = json.dumps({**server.route(2), "brokerDatas": brokers}).encode()
    if not is_strict:
        body = body.replace(b'"0":', b"0:")
    assert 13 * MIB < len(body) < 16 * MIB
    server.scripts[ROUTE] = lambda asked: asked.answer(body=body)
    said = client.do("route")
    assert said.error == "CodecError"
    assert f"has {len(body)} bytes, and a client reads at most 2097152" in said.said


def test_a_route_of_a_thousand_brokers_is_taken_while_the_loop_goes_on(server, client):
    route = server.route(2)
    route["brokerDatas"] += [
        {"cluster": "c", "brokerName": f"b{at}", "brokerAddrs": {"0": "127.0.0.1:1"}}
        for at in range(10_000)
    ]
    body = json.dumps(route).encode().replace(b'"0":', b"0:")
    server.scripts[ROUTE] = lambda asked: asked.answer(body=body)
    assert client.do("route").said == 2


# --- messages


@pytest.mark.parametrize("kind", FLAGS)
def test_bombs_in_an_answer_are_unpacked_to_a_bound_and_the_rest_is_asked_for_again(
    server, client, kind
):
    bomb = COMPRESS[kind](bytes(20 * MIB))
    body = records(32, bomb, sys_flag=FLAGS[kind])
    server.scripts[PULL] = lambda asked: pulled(asked, 32, body)
    count, size, next_offset = client.do("fetch", 32, growth_max=160 * MIB).said
    assert (count, size, next_offset) == (3, 60 * MIB, 3)


def test_more_messages_than_were_asked_for_are_left_for_the_next_answer(server, client):
    body = records(150_000)
    server.scripts[PULL] = lambda asked: pulled(asked, 150_000, body)
    assert client.do("fetch", 32, growth_max=96 * MIB).said == [32, 32, 32]


def test_a_query_whose_messages_unpack_to_gigabytes_is_refused(server, client):
    body = records(64, zlib.compress(bytes(20 * MIB)), sys_flag=FLAGS["zlib"])
    server.scripts[12] = lambda asked: asked.answer({"indexLastUpdatePhyoffset": "1"}, body)
    said = client.do("by_key", 64, growth_max=340 * MIB)
    assert said.error == "BombError"
    assert "request fewer" in said.said


def test_popped_messages_are_as_many_as_were_asked_for_and_can_be_acknowledged(server, client):
    acknowledged: list[str] = []

    def acknowledge(asked: Any) -> bytes:
        acknowledged.append(asked.fields["extraInfo"])
        return asked.answer()

    garbage = b"POP_CK\1" + b"garbage" * 4_000 + b"\2"
    body = records(20, property_block=garbage)
    told = {"popTime": "1", "invisibleTime": "60000", "reviveQid": "1", "restNum": "0",
            "startOffsetInfo": "0 0 0", "msgOffsetInfo": ""}  # fmt: skip
    server.scripts[200050] = lambda asked: asked.answer(told, body)
    server.scripts[200051] = acknowledge
    assert client.do("pop", 8).said == [8, 8]
    assert acknowledged == [f"0 1 60000 1 0 broker 0 {at}" for at in range(8)]


# --- pulls that lead nowhere


@pytest.mark.parametrize(
    ("code", "step"), [(0, 0), (19, 0), (20, 0), (21, 0), (0, -1), (20, -1)]
)
def test_answers_that_lead_nowhere_are_asked_for_ever_more_slowly(server, client, code, step):
    server.scripts[PULL] = lambda asked: pulled(
        asked, max(int(asked.fields["queueOffset"]) + step, 0), code=code
    )
    client.do("push", 800)
    assert 2 <= server.counts[PULL] <= 40


def test_answers_that_send_us_round_in_circles_are_followed_ever_more_slowly(server, client):
    server.scripts[PULL] = lambda asked: pulled(
        asked, {"0": 5, "5": 9}.get(asked.fields["queueOffset"], 0), code=21
    )
    client.do("push", 800)
    assert 2 <= server.counts[PULL] <= 40


@pytest.mark.parametrize("offset", ["-5", str(1 << 62), "9" * 5_000])
def test_an_absurd_offset_is_neither_followed_nor_committed(server, client, offset):
    committed = set()

    def commit(asked: Any) -> bytes:
        committed.add(asked.fields["commitOffset"])
        return bytes(asked.answer())

    server.scripts[PULL] = lambda asked: pulled(asked, offset, code=20)
    server.scripts[15] = commit
    client.do("push", 500)
    assert 1 <= server.counts[PULL] <= 10
    assert committed <= {"0"}, "where the group begins"


# --- connections


def test_a_server_that_closes_each_connection_is_not_stormed(server, client):
    client.do("route")
    server.is_closing_each = True
    client.do("push", 1500)
    assert server.counts[0] <= 40


def test_an_endless_header_costs_no_memory(server, client):
    def answer(asked: Any) -> bytes:
        junk = b'{"code":0,"flag":1,"opaque":%d,"remark":"' % asked.opaque + b"x" * (15 * MIB)
        return struct.pack(">II", 4 + len(junk), len(junk)) + junk

    server.scripts[ROUTE] = answer
    said = client.do("route", growth_max=16 * MIB)
    assert said.error == "CodecError"
    assert "at most 262144 are allowed" in said.said


def test_answers_that_nobody_asked_for_are_forgotten(server, client):
    def answer(asked: Any) -> bytes:
        others = b"".join(
            asked._replace(opaque=1_000_000 + at).answer(body=bytes(1000))
            for at in range(20_000)
        )
        return others + server.plain(asked)

    server.scripts[ROUTE] = answer
    assert client.do("route", growth_max=24 * MIB).said == 2


def test_a_server_that_reads_nothing_is_given_up_within_the_time_of_a_send(server, client):
    client.do("send", 1)
    server.is_reading = False
    said = client.do("send", 2_000, growth_max=160 * MIB)
    assert set(said.said[0]) <= {"SendFailed", "RequestTimeout"}
    assert said.seconds < 30


def test_answers_of_any_other_type_are_errors_that_can_be_caught_together(server, client):
    chance = random.Random(7)
    bodies = [
        b"", b"{}", b"[]", b"null", b"7", b'"x"', b"\xff\xfe", b"[" * 1000, b"{" * 40, b'{"a":', bytes(91),
        record(0), record(0)[:-3], b'{"topicList":[1,null]}', b'{"consumerIdList":{"a":1}}',
        b'{"brokerAddrTable":{"b":{"brokerAddrs":{"x":[]},"brokerName":5}},"clusterAddrTable":{"c":"b"}}',
        b'{"subscriptionGroupTable":{"g":[]}}', b'{"offsetTable":{"x":1}}', b'{"connectionSet":[{}]}',
        json.dumps(server.route(2)).encode(), b'{"queueDatas":[{"brokerName":"b","perm":1e400}]}',
    ]  # fmt: skip
    values = ["", "x", "-1", "9" * 400, "1", "\x00", "1.5", "null"]
    names = ["offset", "nextBeginOffset", "minOffset", "maxOffset", "suggestWhichBrokerId", "queueId",
             "queueOffset", "popTime", "invisibleTime", "reviveQid", "restNum", "startOffsetInfo"]  # fmt: skip

    def answer(asked: Any) -> bytes:
        if asked.code == ROUTE and chance.random() < 0.7:
            return server.plain(asked)
        fields = {name: chance.choice(values) for name in names if chance.random() < 0.9}
        return asked.answer(
            fields, chance.choice(bodies), code=chance.choice([0, 0, 0, 1, 17, 21, 99999])
        )

    for code in range(1000):
        server.scripts[code] = answer
    for code in (200050, 200051, 200054, 30003):
        server.scripts[code] = answer
    assert client.do("everything", 40).said == []


# --- remarks


def test_a_remark_forges_no_line_of_a_log_and_fills_none(server, client):
    remark = "no\n2026-11-23 07:44:02 CRITICAL all is lost\x1b[2J" + "x" * 200_000
    server.scripts[SEND] = lambda asked: asked.answer(code=13, remark=remark)
    server.scripts[PULL] = lambda asked: asked.answer(code=1, remark=remark)
    server.scripts[MEMBERS] = lambda asked: asked.answer(code=1, remark=remark)
    server.scripts[BEAT] = lambda asked: asked.answer(code=1, remark=remark)
    before = client.log.stat().st_size
    kinds, text = client.do("send", 1).said
    assert kinds == ["BrokerRefused"]
    assert len(text) < 3_000
    assert "\n" not in text
    assert "(200" in text  # Characters that it had.
    client.do("push", 1200)
    written = client.log.read_text()[before:]
    assert len(written) < 100_000
    assert not re.search(r"^2026-11-23 07", written, re.MULTILINE)
    assert "\x1b" not in written


# --- requests that nobody asked for


def test_thousands_of_requests_to_a_consumer_are_bounded_work(server, client):
    storm = b"".join(
        server.request(code, {"consumerGroup": "strangers", "jstackEnable": "true"}, body)
        for code, body in [
            *[(40, b""), (307, b""), (221, b""), (326, b""), (220, b'{"offsetTable":{}}')] * 10,
            (309, record(0, zlib.compress(bytes(5 * MIB)), sys_flag=FLAGS["zlib"])),
        ] * 100
    )  # fmt: skip
    server.scripts[BEAT] = lambda asked: server.plain(asked) + storm
    client.do("push", 1000, growth_max=96 * MIB)
    assert server.counts[MEMBERS] <= 80


def test_checks_of_transactions_wait_in_a_bounded_number(server, client):
    def storm(count: int) -> bytes:
        return b"".join(
            server.request(
                39,
                {"commitLogOffset": str(at), "tranStateTableOffset": "0"},
                record(
                    at,
                    bytes(1000),
                    physical_offset=at * 2000,
                    property_block=b"PGROUP\1strangers\2",
                ),
            )
            for at in range(count)
        )

    server.scripts[SEND] = lambda asked: server.plain(asked) + 2 * storm(1_500)
    assert 100 <= client.do("check", 1000).said <= 1024


def test_the_client_is_well_behind_all_that(server, client):
    began = time.monotonic()
    kinds, _ = client.do("send", 100).said
    assert kinds == ["SendResult"]
    assert time.monotonic() - began < 30
