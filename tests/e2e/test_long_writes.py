"""Sends that came while a write to the log took long are refused, where a broker is told to fail fast."""

import asyncio
import json
import socket
import threading
import time
from typing import Any

import pytest

from cometmq.broker.server import Broker
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.model.codes import ResponseCode
from cometmq.net.clock import SystemClock
from cometmq.net.loop import run
from cometmq.store.real_disk import RealDisk
from tests.support.frames import parts_of, read_frame
from tests.support.load import send_frame


class SlowDisk(RealDisk):
    """A disk of which one write to the log takes long, as where the page cache is busy."""

    def __init__(self) -> None:
        self.is_slow = threading.Event()
        self.began = threading.Event()

    def pwrite(self, fd: int, piece: Any, offset: int) -> int:
        if self.is_slow.is_set():
            self.is_slow.clear()
            self.began.set()
            time.sleep(0.5)
        return super().pwrite(fd, piece, offset)


@pytest.mark.parametrize("is_on", [True, False])
def test_sends_that_came_during_a_long_write_are_refused_and_those_after_it_taken(
    tmp_path, is_on
):
    settings = BrokerSettings(
        listen_port=0,
        store_path=str(tmp_path / "store"),
        commitlog_file_size=1 << 20,
        busy_timeout_ms=300,
        is_fast_failure=is_on,
    )
    disk = SlowDisk()

    def talk(port: int) -> list[int]:
        address = ("127.0.0.1", port)
        with (
            socket.create_connection(address) as first,
            socket.create_connection(address) as late,
        ):
            codes = [ask(first, 0), ask(late, 1)]  # The topic is there, and both are known.
            disk.is_slow.set()
            first.sendall(frame(2))
            disk.began.wait(10)
            late.sendall(frame(3))
            codes += [code_of(first), code_of(late)]
            time.sleep(0.1)
            return [*codes, ask(late, 4)]

    async def served() -> list[int]:
        broker = Broker(settings, SystemClock(), disk=disk)
        await broker.start()
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, talk, broker.port)
        finally:
            await broker.close()

    ok = ResponseCode.SUCCESS
    expected = [ok, ok, ok, ResponseCode.SYSTEM_BUSY if is_on else ok, ok]
    assert run(served()) == expected


def frame(number: int) -> bytes:
    return send_frame("Orders", b"x", opaque=number, queue_id=0, queues=4)


def code_of(peer: socket.socket) -> int:
    return json.loads(parts_of(read_frame(peer))[1])["code"]


def ask(peer: socket.socket, number: int) -> int:
    peer.sendall(frame(number))
    return code_of(peer)
