"""1,000 strangers at a master's HA port: no byte for them, memory flat, the slave and the senders undisturbed."""

from __future__ import annotations

import contextlib
import socket
import time

import psutil
import pytest

from tests.support import processes
from tests.support.load import send_all
from tests.support.processes import wait_until
from tests.support.replica import copying

STRANGERS = 1_000
GROWTH_MAX = 16 << 20
SEND_SECONDS_MAX = 2.0


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
