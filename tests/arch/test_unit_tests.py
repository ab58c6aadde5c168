"""Unit tests open no socket and wait for no time: tests/unit/conftest.py sees to it, and here it is seen to work."""

import re
import sys
from pathlib import Path

from tests.support.programs import run_program

UNIT = Path(__file__).parents[1] / "unit"
ROOT = UNIT.parents[1]

# Tests of what threads do: they have a loop as programs have it, and open no socket either.
OF_THREADS = {
    "steps/test_on_loop.py",
    "broker/test_flusher.py",
    "broker/test_saving.py",
    "client/test_concurrent.py",
    "client/test_portal.py",
}

SAMPLE = """
import asyncio, queue, socket, threading, time
import pytest

def test_binds():
    socket.socket().bind(("127.0.0.1", 0))

def test_connects():
    socket.socket().connect(("127.0.0.1", 9))

async def test_opens_a_connection_that_is_no_memory():
    await asyncio.get_running_loop().sock_connect(socket.socket(), ("127.0.0.1", 9))

def test_sleeps():
    time.sleep(0.002)

def test_asks_for_a_name():
    socket.getaddrinfo("localhost", 80)

def test_binds_in_a_thread():
    thread = threading.Thread(target=test_binds)
    thread.start()
    thread.join()

def test_waits_for_nobody():
    with pytest.raises(queue.Empty):
        queue.Queue().get(timeout=0.01)

def test_waits_for_somebody():
    came = threading.Event()
    threading.Thread(target=came.set).start()
    assert came.wait(60)

@pytest.fixture(scope="module")
def bound():
    test_binds()

def test_has_a_fixture_that_binds(bound):
    pass

@pytest.mark.threads
def test_sleeps_beside_threads():
    time.sleep(0.2)

@pytest.mark.threads
async def test_binds_beside_threads():
    socket.socket().bind(("127.0.0.1", 0))

async def test_an_hour_passes():
    await asyncio.sleep(3600)
"""

# A suite beside them, as the cluster of tests/spark is in one process with them.
NEIGHBOUR = """
import contextlib, socket, threading, time

def work():
    while True:
        with contextlib.suppress(AssertionError), socket.socket() as opened:
            threading.Event().wait(0.002)
            time.sleep(0.002)
            opened.bind(("127.0.0.1", 0))

def pytest_configure():
    threading.Thread(target=work, daemon=True).start()
"""


def run(folder: Path, where: str) -> str:
    """What pytest says of the sample in a folder of that name, with the conftest of tests/unit above it."""
    tests = folder / where
    tests.mkdir(parents=True)
    (folder / "tests/unit/conftest.py").write_bytes((UNIT / "conftest.py").read_bytes())
    (tests / "test_sample.py").write_text(SAMPLE)
    (folder / "conftest.py").write_text(NEIGHBOUR)
    pytest = ("-m", "pytest", "-q", "-W", "ignore", "-p", "no:cacheprovider", "-rA")
    where_ = ("-c", ROOT / "pyproject.toml", "--rootdir", folder)
    return run_program(sys.executable, *pytest, *where_, tests, status=None).stdout


def test_a_socket_or_a_sleep_fails_a_unit_test_and_virtual_time_does_not(tmp_path):
    said = run(tmp_path, "tests/unit/store")
    failed = set(re.findall(r"^FAILED \S+::(\w+)", said, re.MULTILINE))
    erred = set(re.findall(r"^ERROR \S+::(\w+)", said, re.MULTILINE))
    assert failed == {
        "test_binds",
        "test_connects",
        "test_opens_a_connection_that_is_no_memory",
        "test_asks_for_a_name",
        "test_sleeps",
        "test_waits_for_nobody",
        "test_sleeps_beside_threads",
        "test_binds_beside_threads",
    }, said
    # Whose own code was not told, or had not begun.
    assert erred - failed == {"test_binds_in_a_thread", "test_has_a_fixture_that_binds"}, said
    passed = set(re.findall(r"^PASSED \S+::(\w+)", said, re.MULTILINE)) - erred
    assert passed == {"test_an_hour_passes", "test_waits_for_somebody"}, said


def test_no_other_file_has_its_own_loop():
    marked, own = set(), set()
    for path in UNIT.rglob("*.py"):
        name, text = str(path.relative_to(UNIT)), path.read_text()
        if name.startswith(("net/", "process/")) or name == "conftest.py":
            continue
        if "mark.threads" in text:
            marked.add(name)
        if re.search(
            r"uvloop|new_event_loop|asyncio\.(run\(|Runner\((?!loop_factory=VirtualLoop))", text
        ):
            own.add(name)
    assert marked == OF_THREADS
    assert own == set()
