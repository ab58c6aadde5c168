"""A real file system that is full, out of inodes, or gone read-only under a broker.

Sends are refused with a reason and within a moment, readers go on, nothing acknowledged is lost, no unread
message is ever deleted to make room; when there is room again, sends are taken again without a restart.
"""

import time
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.ledger import OK, Ledger, first_accepted
from tests.support.loop_disk import LoopDisk

SERVICE_NOT_AVAILABLE = 14
FLUSH_DISK_TIMEOUT = 10
LOG_FILE_SIZE = 1 << 20
ANSWER_SECONDS_MAX = 5.0  # A client gives up after 3 s; a busy machine gets a little more.
TAKEN_AGAIN_SECONDS_MAX = 30.0


def start(disk: LoopDisk, flush: str = "ASYNC_FLUSH") -> processes.Program:
    settings = {
        "storePathRootDir": disk.root / "store",
        "storePathCommitLog": disk.root / "store" / "commitlog",
        "flushDiskType": flush,
        "mappedFileSizeCommitLog": LOG_FILE_SIZE,
        "diskSpaceWarningLevelRatio": 100,  # So that the disk itself says no.
    }
    # Its conf and its words stay beside the disk that fails.
    return processes.broker(disk.root.with_name("broker"), "", settings=settings).start()


def send_until_refused(ledger: Ledger, address: str, *, most: int = 2_000) -> float:
    """Send one by one until one is refused; how long that answer took, s."""
    for _ in range(most):
        began = time.monotonic()
        codes = ledger.send(address, 1)
        if codes != [OK]:
            assert set(codes) <= {SERVICE_NOT_AVAILABLE, FLUSH_DISK_TIMEOUT}
            return time.monotonic() - began
    pytest.fail("never refused")


def test_a_full_disk_refuses_senders_loses_nothing_and_goes_on_when_there_is_room(
    tmp_path: Path,
):
    with LoopDisk(tmp_path / "disk", megabytes=24) as disk:
        filler = disk.root / "filler"
        filler.write_bytes(bytes(8 << 20))
        ledger = Ledger("Full", padding=50_000)
        with start(disk) as broker:
            seconds = send_until_refused(ledger, broker.address)
            assert seconds < ANSWER_SECONDS_MAX
            assert OK not in ledger.send(broker.address, 20)
            full = ledger.check(broker.address)
            filler.unlink()
            again = first_accepted(ledger, broker.address, seconds=TAKEN_AGAIN_SECONDS_MAX)
            assert ledger.send(broker.address, 50) == [OK] * 50
            ledger.check(broker.address)
            broker.kill()
        with start(disk) as broker:
            there = ledger.check(broker.address)
    print(
        f"disk full after {full} messages of 50 KB: refused within {seconds * 1000:.0f} ms, taken "
        f"again {again:.1f} s after there was room, {there} there after a kill, 0 lost"
    )


def test_a_disk_without_inodes_refuses_senders_and_goes_on(tmp_path: Path):
    with LoopDisk(tmp_path / "disk", megabytes=64, inodes=128) as disk:
        fillers = disk.root / "fillers"
        ledger = Ledger("Inodes", padding=50_000)
        with start(disk) as broker:
            assert ledger.send(broker.address, 5) == [OK] * 5
            fillers.mkdir()
            taken = fill_inodes(fillers)
            seconds = send_until_refused(ledger, broker.address)
            assert seconds < ANSWER_SECONDS_MAX
            ledger.check(broker.address)
            for name in taken:
                name.unlink()
            again = first_accepted(ledger, broker.address, seconds=TAKEN_AGAIN_SECONDS_MAX)
            assert ledger.send(broker.address, 50) == [OK] * 50
            broker.kill()
        with start(disk) as broker:
            there = ledger.check(broker.address)
    print(
        f"no inode left: refused within {seconds * 1000:.0f} ms, taken again after {again:.1f} s, "
        f"{there} there after a kill, 0 lost"
    )


def fill_inodes(folder: Path) -> list[Path]:
    """Make files until there can be no more."""
    made: list[Path] = []
    while True:
        name = folder / str(len(made))
        try:
            name.touch()
        except OSError:
            return made
        made.append(name)


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
def test_a_file_system_gone_read_only_refuses_senders_and_serves_readers(tmp_path: Path, flush):
    with LoopDisk(tmp_path / "disk", megabytes=64) as disk:
        ledger = Ledger("ReadOnly")
        with start(disk, flush) as broker:
            assert ledger.send(broker.address, 100) == [OK] * 100
            disk.break_down()
            seconds = send_until_refused(ledger, broker.address)
            assert seconds < ANSWER_SECONDS_MAX
            assert OK not in ledger.send(broker.address, 20)
            ledger.check(broker.address)
            broker.kill()
        # What starts on it says what is wrong, and ends.
        with pytest.raises(RuntimeError, match="Read-only file system"):
            start(disk, flush)
        disk.start_again()
        with start(disk, flush) as broker:
            if flush == "SYNC_FLUSH":
                ledger.check(broker.address)
            assert ledger.send(broker.address, 20) == [OK] * 20
    print(f"read-only, {flush}: refused within {seconds * 1000:.0f} ms, readers served")
