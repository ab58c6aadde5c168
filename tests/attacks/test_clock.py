"""A clock that runs four days ahead for a moment deletes nothing."""

from tests.attacks.by_hand import pull_all, send
from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.iofault import FaultyDisk

FOUR_DAYS = 4 * 86_400
MESSAGES = 40


def test_a_clock_four_days_ahead_for_a_moment_deletes_no_unread_file(tmp_path):
    settings = {
        "mappedFileSizeCommitLog": 1 << 16,
        "deleteWhen": ";".join(f"{hour:02}" for hour in range(24)),
        "cleanResourceInterval": 200,
        "deleteCommitLogFilesInterval": 0,
    }
    clock = FaultyDisk(tmp_path)
    broker = clock.under(processes.broker(tmp_path / "broker", "", settings=settings))
    log = tmp_path / "broker" / "store" / "commitlog"
    with broker.start(), Stranger(broker.address) as stranger:
        for number in range(MESSAGES):
            assert send(stranger, "Unread", 0, b"<%d>" % number + bytes(10_000)).code == 0
        oldest = min(log.iterdir())
        checkpoint = tmp_path / "broker" / "store" / "checkpoint.cometmq"
        before = checkpoint.read_bytes() if checkpoint.exists() else b""
        processes.wait_until(  # What no checkpoint covers is not deleted in any case.
            lambda: checkpoint.exists() and checkpoint.read_bytes() != before,
            seconds=20,
            what="a checkpoint",
        )
        clock.shift_clock(FOUR_DAYS)
        processes.wait_until(
            lambda: "was set" in broker.log.read_text() or not oldest.exists(),
            seconds=20,
            what="a round of cleaning",
        )
        clock.shift_clock(0)
        processes.wait_until(
            lambda: "was set back" in broker.log.read_text() or not oldest.exists(),
            seconds=20,
            what="another round",
        )
        there = pull_all(stranger, "Unread", 0)
        lost = [number for number in range(MESSAGES) if b"<%d>" % number not in there]
        assert not lost, f"{len(lost)} of {MESSAGES} unread messages are gone"
