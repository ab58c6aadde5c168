"""20,000 broken reports at a master's HA port, of those who may come there and of those who may not.

Nobody who may not gets a byte, no send is answered for them, and a good slave is let in as before.
COMETMQ_FUZZ_SEED repeats a run; COMETMQ_FUZZ_REPORTS makes it longer.
"""

import contextlib
import os
import random
import socket

import psutil
import pytest

from cometmq.codec.replication import CHALLENGE, MAGIC, NO_PROOF, REPLY, REPORT, VERSION
from tests.support import processes
from tests.support.load import send_all
from tests.support.processes import wait_until
from tests.support.replica import copying

REPORTS = int(os.environ.get("COMETMQ_FUZZ_REPORTS", "20000"))
SEED = int(os.environ.get("COMETMQ_FUZZ_SEED", "0")) or random.randrange(1, 2**31)
STRANGER_SHARE = 0.25
REPORTS_A_CONNECTION = 4
GROWTH_MAX = 24 << 20
SLAVE_NOT_AVAILABLE = 11

pytestmark = pytest.mark.timeout(300)


def reports(chance: random.Random) -> bytes:
    """Some of them, of one connection: the first that cannot be ends it."""
    return b"".join(report(chance) for _ in range(REPORTS_A_CONNECTION))


def report(chance: random.Random) -> bytes:
    """What a slave might say, and was broken on its way."""
    reply = REPLY.pack(MAGIC, VERSION, 0, chance.randint(-2, 4), chance.randbytes(32), NO_PROOF)
    kinds = [
        REPORT.pack(
            chance.choice([-1, 1 << 62, 1 << 40, -(1 << 63), chance.randrange(1 << 33)])
        ),
        REPORT.pack(0) * 2 + reply[: chance.randrange(len(reply))],
        REPORT.pack(0) * 2 + chance.randbytes(chance.randrange(len(reply))),
        REPORT.pack(0) + chance.randbytes(chance.randrange(20)),
        CHALLENGE.pack(MAGIC, VERSION, 1, chance.randbytes(32)),
        chance.randbytes(chance.randrange(1, 200)),
        b"GET / HTTP/1.1\r\n\r\n",
    ]
    content = bytearray(chance.choice(kinds))
    if chance.random() < 0.3:
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    return bytes(content)


def say(port: int, host: str, content: bytes) -> bytes:
    """Say it and go; what was said before the end came."""
    with (
        contextlib.suppress(ConnectionError),
        socket.create_connection(("127.0.0.1", port), 10, (host, 0)) as peer,
    ):
        peer.sendall(content)
        with contextlib.suppress(OSError):  # It has been closed already.
            peer.shutdown(socket.SHUT_WR)
        return peer.recv(1 << 16)
    return b""


def test_broken_reports_give_nothing_away_and_free_no_send(tmp_path):
    chance = random.Random(SEED)
    print(f"{REPORTS} reports, seed {SEED}")
    settings = {"brokerRole": "SYNC_MASTER", "haAllowedAddresses": "127.0.0.1"}
    with processes.broker(tmp_path / "broker", "", settings=settings) as broker:
        port, process = broker.port + 1, psutil.Process(broker.pid)
        assert (
            send_all(broker.address, "Fuzzed", [b"x" * 1_000] * 10)
            == [SLAVE_NOT_AVAILABLE] * 10
        )
        for _ in range(500):  # Whatever is kept for the first of them.
            say(port, "127.0.0.1", reports(chance))
        before = process.memory_info().rss
        for number in range(0, REPORTS, REPORTS_A_CONNECTION):
            if chance.random() < STRANGER_SHARE:
                assert say(port, "127.0.0.9", reports(chance)) == b""
            else:
                say(port, "127.0.0.1", reports(chance))
            if number % 1_000 == 0:
                assert send_all(broker.address, "Fuzzed", [b"x"]) == [SLAVE_NOT_AVAILABLE]
        assert process.memory_info().rss - before < GROWTH_MAX
        with copying(tmp_path / "slave", f"127.0.0.1:{port}"):
            wait_until(
                lambda: send_all(broker.address, "Fuzzed", [b"x"]) == [0],
                seconds=30,
                what="a good slave",
            )
        said = broker.log.read_text()
        assert "Traceback" not in said, said[-3000:]
