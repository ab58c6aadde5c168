"""`kill -9` of a master under load, and its directory deleted: what was acknowledged is at its slave.

A round: a master and a slave with an empty disk; when that is in sync, a producer floods; the master is
killed with the window full, the slave right behind it, and the master's directory goes. The slave's is the
next round's master.
"""

import shutil
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.ledger import Ledger
from tests.support.replica import copying

IN_FLIGHT = 256
ACKNOWLEDGED_A_ROUND = 2_000
ROUNDS = 10


def wait_for_copy(ledger: Ledger, address: str) -> None:
    """Wait until the slave is in sync."""
    processes.wait_until(
        lambda: ledger.send(address, 1) == [0], seconds=30, what="a slave in sync"
    )


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_what_two_members_have_outlives_the_masters_directory(tmp_path: Path, flush):
    ledger, unanswered = Ledger("Replicated"), 0
    settings = {
        "brokerRole": "SYNC_MASTER",
        "inSyncReplicas": 2,
        "haAllowedAddresses": "127.0.0.1",
        "flushDiskType": flush,
        "defaultTopicQueueNums": 4,
    }

    def master(number: int) -> processes.Program:
        return processes.broker(tmp_path / f"{number}", "", settings=settings)

    for number in range(ROUNDS):
        with master(number) as broker:
            if number:
                ledger.check(broker.address)
            with copying(tmp_path / f"{number + 1}", f"127.0.0.1:{broker.port + 1}") as copy:
                wait_for_copy(ledger, broker.address)
                ledger.flood(broker.address, window=IN_FLIGHT, until=ACKNOWLEDGED_A_ROUND)
                broker.kill()
                copy.kill()
                unanswered += ledger.abandon()
        shutil.rmtree(tmp_path / f"{number}")
    with master(ROUNDS) as broker:
        there = ledger.check(broker.address)
    print(
        f"{flush}: {ROUNDS} masters killed and deleted, {unanswered} sends in flight at them, "
        f"{len(ledger.acknowledged)} acknowledged, {there} read, 0 lost"
    )
    assert len(ledger.acknowledged) >= ROUNDS * ACKNOWLEDGED_A_ROUND
