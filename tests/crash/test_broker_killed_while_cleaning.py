"""`kill -9` while files expire under load: what is left is dense, and only the oldest is missing."""

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.ledger import Ledger

ROUNDS = 3
A_ROUND = 4  # Log files that go before a kill.
WINDOW = 64
FILE = 65_536
KEPT = 4  # So many of the newest log files do not expire.
SETTINGS = {
    "mappedFileSizeCommitLog": FILE,
    "mappedFileSizeConsumeQueue": 2_000,  # A hundred entries.
    "cleanResourceInterval": 20,
    "diskMaxUsedSpaceRatio": 1,  # Expired files go at once, whatever the hour is.
    "flushIntervalCommitLog": 20,
    "flushIntervalConsumeQueue": 20,
    "defaultTopicQueueNums": 4,
}


@contextlib.contextmanager
def ageing(log: Path) -> Iterator[None]:
    """Let all but the newest files look old, again and again."""
    is_over = threading.Event()

    def age() -> None:
        while not is_over.wait(0.02):
            for path in sorted(log.iterdir())[:-KEPT]:
                with contextlib.suppress(FileNotFoundError):
                    os.utime(path, (1, 1))

    thread = threading.Thread(target=age)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_only_the_oldest_is_missing_after_kills(tmp_path: Path):
    log = tmp_path / "broker" / "store" / "commitlog"
    ledger, firsts = Ledger("Ageing", padding=1_000), [0]
    for _ in range(ROUNDS):
        with processes.broker(tmp_path / "broker", "", settings=SETTINGS) as broker:
            with ageing(log):
                ledger.flood(broker.address, window=WINDOW, until=1_000)
                enough = firsts[-1] + A_ROUND
                while first_file(log) < enough:
                    ledger.flood_on(window=WINDOW, until=30)
                    time.sleep(0.02)
                broker.kill()
            ledger.abandon()
        firsts.append(first_file(log))
    calm = {**SETTINGS, "diskMaxUsedSpaceRatio": 100, "deleteWhen": ""}
    with processes.broker(tmp_path / "broker", "", settings=calm) as broker:
        left = ledger.check_left(broker.address)
    print(
        f"log files gone at each kill: {firsts[1:]}; {left} messages left, the oldest missing"
    )


def first_file(log: Path) -> int:
    """The number of the oldest log file."""
    return int(min(log.iterdir()).name) // FILE
