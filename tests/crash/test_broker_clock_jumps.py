"""The wall clock jumps an hour forth and back under a broker: nothing is lost, refused or out of order.

The broker's own clock is moved (`tests/support/iofault.c`), not the machine's. Store times follow the clock;
queue offsets, flushes, checkpoints and what recovery believes must not.
"""

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.frames import ask
from tests.support.iofault import FaultyDisk
from tests.support.ledger import OK, Ledger
from tests.support.loop_disk import LoopDisk

HOUR = 3_600
JUMPS = (HOUR, -HOUR, 0, HOUR)
SENDS = 200
CHECKPOINT_SECONDS = 1.5  # flushIntervalConsumeQueue is 1 s.
FLUSHED_SECONDS_MAX = 30.0  # The disk may be busy with others.
SEARCH_OFFSET_BY_TIMESTAMP = 29


def start(folder: Path, store: Path, clock: FaultyDisk, flush: str) -> processes.Program:
    settings = {
        "storePathRootDir": store,
        "storePathCommitLog": store / "commitlog",
        "flushDiskType": flush,
        "mappedFileSizeCommitLog": 1 << 16,  # Jumps fall into many files.
    }
    return clock.under(processes.broker(folder, "", settings=settings)).start()


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_jumps_lose_nothing_alive_or_killed(tmp_path: Path, flush):
    clock, ledger = FaultyDisk(tmp_path), Ledger("Jumps")
    store = tmp_path / "store"
    for jump in JUMPS:
        with start(tmp_path / "broker", store, clock, flush) as broker:
            ledger.check(broker.address)
            for seconds in (jump, 0, jump):
                clock.shift_clock(seconds)
                assert ledger.send(broker.address, SENDS // 4) == [OK] * (SENDS // 4)
                ledger.check_new(broker.address)
            assert search(broker, 0) == 0  # The dawn of time is before the first.
            broker.kill()
    clock.heal()
    with start(tmp_path / "broker", store, clock, flush) as broker:
        there = ledger.check(broker.address)
        assert ledger.send(broker.address, SENDS) == [OK] * SENDS
    print(
        f"{flush}: {3 * len(JUMPS)} jumps of the clock, {len(JUMPS)} kills, {there} there, 0 lost"
    )


def search(broker: processes.Program, timestamp_ms: int) -> int:
    fields = {"topic": "Jumps", "queueId": "0", "timestamp": str(timestamp_ms)}
    return int(
        ask(broker.address, SEARCH_OFFSET_BY_TIMESTAMP, fields)[0]["extFields"]["offset"]
    )


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[LoopDisk]:
    with LoopDisk(tmp_path / "disk", megabytes=64) as disk:
        yield disk


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
def test_a_power_cut_after_a_jump_leaves_a_store_that_takes_messages(
    tmp_path: Path, disk, jump
):
    """What was written at an earlier time than the checkpoint's is not taken for damage."""
    clock, ledger = FaultyDisk(tmp_path), Ledger("Jumps")
    for _ in range(2):
        with start(tmp_path / "broker", disk.root / "store", clock, "ASYNC_FLUSH") as broker:
            clock.shift_clock(jump)
            assert ledger.send(broker.address, SENDS) == [OK] * SENDS
            time.sleep(CHECKPOINT_SECONDS)
            processes.wait_until(
                lambda: clock.has_synced("/commitlog/"),
                seconds=FLUSHED_SECONDS_MAX,
                what="the log on disk",
            )
            flushed = set(ledger.acknowledged)
            clock.shift_clock(0)
            ledger.flood(broker.address, window=64, until=SENDS)
            assert broker.process is not None
            broker.process.send_signal(signal.SIGSTOP)
            disk.cut_power()
            broker.kill()
            with contextlib.suppress(ConnectionError):
                ledger.abandon()
            disk.start_again()
        with start(tmp_path / "broker", disk.root / "store", clock, "ASYNC_FLUSH") as broker:
            ledger.forget_reads()
            ledger.read_on(broker.address)
            assert flushed <= ledger.read
            ledger.acknowledged &= ledger.read
            assert ledger.send(broker.address, 20) == [OK] * 20
            broker.stop()
        ledger.forget_reads()
