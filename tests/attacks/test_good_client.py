"""The good client beside an attack tells who kept it waiting, and how long."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.support.good_client import GoodClient


def test_nobody_waits_where_nothing_happens(broker):
    with GoodClient(broker.address, broker.pid) as good:
        time.sleep(1)
    waits = good.check()
    assert waits.answers > 20


def test_a_server_that_stands_still_is_seen(broker):
    with GoodClient(broker.address, broker.pid) as good:
        os.kill(broker.pid, signal.SIGSTOP)
        time.sleep(1)
        os.kill(broker.pid, signal.SIGCONT)
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
