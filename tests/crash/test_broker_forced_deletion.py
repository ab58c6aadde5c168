"""With cleanFileForciblyEnable a broker on a small disk takes messages for ever: the oldest files go."""

import os
import time
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.ledger import OK, Ledger
from tests.support.loop_disk import LoopDisk

DISK_MIB = 16
BODY_SIZE = 50_000
COUNT = 400  # 20 MB: more than the disk.
SETTINGS = {
    "mappedFileSizeCommitLog": 1 << 20,
    "cleanFileForciblyEnable": "true",
    "cleanResourceInterval": 50,
    "diskSpaceCleanForciblyRatio": 60,
    "flushIntervalCommitLog": 20,
    "flushIntervalConsumeQueue": 20,
}


def start(disk: LoopDisk, **more: str) -> processes.Program:
    store = disk.root / "store"
    paths = {"storePathRootDir": store, "storePathCommitLog": store / "commitlog"}
    folder = disk.root.with_name("broker")
    return processes.broker(folder, "", settings={**SETTINGS, **paths, **more}).start()


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_the_oldest_go_so_that_the_newest_can_be_taken(tmp_path: Path):
    refused = 0
    with LoopDisk(tmp_path / "disk", megabytes=DISK_MIB) as disk:
        ledger = Ledger("Forced", padding=BODY_SIZE)
        with start(disk) as broker:
            while len(ledger.acknowledged) < COUNT:
                codes = ledger.send(broker.address, 10)
                if codes != [OK] * 10:  # It is faster than the disk is cleaned.
                    refused += 1
                    time.sleep(0.05)
            space = os.statvfs(disk.root)
            broker.kill()
        # What is read is what the kill has left: nothing is let go meanwhile.
        with start(disk, cleanFileForciblyEnable="false") as broker:
            left = ledger.check_left(broker.address)
    used = 100 - 100 * space.f_bavail // space.f_blocks
    print(
        f"{COUNT} of {BODY_SIZE} bytes on {DISK_MIB} MiB: {used} % used, {left} left, the newest; "
        f"had to wait {refused} times"
    )
    assert 50 <= left < COUNT
