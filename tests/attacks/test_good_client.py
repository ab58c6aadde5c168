"""The good client beside an attack tells who kept it waiting, and how long."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.attacks.stranger import Stranger
from tests.support.good_client import GoodClient
from tests.support.load import send_frame
from tests.support.programs import halted


def test_nobody_waits_where_nothing_happens(broker):
    with GoodClient(broker.address, broker.pid) as good:
        time.sleep(1)
    waits = good.check()
    assert waits.answers > 20


def test_a_server_that_stands_still_is_seen(broker):
    with GoodClient(broker.address, broker.pid) as good, halted(broker):
        time.sleep(1)
    with pytest.raises(AssertionError):
        good.check()
    assert good.waits is not None
    assert good.waits.longest_ms > 900


def test_routes_of_a_nameserver_are_asked_for_too(broker, nameserver):
    with GoodClient(
        nameserver.address, nameserver.pid, topic="TBW102", asks_routes=True
    ) as good:
        time.sleep(0.5)
    assert good.check().answers > 10


def test_a_machine_that_is_full_is_not_the_servers_fault(broker):
    """The server has one processor, and shares it with eight that want all of it: answers come late by the wall clock."""
    processor = min(os.sched_getaffinity(0))
    question = b"".join(send_frame("Busy", b"x", opaque=n, queue_id=0) for n in range(200))
    with contextlib.ExitStack() as beside:
        for _ in range(8):
            spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            beside.callback(spinning.wait)
            beside.callback(spinning.kill)
            os.sched_setaffinity(spinning.pid, {processor})
        for thread in Path(f"/proc/{broker.pid}/task").iterdir():
            os.sched_setaffinity(int(thread.name), {processor})
        with GoodClient(broker.address, broker.pid) as good, Stranger(broker.address) as busy:
            ends = time.monotonic() + 2
            while time.monotonic() < ends:
                busy.socket.sendall(question)
                assert {busy.read().code for _ in range(200)} == {0}
    waits = good.check()
    assert waits.longest_own_ms < waits.longest_ms / 2
