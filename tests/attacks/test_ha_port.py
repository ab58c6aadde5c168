"""1,000 strangers at a master's HA port, and members that never read or come again and again: memory stays flat."""

import contextlib
import json
import socket
import time

import psutil
import pytest

from cometmq.model.codes import RequestCode
from cometmq.replication.slave_end import SlaveEnd
from cometmq.replication.terms import LinkTerms
from tests.support import processes
from tests.support.frames import ask
from tests.support.load import send_all
from tests.support.memory import MemoryWatch, anonymous_bytes
from tests.support.processes import wait_until
from tests.support.replica import copying

STRANGERS = 1_000
GROWTH_MAX = 16 << 20
SEND_SECONDS_MAX = 2.0
FILE_SIZE = 1 << 30
GAP_SIZE = 199 << 20  # Less than the log has
OF_A_SLAVE_MAX = 10 << 20  # What a slave may take of its master, however far it is behind.
GROWTH_OF_RECONNECTS_MAX = (
    12 << 20
)  # A connection with its first piece that stays would be 70 MB of a thousand.


def joined(port: int) -> socket.socket:
    """A connection that is a slave of ours with an empty log, and has had a first piece of the master's."""
    end = SlaveEnd(
        LinkTerms(), broker_id=1, start=0, end=0, file_size=FILE_SIZE, chance=bytes(32), now=0.0
    )  # fmt: skip
    peer = socket.create_connection(("127.0.0.1", port), 10)
    while True:
        peer.sendall(end.outgoing(0, 0.0))
        content = peer.recv(1 << 16)
        assert content
        if list(end.received(content, 0.0)):
            return peer


@pytest.mark.timeout(120)
def test_1893_a_thousand_strangers_get_nothing_and_disturb_nobody(tmp_path, nameserver):
    settings = {"brokerRole": "SYNC_MASTER", "haAllowedAddresses": "127.0.0.1"}
    with (
        processes.broker(tmp_path / "broker", nameserver.address, settings=settings) as broker,
        copying(tmp_path / "slave", f"127.0.0.1:{broker.port + 1}"),
    ):
        wait_until(
            lambda: send_all(broker.address, "Guarded", [b"x"]) == [0],
            seconds=30,
            what="a slave in sync",
        )
        process = psutil.Process(broker.pid)
        before, longest, got = process.memory_info().rss, 0.0, 0
        for number in range(STRANGERS):
            with (
                socket.create_connection(
                    ("127.0.0.1", broker.port + 1), 10, (f"127.0.1.{number % 250 + 1}", 0)
                ) as stranger,
                contextlib.suppress(ConnectionError),
            ):
                stranger.sendall(bytes(8))
                got += len(stranger.recv(100) if number % 10 == 0 else b"")
            if number % 50 == 0:
                began = time.monotonic()
                assert send_all(broker.address, "Guarded", [b"x"] * 10) == [0] * 10
                longest = max(longest, time.monotonic() - began)
        assert got == 0
        assert process.memory_info().rss - before < GROWTH_MAX
        assert longest < SEND_SECONDS_MAX
        refused = [
            line for line in broker.log.read_text().splitlines() if "HA port refused" in line
        ]
        assert 1 <= len(refused) <= 2, "one line a minute"


def test_who_says_that_it_is_done_and_reads_nothing_is_no_copy_any_more(tmp_path):
    """An end of what it says, and megabytes on their way to it: it is not waited for."""
    settings = {"haAllowedAddresses": "127.0.0.1", "mappedFileSizeCommitLog": FILE_SIZE}
    with processes.broker(tmp_path / "broker", "", settings=settings) as broker:
        assert send_all(broker.address, "Large", [bytes(1 << 20)] * 20) == [0] * 20

        def copies() -> int:
            said = json.loads(ask(broker.address, RequestCode.GET_BROKER_HA_STATUS)[1])
            return len(said["haConnectionInfo"])

        with joined(broker.port + 1) as slave:
            wait_until(lambda: copies() == 1, seconds=10, what="the slave")
            slave.shutdown(socket.SHUT_WR)
            wait_until(lambda: copies() == 0, seconds=10, what="the master's end of it")


def test_8875_a_slave_at_any_gap_and_a_thousand_reconnects_take_no_memory(tmp_path):
    settings = {"haAllowedAddresses": "127.0.0.1", "mappedFileSizeCommitLog": FILE_SIZE}
    with processes.broker(tmp_path / "broker", "", settings=settings) as broker:
        assert send_all(broker.address, "Large", [bytes(1 << 20)] * 200) == [0] * 200
        time.sleep(3)  # It flushes, and makes its queues.
        joined(broker.port + 1).close()
        with MemoryWatch(broker.pid) as watch, joined(broker.port + 1) as slave:
            time.sleep(1)  # It reads nothing, and is 200 MB behind.
            got = 0
            while got < GAP_SIZE:
                got += len(slave.recv(1 << 20))
        assert watch.most - watch.base < OF_A_SLAVE_MAX
        after_ten = 0
        for number in range(1_000):
            joined(broker.port + 1).close()
            if number == 10:
                after_ten = anonymous_bytes(broker.pid)
        assert anonymous_bytes(broker.pid) - after_ten < GROWTH_OF_RECONNECTS_MAX
        assert send_all(broker.address, "Large", [b"x"]) == [0]
