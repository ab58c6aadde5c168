"""What is lacking for a moment, descriptors or inodes, is refused with its name, and is no broken disk."""

import contextlib
import resource
from pathlib import Path

import pytest

from cometmq.process.descriptors import LEAST
from tests.attacks.by_hand import begin_pull, begin_send, pull, pull_all, send
from tests.attacks.stranger import Stranger
from tests.attacks.test_connections import with_descriptors
from tests.attacks.test_starts import filled_store, refused
from tests.support import processes
from tests.support.loop_disk import LoopDisk
from tests.support.programs import halted

OK, NOT_SERVING, FLUSH_LATE = 0, 14, 10
FAILED, UNKNOWN = 1, 9999
QUEUES = 4
CURED_SECONDS = 2.0
BUSY_SECONDS = 3.0  # What a busy machine may add.


def take_descriptors(pid: int) -> None:
    """Leave a process those that it has: no other file can be opened, whichever of them it closes but the first three."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (3, hard))


def give_descriptors(pid: int) -> None:
    """Let it open files again."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))


class Sender:
    """Sends, and knows what was acknowledged."""

    def __init__(self, stranger: Stranger, topic: str) -> None:
        self.stranger = stranger
        self.topic = topic
        self.acknowledged: list[tuple[int, bytes]] = []
        self.count = 0

    def send(self) -> tuple[int, str]:
        """One message of 20 KB to the next queue; code and remark."""
        self.count += 1
        queue_id, mark = self.count % QUEUES, b"<%d>" % self.count
        answer = send(self.stranger, self.topic, queue_id, mark + bytes(20_000))
        if answer.code == OK:
            self.acknowledged.append((queue_id, mark))
        return answer.code, answer.remark

    def send_until_refused(self) -> str:
        """The remark of the first refusal."""
        for _ in range(1000):
            code, remark = self.send()
            if code != OK:
                assert code in (NOT_SERVING, FLUSH_LATE), (code, remark)
                if code == NOT_SERVING:
                    return remark
        pytest.fail("never refused")

    def check(self, stranger: Stranger) -> None:
        """Assert that all that was acknowledged can be read."""
        records = {number: pull_all(stranger, self.topic, number) for number in range(QUEUES)}
        lost = [mark for number, mark in self.acknowledged if mark not in records[number]]
        assert not lost


@pytest.mark.parametrize("flush", ["ASYNC_FLUSH", "SYNC_FLUSH"])
def test_without_a_descriptor_left_sends_are_refused_until_there_is_one(
    tmp_path, nameserver, flush
):
    settings = {"flushDiskType": flush, "mappedFileSizeCommitLog": 1 << 20}
    broker = processes.broker(tmp_path / "broker", nameserver.address, settings=settings)
    with broker, Stranger(broker.address) as stranger:
        sender = Sender(stranger, "Lacking")
        assert sender.send()[0] == OK
        take_descriptors(broker.pid)
        try:
            refused = sender.send_until_refused()
            # Checkpoints, files ahead and tails come into it, too.
            for _ in range(40):
                code, refused = sender.send()
                assert code != OK
                with contextlib.suppress(TimeoutError):
                    processes.wait_until(lambda: False, seconds=0.05, what="a moment")
        finally:
            give_descriptors(broker.pid)
        processes.wait_until(
            lambda: sender.send()[0] == OK,
            seconds=CURED_SECONDS + BUSY_SECONDS,
            what="messages are accepted again",
        )
        for _ in range(60):
            code, remark = sender.send()
            assert code == OK, remark
        assert "file descriptors left" in refused
        assert "restart" not in refused
        broker.kill()
    with broker.start(), Stranger(broker.address) as stranger:
        sender.check(stranger)


