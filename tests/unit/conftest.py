"""Unit tests run under virtual time; outside tests/unit/net and tests/unit/process none opens a socket or waits.

No line of the log may show an object by its `repr`. Tests of threads are marked so: they have a loop as programs have it, and may give other threads a moment. What runs beside
them in the same process, such as the cluster of another suite, may do what it does.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from cometmq.model.clock import Clock
from cometmq.net.virtual_loop import VirtualLoop
from cometmq.process.program_log import has_words

# What a test may sleep, seconds: to let another thread run, and where threads are what it is about.
SLEEP_SECONDS_MAX = 0.001
SLEEP_SECONDS_MAX_OF_THREADS = 0.05
# What reaches beyond the process, or asks the network for a name.
_REACHING = {
    f"socket.{name}" for name in ("bind", "connect", "getaddrinfo", "gethostbyname", "sendto")
}

_guarded: list[str] = []  # The test that runs, where it may not.
_broken: list[str] = []  # What it did all the same, in whichever of its threads.
_started: weakref.WeakSet[threading.Thread] = weakref.WeakSet()  # By tests that were guarded.


def _forbid(event: str, args: tuple[object, ...]) -> None:
    if _guarded and event in _REACHING and _is_of_tests():
        _refuse(f"opens a socket: {event}{args}")


sys.addaudithook(_forbid)


def _is_of_tests() -> bool:
    """Whether a test runs in this thread, or has started it."""
    thread = threading.current_thread()
    return thread is threading.main_thread() or thread in _started


def _refuse(what: str) -> None:
    _broken.append(f"{_guarded[0]} {what}")
    raise AssertionError(_broken[-1])


def _is_of_net(item: pytest.Item) -> bool:
    return item.nodeid.startswith(("tests/unit/net/", "tests/unit/process/"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Refuse sockets and waits from a test's first fixture to its last, wherever those belong."""
    if "tests/unit/" not in item.nodeid or _is_of_net(item):
        return (yield)
    is_of_threads = item.get_closest_marker("threads") is not None
    with pytest.MonkeyPatch.context() as patch:
        _note_threads(patch)
        _forbid_waits(
            patch, SLEEP_SECONDS_MAX_OF_THREADS if is_of_threads else SLEEP_SECONDS_MAX
        )
        _guarded.append(item.nodeid)
        try:
            return (yield)
        finally:
            _guarded.clear()


def _note_threads(patch: pytest.MonkeyPatch) -> None:
    """Know the threads that a test starts, and those that they start."""
    start = threading.Thread.start

    def noted_start(self: threading.Thread) -> None:
        if _is_of_tests():
            _started.add(self)
        start(self)

    patch.setattr(threading.Thread, "start", noted_start)


def _forbid_waits(patch: pytest.MonkeyPatch, longest: float) -> None:
    """Refuse a longer sleep, and a longer wait for another thread in which that one does not come."""
    sleep, wait = time.sleep, threading.Condition.wait
    communicate = subprocess.Popen.communicate

    def short_sleep(seconds: float) -> None:
        if seconds > longest and _is_of_tests():
            _refuse(f"sleeps for {seconds} s")
        sleep(seconds)

    def met_wait(self: Any, timeout: float | None = None) -> bool:
        came = wait(self, timeout)
        if not came and timeout is not None and timeout > longest and _is_of_tests():
            _refuse(f"waits for {timeout} s in vain")
        return came

    def patient_communicate(
        self: subprocess.Popen[Any], given: Any = None, timeout: float | None = None
    ) -> Any:
        if timeout is not None and _is_of_tests():
            _refuse(f"gives a program {timeout} s: that wait sleeps where the program is slow")
        return communicate(self, given, timeout)

    patch.setattr(subprocess.Popen, "communicate", patient_communicate)
    patch.setattr(time, "sleep", short_sleep)
    patch.setattr(threading.Condition, "wait", met_wait)


# Objects in lines of our log that have no words, so that it would show their `repr`.
_wordless: list[str] = []
_make_record = logging.getLogRecordFactory()


def _record_in_words(*values: Any, **more: Any) -> logging.LogRecord:
    record = _make_record(*values, **more)
    if (record.name or "").startswith("cometmq.") and isinstance(record.args, tuple):
        _wordless.extend(
            f"{record.name}: {record.msg} with {value!r}"
            for value in record.args
            # The log of a program words the system's errors (process.program_log).
            if not has_words(value) and not isinstance(value, OSError)
        )
    return record


logging.setLogRecordFactory(_record_in_words)


@pytest.fixture(autouse=True)
def _logs_in_words() -> Iterator[None]:
    """Fail where a line of the log would show an object as Python writes it."""
    yield
    wordless = _wordless[:]
    _wordless.clear()
    assert not wordless


@pytest.fixture(autouse=True)
def _did_neither() -> Iterator[None]:
    """Fail where somebody else caught the refusal."""
    yield
    broken = _broken[:]
    _broken.clear()
    assert not broken


@pytest.fixture
def clock() -> Clock:
    """A HandClock, which only the test turns."""
    # Where this file is tested, it stands alone.
    from tests.support.hand_clock import HandClock

    return HandClock()


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Leave all that is garbage in circles to the test, which may count it."""
    gc.collect()
    gc.disable()
    gc.freeze()  # Else each look goes through all that pytest has imported.
    yield
    gc.unfreeze()
    gc.enable()


def pytest_asyncio_loop_factories(item):
    """A virtual loop, but for tests of threads and of the network itself; one file is run on both."""
    if item.path.name == "test_networks.py":
        return {"tcp": asyncio.new_event_loop, "memory": VirtualLoop}
    if _is_of_net(item) or item.get_closest_marker("threads"):
        return {"system": asyncio.new_event_loop}
    return {"virtual": VirtualLoop}
