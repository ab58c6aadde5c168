"""Unit tests run under virtual time; outside tests/unit/net none opens a socket or waits.

Tests of threads are marked so: they have a loop as programs have it, and may give other threads a moment.
"""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from cometmq.net.virtual_loop import VirtualLoop

# What a test may sleep, seconds: to let another thread run, and where threads are what it is about.
SLEEP_SECONDS_MAX = 0.001
SLEEP_SECONDS_MAX_OF_THREADS = 0.05

_guarded: list[str] = []  # The test that runs, where it may open no socket.


def _forbid(event: str, args: tuple[object, ...]) -> None:
    if _guarded and event in ("socket.bind", "socket.connect"):
        raise AssertionError(f"{_guarded[0]} opens a socket: {event}{args}")


sys.addaudithook(_forbid)


def _is_of_net(item: pytest.Item) -> bool:
    return "tests/unit/net/" in item.nodeid


@pytest.fixture(autouse=True)
def _no_socket_and_no_wait(request, monkeypatch):
    """Refuse both while a test runs that is not of tests/unit/net."""
    if _is_of_net(request.node):
        yield
        return
    is_of_threads = request.node.get_closest_marker("threads") is not None
    longest = SLEEP_SECONDS_MAX_OF_THREADS if is_of_threads else SLEEP_SECONDS_MAX
    real = time.sleep

    def sleep(seconds: float) -> None:
        assert seconds <= longest, f"{request.node.nodeid} sleeps for {seconds} s"
        real(seconds)

    monkeypatch.setattr(time, "sleep", sleep)
    _guarded.append(request.node.nodeid)
    yield
    _guarded.clear()


def pytest_asyncio_loop_factories(item):
    """A virtual loop, but for tests of threads and of the network itself."""
    if _is_of_net(item) or item.get_closest_marker("threads"):
        return {"system": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}
