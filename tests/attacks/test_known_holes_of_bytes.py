"""More of the list of holes (see test_known_holes.py): those of bytes, connections and other protocols, at our servers.

S6 the HA port, S8 classes by name, S9 malformed frames, S10 bombs, S11 answers of others, S12 careless requests, S14 TLS that is
off in practice, S16 management by HTTP.
"""

import ast
import asyncio
import contextlib
import json
import os
import random
import struct
import zlib
from pathlib import Path

import pytest

from cometmq import AsyncProducer, Message, ProducerSettings
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CometError
from tests.attacks import holes
from tests.attacks.stranger import Stranger
from tests.support import certificates, processes, topics
from tests.support.frames import connect, json_frame
from tests.support.good_client import GoodClient
from tests.support.load import send_all
from tests.support.memory import MIB, MemoryWatch
from tests.support.request_fields import send_fields

SOURCES = Path(__file__).resolve().parents[2] / "src" / "cometmq"
# Of each of two tenants; a million in the long run: COMETMQ_TENANT_SENDS=500000 make attacks ARGS="-k s11".
TENANT_SENDS = int(os.environ.get("COMETMQ_TENANT_SENDS", "3000"))
SENDS_AT_ONCE = 3_000
CANARY = b"canary-in-the-log-91d0"
RUNTIME = 28


@pytest.mark.timeout(120)
def test_s6_the_ha_port_gives_a_stranger_nothing_and_believes_him_nothing(tmp_path, nameserver):
    settings = {"brokerRole": "SYNC_MASTER"}
    with processes.broker(tmp_path, nameserver.address, settings=settings) as broker:
        ha_address = f"127.0.0.1:{broker.port + 1}"
        not_available = ResponseCode.SLAVE_NOT_AVAILABLE
        assert send_all(broker.address, "Secret", [CANARY]) == [not_available]
        assert holes.bytes_of_the_log(ha_address, CANARY, seconds=5) == b""
        code = holes.send_with_a_fake_slave(broker.address, ha_address, "Secret")
        assert code == not_available


def test_s8_no_class_comes_from_the_network_or_a_file(standing):
    """Nothing of ours makes objects of names, and JSON that asks for it is JSON."""
    forbidden = {"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle"}
    called = {"eval", "exec", "__import__", "compile"}
    of_our_own_names = [
        "frozen.py: exec"
    ]  # An `__init__` of a class's fields, as dataclasses does.
    found = []
    for path in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names = {each.name.split(".")[0] for each in node.names}
                names.add((getattr(node, "module", None) or "").split(".")[0])
                found += [f"{path.name}: {name}" for name in names & forbidden]
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                is_yaml = name in {"yaml.load", "yaml.unsafe_load", "yaml.full_load"}
                if name in called or (is_yaml and "_TextLoader" not in ast.unparse(node)):
                    found.append(f"{path.name}: {name}")
    assert found == of_our_own_names
    asks = {
        "@type": "com.sun.rowset.JdbcRowSetImpl",
        "dataSourceName": "ldap://127.0.0.1:9/x",
        "autoCommit": True,
    }
    with Stranger(standing.address) as stranger:
        for code in (17, 25, 34, 41, 46, 200, 400, 401, 3001):
            body = json.dumps({"@type": asks["@type"], "a": asks}).encode()
            assert "JdbcRowSetImpl" not in stranger.ask(code, {"@type": "x"}, body).remark
        assert stranger.ask(RUNTIME).code == 0
    assert "Traceback" not in standing.log.read_text()


def framed(length: int, header_size: int, rest: bytes) -> bytes:
    return struct.pack(">iI", length, header_size & 0xFFFF_FFFF) + rest


FRAMES = {
    "length-of-2-GiB": framed(0x7FFF_FFFF, 10, b"{}"),
    "length-minus-1": framed(-1, 10, b"{}"),
    "length-0": framed(0, 0, b""),
    "length-3": framed(3, 0, b""),
    "length-overflows": framed(-(1 << 31), 0xFF_FFFF, b""),
    "header-longer-than-frame": framed(20, 100, b"x" * 16),
    "header-of-16-MiB": framed(0xFF_FFFF, 0xFF_FFFF, b"{" * 100_000),
    "header-negative": framed(20, -1, b"x" * 16),
    "unknown-serialization": framed(20, 7 << 24 | 10, b"x" * 16),
    "header-no-json": framed(20, 16, b"x" * 16),
    "header-is-a-list": framed(6, 2, b"[]"),
    "header-nested": framed(4 + 60_000, 60_000, b"[" * 60_000),
    "code-is-a-word": json_frame(28).replace(b'"code":28', b'"code":"a"'),
    "not-utf-8": framed(20, 16, b'{"code":\xff\xfe\xfd28}  '[:16]),
}


