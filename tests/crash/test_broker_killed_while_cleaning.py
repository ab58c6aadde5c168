"""`kill -9` while files expire under load: what is left is dense, and only the oldest is missing."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq.model.codes import RequestCode
from tests.support import processes
from tests.support.frames import ask
from tests.support.ledger import Ledger
from tests.support.load import read_queue

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
                    ledger.flood_on(window=WINDOW, until=100)
                broker.kill()
            ledger.abandon()
        firsts.append(first_file(log))
    calm = {**SETTINGS, "diskMaxUsedSpaceRatio": 100, "deleteWhen": ""}
    with processes.broker(tmp_path / "broker", "", settings=calm) as broker:
        left = [check(ledger, broker.address, queue_id) for queue_id in range(4)]
    print(
        f"log files gone at each kill: {firsts[1:]}; {left} messages left, the oldest missing"
    )


def first_file(log: Path) -> int:
    """The number of the oldest log file."""
    return int(min(log.iterdir()).name) // FILE


def check(ledger: Ledger, address: str, queue_id: int) -> int:
    """Read a queue from its min offset; how many messages it has."""
    place = {"topic": ledger.topic, "queueId": str(queue_id)}
    answer, _ = ask(address, RequestCode.GET_MIN_OFFSET, place)
    start = int(answer["extFields"]["offset"])
    found = read_queue(address, ledger.topic, queue_id, start=start)
    assert [offset for offset, _ in found] == list(range(start, start + len(found)))
    numbers = [int(body.partition(b"-")[0]) for _, body in found]
    assert numbers == sorted(set(numbers))
    assert {body for _, body in found} <= ledger.sent
    acknowledged = {int(body.partition(b"-")[0]) for body in ledger.acknowledged}
    newer = {n for n in acknowledged if n % ledger.queues == queue_id and n >= numbers[0]}
    assert newer <= set(numbers)
    return len(found)
