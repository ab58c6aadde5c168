"""`kill -9` of a broker under load loses nothing that a producer saw acknowledged, and leaves no gap.

Real processes, real sockets. A round: start the broker on the store of the round before, read what is new,
send with a full window until enough is acknowledged, kill it with the window full, count what was
acknowledged up to the last byte that came. In the end everything is read once more from the start.
"""

from pathlib import Path

import pytest

from tests.support import processes
from tests.support.ledger import Ledger

IN_FLIGHT = 256
ACKNOWLEDGED_A_ROUND = 5_000
LONG_SECONDS_MAX = 3_600  # Of 200 rounds; .ci/run bounds the 20.


@pytest.mark.slow
@pytest.mark.timeout(LONG_SECONDS_MAX)
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_nothing_acknowledged_is_lost_and_no_offset_is_skipped(tmp_path: Path, flush, rounds):
    settings = {"flushDiskType": flush, "defaultTopicQueueNums": 4}
    ledger, unanswered = Ledger("Killed"), 0

    def start() -> processes.Program:
        return processes.broker(tmp_path / "broker", "", settings=settings).start()

    for _ in range(rounds):
        with start() as broker:
            ledger.check_new(broker.address)
            ledger.flood(broker.address, window=IN_FLIGHT, until=ACKNOWLEDGED_A_ROUND)
            broker.kill()
            unanswered += ledger.abandon()
    with start() as broker:
        there = ledger.check(broker.address)
        ledger.check_keys(broker.address, 200)
    print(
        f"{flush}: {rounds} rounds, {rounds} kills, {unanswered} sends in flight at them, "
        f"{len(ledger.acknowledged)} acknowledged, {there} read, 0 lost"
    )
    assert len(ledger.acknowledged) >= rounds * ACKNOWLEDGED_A_ROUND