@pytest.mark.parametrize("target", ["standing", "nameserver"])
def test_s9_malformed_frames_end_at_most_their_own_connection(request, target):
    program = request.getfixturevalue(target)
    with MemoryWatch(program.pid) as watch, Stranger(program.address) as beside:
        for data in FRAMES.values():
            for cut in (len(data), len(data) // 2):
                with (
                    contextlib.suppress(ConnectionError, TimeoutError),
                    Stranger(program.address, seconds=0.1) as stranger,
                ):
                    stranger.socket.sendall(data[:cut])
                    stranger.socket.recv(1000)
            assert beside.ask(106 if target == "nameserver" else RUNTIME).code == 0
    watch.check(growth_max=16 * MIB)
    assert "Traceback" not in program.log.read_text()


@pytest.mark.parametrize("size", [256 * MIB, 20 * MIB])
def test_s10_a_bomb_is_not_unpacked(nameserver, size):
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(MIB)) for _ in range(size // MIB)) + packer.flush()
    fields = {
        "brokerName": "bomb", "brokerAddr": "127.0.0.1:9", "clusterName": "c", "brokerId": "0",
        "haServerAddr": "", "compressed": "true", "bodyCrc32": str(zlib.crc32(bomb) & 0x7FFF_FFFF),
    }  # fmt: skip
    with MemoryWatch(nameserver.pid) as watch, Stranger(nameserver.address) as stranger:
        # Within the bound it is a registration without topics.
        assert (stranger.ask(103, fields, bomb).code != 0) == (size > 24 * MIB)
        assert stranger.ask(106).code == 0
    watch.check(growth_max=32 * MIB)


@pytest.mark.timeout(120 + TENANT_SENDS // 200)
def test_s11_no_message_of_one_tenant_is_found_at_another(tmp_path, nameserver):
    """Sends that end early, are cancelled or time out, of two tenants on many connections: each body is where it belongs."""
    with processes.broker(tmp_path, nameserver.address) as broker:
        asyncio.run(send_as_two(nameserver.address))
        half_sends(broker.address)
        for tenant in ("TenantA", "TenantB"):
            bodies = [each.body for each in topics.read(nameserver.address, tenant)]
            assert len(bodies) > 1_000
            for body in bodies:
                name, text, crc = body.split(b"|")
                assert name == tenant.encode()
                assert int(crc) == zlib.crc32(name + text)


def tenant_body(tenant: str, number: int) -> bytes:
    text = b"%d" % number * (1 + number % 50)
    return b"%s|%s|%d" % (tenant.encode(), text, zlib.crc32(tenant.encode() + text))


async def send_as_two(nameserver: str) -> None:
    chance = random.Random(11)

    async def one(producer: AsyncProducer, tenant: str, number: int) -> None:
        sending = producer.send(Message(tenant, tenant_body(tenant, number)))
        with contextlib.suppress(TimeoutError, CometError):
            if chance.random() < 0.3:
                async with asyncio.timeout(chance.random() * 0.005):
                    await sending
            else:
                await sending

    async with (
        AsyncProducer(nameserver, group="of_a", settings=ProducerSettings(retries=0)) as first,
        AsyncProducer(nameserver, group="of_b", settings=ProducerSettings(retries=0)) as second,
    ):
        both = [("TenantA", first), ("TenantB", second)]
        for tenant, producer in both:
            await producer.send(Message(tenant, tenant_body(tenant, 0)))
        for begin in range(0, TENANT_SENDS, SENDS_AT_ONCE):
            end = min(begin + SENDS_AT_ONCE, TENANT_SENDS)
            await asyncio.gather(
                *(
                    one(producer, tenant, number)
                    for number in range(begin, end)
                    for tenant, producer in both
                )
            )


def half_sends(address: str) -> None:
    """Frames of one tenant that end in the middle, between whole ones of the other."""
    whole = [tenant_body("TenantB", number) for number in range(200)]
    for cut in range(1, 40):
        with Stranger(address) as stranger:
            fields = send_fields("TenantA")
            frame = json_frame(310, fields, b"TenantA|half|0")
            stranger.socket.sendall(frame[:-cut])
        assert send_all(address, "TenantB", whole[cut * 5 : cut * 5 + 5]) in ([0] * 5, [])


def test_s12_careless_requests_learn_nothing_of_our_insides(standing, nameserver):
    assert holes.insides_in_errors(standing.address) == []
    assert holes.insides_in_errors(nameserver.address) == []


@pytest.mark.timeout(120)
def test_s14_with_a_certificate_nothing_plain_is_served(tmp_path):
    keys = certificates.server_keys(certificates.authority(tmp_path))
    with processes.nameserver(tmp_path / "names", **keys) as names:
        names_tls_only(names.address)


def names_tls_only(address: str) -> None:
    for number in range(100):
        with contextlib.suppress(ConnectionError), connect(address, seconds=10) as plain:
            plain.sendall(json_frame(106, opaque=number))
            assert plain.recv(1) == b""


@pytest.mark.parametrize("target", ["standing", "nameserver"])
def test_s16_no_port_speaks_http_or_reads_its_bodies(request, target):
    program = request.getfixturevalue(target)
    requests = [
        b"POST /api HTTP/1.1\r\nHost: x\r\nContent-Length: 2147483648\r\n\r\n" + bytes(1000),
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + (b"\x00\x00\x04\x03\x00" + bytes(8)) * 300,
    ]
    with MemoryWatch(program.pid) as watch:
        for data in requests * 20:
            with (
                contextlib.suppress(ConnectionError),
                Stranger(program.address, seconds=10) as stranger,
            ):
                stranger.socket.sendall(data)
                assert b"HTTP" not in stranger.socket.recv(1000)
    watch.check(growth_max=8 * MIB)


def test_s16_a_good_client_beside_malformed_frames_waits_for_nothing(standing):
    with GoodClient(standing.address, standing.pid) as good:
        for data in list(FRAMES.values()) * 10:
            with contextlib.suppress(ConnectionError), Stranger(standing.address) as stranger:
                stranger.socket.sendall(data)
    good.check()