def test_a_pull_that_lacks_a_descriptor_is_told_so_and_takes_nobody_with_it(tmp_path):
    """The file of its queue is to be opened; others have sent something in the same turn of the loop."""
    filled_store(tmp_path)
    broker = processes.broker(tmp_path, "")
    with (
        broker,
        Stranger(broker.address, seconds=10) as asking,
        Stranger(broker.address, seconds=10) as sending,
        Stranger(broker.address, seconds=10) as pulling,
    ):
        for each in (asking, sending):
            each.ask(UNKNOWN)  # It is let in.
        assert pull(pulling, "Nowhere", 0).code != OK  # The group is known from now on.
        take_descriptors(broker.pid)
        try:
            for _ in range(3):
                with halted(broker):
                    asked = asking.send(UNKNOWN)
                    sent = begin_send(sending, "Kept")
                    pulled = begin_pull(pulling, "Kept", 0)
                assert asking.read()[-2:] == (asked, True)
                assert sending.read()[-2:] == (sent, True)
                answer = pulling.read()
                assert (answer.code, answer.opaque) == (FAILED, pulled)
        finally:
            give_descriptors(broker.pid)
        assert pull(pulling, "Kept", 0).code == OK


def test_with_too_few_descriptors_a_start_is_refused_by_number_and_works_with_enough(tmp_path):
    filled_store(tmp_path)
    with processes.broker(tmp_path, "") as broker, Stranger(broker.address) as stranger:
        records = pull_all(stranger, "Kept", 0)
    # Too few for the interpreter's imports, its loop, its store, its connections.
    for few in (8, 12, 16, 20, LEAST - 1):
        said = refused(with_descriptors(processes.broker(tmp_path, ""), few))
        assert (
            f"may open {few} file descriptors (ulimit -n), but needs at least {LEAST}" in said
        )
        # Besides the two lines of every start there is one sentence.
        assert [line for line in said.splitlines() if " INFO " not in line] == [
            said.splitlines()[-1]
        ]
    enough = with_descriptors(processes.broker(tmp_path, ""), LEAST)
    with enough, Stranger(enough.address) as stranger:
        assert pull_all(stranger, "Kept", 0) == records


def test_a_nameserver_with_too_few_descriptors_is_refused_by_number(tmp_path):
    said = refused(with_descriptors(processes.nameserver(tmp_path), 12))
    assert f"may open 12 file descriptors (ulimit -n), but needs at least {LEAST}" in said


def fill_inodes(folder: Path) -> list[Path]:
    """Make files until there can be no more."""
    folder.mkdir(exist_ok=True)
    begun = len(list(folder.iterdir()))
    made: list[Path] = []
    with contextlib.suppress(OSError):
        while True:
            made.append(folder / str(begun + len(made)))
            made[-1].touch()
    return made[:-1]


def test_without_an_inode_left_a_start_is_refused_by_name_and_works_when_there_is_one(tmp_path):
    with LoopDisk(tmp_path / "disk", megabytes=64, inodes=128) as disk:
        settings = {
            "storePathRootDir": disk.root / "store",
            "storePathCommitLog": disk.root / "store" / "commitlog",
            "mappedFileSizeCommitLog": 1 << 20,
            "diskSpaceWarningLevelRatio": 100,
        }
        broker = processes.broker(tmp_path / "broker", "", settings=settings)
        with broker.start(), Stranger(broker.address) as stranger:
            sender = Sender(stranger, "Inodes")
            assert sender.send()[0] == OK
            taken = fill_inodes(disk.root / "fillers")
            refused = sender.send_until_refused()
            assert "disk full" in refused
            for path in taken:
                path.unlink()
            processes.wait_until(
                lambda: sender.send()[0] == OK,
                seconds=CURED_SECONDS + BUSY_SECONDS,
                what="messages are accepted again",
            )
            sender.check(stranger)
            taken = fill_inodes(disk.root / "fillers")
            broker.kill()
        for path in taken:
            path.unlink()
        with broker.start(), Stranger(broker.address) as stranger:
            sender.check(stranger)
        taken = fill_inodes(disk.root / "fillers")
        with pytest.raises(RuntimeError, match=r"cannot start: disk full: .*/abort.tmp"):
            broker.start()
        for path in taken:
            path.unlink()
        with broker.start(), Stranger(broker.address) as stranger:
            sender.stranger = stranger
            assert sender.send()[0] == OK
            sender.check(stranger)
