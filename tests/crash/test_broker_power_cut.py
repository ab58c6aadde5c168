"""The power goes while a broker works: SYNC_FLUSH loses nothing it acknowledged, ASYNC_FLUSH only what is young.

The store lies on an ext4 of its own. A round: send with a full window and read beside it, stop the process so
that it can say nothing more, shut the file system down without its journal (what was not synced is gone), kill
the process, mount again, start again, compare.
"""

import contextlib
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event

import pytest

from tests.support import processes
from tests.support.frames import ask
from tests.support.iofault import FaultyDisk
from tests.support.ledger import OK, Ledger
from tests.support.loop_disk import LoopDisk
from tests.support.request_fields import topic_fields

UPDATE_AND_CREATE_TOPIC = 17
GET_TOPIC_CONFIG = 351
LOG_FILE_SIZE = 4 << 20
IN_FLIGHT = 256
SENDS = 1_500  # Before the cut, twice.
FLUSHED_SECONDS = 1.5  # flushIntervalCommitLog is 0.5 s.
FLUSHED_SECONDS_MAX = 30.0  # The disk may be busy with others.
LONG_SECONDS_MAX = 3_600  # Of --rounds 200: each round reads all again; .ci/run bounds the 20.


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    with LoopDisk(tmp_path / "disk", megabytes=256) as disk:
        yield disk


def start(disk: LoopDisk, flush: str, recorder: FaultyDisk | None = None) -> processes.Program:
    settings = {"flushDiskType": flush, "mappedFileSizeCommitLog": LOG_FILE_SIZE}
    program = processes.broker(disk.root / "broker", "", settings=settings)
    return (recorder.under(program) if recorder else program).start()


def cut(disk: LoopDisk, broker: processes.Program, ledger: Ledger) -> int:
    """Cut the power under a broker that has sends in flight; how many were never answered."""
    assert broker.process is not None
    # First it stops: a broker that went on would acknowledge after the cut.
    broker.process.send_signal(signal.SIGSTOP)
    disk.cut_power()
    broker.kill()
    unanswered = ledger.abandon()
    disk.start_again()
    return unanswered


def create_topic(address: str, name: str) -> None:
    fields = topic_fields(name, 2)
    assert ask(address, UPDATE_AND_CREATE_TOPIC, fields)[0]["code"] == OK


@contextlib.contextmanager
def reading(ledger: Ledger, address: str) -> Iterator[None]:
    """A consumer that reads on and on beside the block, in which the broker goes away."""
    is_over = Event()

    def read() -> None:
        with contextlib.suppress(ConnectionError):
            while not is_over.wait(0.002):
                ledger.read_on(address)

    with ThreadPoolExecutor(1) as pool:
        reader = pool.submit(read)
        try:
            yield
        finally:
            is_over.set()
    reader.result()


@pytest.mark.slow
@pytest.mark.timeout(LONG_SECONDS_MAX)
def test_sync_flush_keeps_what_was_acknowledged_consumed_or_made(disk, rounds):
    rounds = max(rounds // 2, 1)
    ledger, unanswered, consumed = Ledger("Cut"), 0, 0
    for number in range(rounds):
        with start(disk, "SYNC_FLUSH") as broker, reading(ledger, broker.address):
            ledger.flood(broker.address, window=IN_FLIGHT, until=SENDS)
            create_topic(broker.address, f"Made{number}")
            if number % 2:  # Else a topic was acknowledged right before the cut.
                ledger.flood_on(window=IN_FLIGHT, until=SENDS)
            unanswered += cut(disk, broker, ledger)
        seen = ledger.read
        with start(disk, "SYNC_FLUSH") as broker:
            ledger.check(broker.address)
            assert seen <= ledger.read, "a consumer has seen what is gone"
            consumed += len(seen)
            topic = ask(broker.address, GET_TOPIC_CONFIG, {"topic": f"Made{number}"})
            assert topic[0]["code"] == OK
        ledger.forget_reads()
    print(
        f"SYNC_FLUSH: {rounds} power cuts, {unanswered} sends in flight at them, "
        f"{len(ledger.acknowledged)} acknowledged, {consumed} consumed before a cut, 0 lost"
    )


@pytest.mark.slow
@pytest.mark.timeout(LONG_SECONDS_MAX)
def test_async_flush_loses_only_what_was_younger_than_its_interval(disk, rounds, tmp_path):
    rounds = max(rounds // 4, 1)
    ledger, lost_in_all = Ledger("Cut"), 0
    for number in range(rounds):
        recorder = FaultyDisk(tmp_path / f"recorder{number}")
        with start(disk, "ASYNC_FLUSH", recorder) as broker:
            ledger.flood(broker.address, window=IN_FLIGHT, until=SENDS)
            time.sleep(FLUSHED_SECONDS)
            processes.wait_until(
                partial(recorder.has_synced, "/commitlog/"),
                seconds=FLUSHED_SECONDS_MAX,
                what="the log on disk",
            )
            flushed = set(ledger.acknowledged)
            ledger.flood_on(window=IN_FLIGHT, until=SENDS)
            cut(disk, broker, ledger)
        with start(disk, "ASYNC_FLUSH") as broker:
            ledger.forget_reads()
            ledger.read_on(broker.address)
        assert flushed <= ledger.read, "a message older than the interval is gone"
        lost = ledger.acknowledged - ledger.read
        ledger.acknowledged -= lost  # This setting allows it.
        lost_in_all += len(lost)
    print(
        f"ASYNC_FLUSH: {rounds} power cuts, {len(ledger.acknowledged)} acknowledged and kept, "
        f"{lost_in_all} younger than the interval gone, 0 older ones lost, no gap"
    )
