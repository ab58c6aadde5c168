"""Requests that waited too long are refused: before the pool, and while the loop was held up."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import uvloop

from cometmq.broker.fast_failure import ColdReads
from cometmq.broker.server import Broker
from cometmq.broker.settings import BrokerSettings
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.net.clock import SystemClock
from cometmq.store.reader import GetResult, GetStatus
from cometmq.store.real_disk import RealDisk
from tests.support.frames import parts_of, read_frame
from tests.support.hand_clock import HandClock
from tests.support.load import send_frame

FOUND = GetResult(GetStatus.FOUND, 1, 0, 1)


@pytest.mark.parametrize(("seconds", "is_on", "is_refused"), [
    (4.9, True, False), (5.0, True, True), (60, False, False),
])  # fmt: skip
async def test_the_time_before_the_pool_counts(seconds, is_on, is_refused):
    clock, may_go = HandClock(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        reads = ColdReads(pool, clock, BrokerSettings(is_fast_failure=is_on))
        pool.submit(may_go.wait)
        waiting = asyncio.ensure_future(reads.read(lambda: FOUND))
        await asyncio.sleep(0)
        clock.turn(seconds)
        may_go.set()
        if is_refused:
            with pytest.raises(RequestError, match="start flow control") as refused:
                await waiting
            assert refused.value.code == ResponseCode.SYSTEM_BUSY
        else:
            assert await waiting is FOUND


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

    async def run() -> list[int]:
        broker = Broker(settings, SystemClock(), disk=disk)
        await broker.start()
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(None, talk, broker.port)
        finally:
            await broker.close()

    ok = ResponseCode.SUCCESS
    expected = [ok, ok, ok, ResponseCode.SYSTEM_BUSY if is_on else ok, ok]
    assert uvloop.run(run()) == expected


def frame(number: int) -> bytes:
    return send_frame("Orders", b"x", opaque=number, queue_id=0, queues=4)


def code_of(peer: socket.socket) -> int:
    return json.loads(parts_of(read_frame(peer))[1])["code"]


def ask(peer: socket.socket, number: int) -> int:
    peer.sendall(frame(number))
    return code_of(peer)
