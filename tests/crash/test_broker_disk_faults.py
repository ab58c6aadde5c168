"""A broker whose disk fails: nothing is acknowledged that is not there, and it says why it refuses.

The real program, with the faults of `tests/support/iofault.c` between it and the kernel. The first test
shows that those see what the store does: without it the others would prove nothing.
"""

import errno
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.frames import ask
from tests.support.iofault import Call, Fault, FaultyDisk
from tests.support.ledger import OK, Ledger, first_accepted

FLUSH_DISK_TIMEOUT = 10
SERVICE_NOT_AVAILABLE = 14
REFUSALS = {FLUSH_DISK_TIMEOUT, SERVICE_NOT_AVAILABLE}
ANSWER_SECONDS_MAX = 5.0  # A client gives up after 3 s; a busy machine gets a little more.
TAKEN_AGAIN_SECONDS_MAX = 30.0
LOG_FILE_SIZE = 1 << 20
SLOW_FLUSH_MS = 3_000  # A third of it is more than a flush takes on a disk that others use too.


class Bench:
    """A broker on a faulty disk, and a ledger of what it was sent."""

    def __init__(self, folder: Path, flush: str, **settings: object) -> None:
        self.folder = folder
        self.store = folder / "broker" / "store"
        self.disk = FaultyDisk(folder)
        self.ledger = Ledger("Faulty")
        self._settings = {
            "flushDiskType": flush,
            "mappedFileSizeCommitLog": LOG_FILE_SIZE,
            "defaultTopicQueueNums": 4,
            **settings,
        }

    def start(self, env: Mapping[str, str] | None = None) -> processes.Program:
        broker = processes.broker(self.folder / "broker", "", settings=self._settings)
        broker.env |= env or {}
        return self.disk.under(broker).start()

    def check_after_kill(self, broker: processes.Program) -> int:
        """Kill it, start it on a sound disk, and compare the books; how many messages there are."""
        broker.kill()
        self.disk.heal()
        with self.start() as again:
            there = self.ledger.check(again.address)
            self.ledger.check_keys(again.address, 20)
            assert self.ledger.send(again.address, 20) == [OK] * 20
            self.ledger.check_new(again.address)
        return there

    def report(self, what: str, there: int) -> None:
        codes = dict(sorted(self.ledger.codes.items()))
        print(f"{what}: answers {codes}, {there} there after a kill, 0 lost")


def covered_by_sync(calls: list[Call], path: str, start: int, end: int) -> bool:
    """Whether bytes `start` to `end` of a file were written, and a sync of it ended after that."""
    written_at = None
    for number, call in enumerate(calls):
        if call.path != path or call.result < 0:
            continue
        if call.name == "pwrite" and call.offset <= start and end <= call.offset + call.result:
            written_at = number
        elif call.name == "fdatasync" and written_at is not None:
            return True
    return False


def test_the_recorder_sees_each_message_written_and_synced_before_its_answer(tmp_path: Path):
    bench = Bench(tmp_path, "SYNC_FLUSH")
    log_file = str(bench.store / "commitlog" / f"{0:020d}")
    with bench.start() as broker:
        assert bench.ledger.send(broker.address, 5) == [OK] * 5
        for _ in range(30):
            before = len(bench.disk.calls())
            assert bench.ledger.send(broker.address, 1) == [OK]
            calls = bench.disk.calls()
            writes = [
                call
                for call in calls[before:]
                if call.name == "pwrite" and call.path == log_file
            ]
            assert len(writes) == 1
            start = writes[0].offset
            assert covered_by_sync(calls, log_file, start, start + writes[0].size)
        pid_maps = Path(f"/proc/{broker.pid}/maps").read_text().splitlines()
    store_maps = [line.split()[1] for line in pid_maps if str(bench.store) in line]
    # A store through a map would pass the recorder by.
    assert all("w" not in rights for rights in store_maps)
    names = {call.name for call in bench.disk.calls() if str(bench.store) in call.path}
    assert names >= {
        "create", "open", "pwrite", "fdatasync", "fsync", "allocate", "resize",
        "rename", "unlink", "mkdir",
    }  # fmt: skip
    print(
        f"recorder: {len(bench.disk.calls())} calls seen, 30 of 30 synced before their answer"
    )


@pytest.mark.parametrize("kernel", ["fast", "reference"])
def test_what_a_lone_sender_sent_is_on_its_way_before_the_flush(tmp_path: Path, kernel):
    bench = Bench(tmp_path, "SYNC_FLUSH")
    log_file = str(bench.store / "commitlog" / f"{0:020d}")
    with bench.start({"COMETMQ_KERNEL": kernel}) as broker:
        assert bench.ledger.send(broker.address, 5) == [OK] * 5
        for _ in range(10):
            before = len(bench.disk.calls())
            assert bench.ledger.send(broker.address, 1) == [OK]
            calls = [call for call in bench.disk.calls()[before:] if call.path == log_file]
            assert [call.name for call in calls] == ["pwrite", "writeout", "fdatasync"]
            written, begun, _ = calls
            assert (begun.offset, begun.size) == (written.offset, written.size)
            assert begun.result == 0


@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
@pytest.mark.parametrize("call", ["fdatasync", "pwrite"])
def test_an_error_of_the_log_is_final_until_a_restart(tmp_path: Path, flush, call):
    """One EIO, once: RocketMQ 5.3.3 and 5.5.0 lost 40 of 60 acknowledged here."""
    bench = Bench(tmp_path, flush, flushIntervalCommitLog=50, flushCommitLogLeastPages=0)
    with bench.start() as broker:
        assert bench.ledger.send(broker.address, 20) == [OK] * 20
        bench.disk.fail(Fault(call, "/commitlog/", last=1))
        if (flush, call) == ("ASYNC_FLUSH", "fdatasync"):
            # Nobody waits for this flush; the sends after it are refused.
            began = time.monotonic()
            while SERVICE_NOT_AVAILABLE not in bench.ledger.send(broker.address, 1):
                assert time.monotonic() - began < ANSWER_SECONDS_MAX
        began = time.monotonic()
        assert set(bench.ledger.send(broker.address, 20)) <= REFUSALS
        assert time.monotonic() - began < ANSWER_SECONDS_MAX
        bench.disk.heal()
        assert bench.ledger.send(broker.address, 20) == [SERVICE_NOT_AVAILABLE] * 20
        bench.ledger.check(broker.address)  # Readers go on.
        there = bench.check_after_kill(broker)
    bench.report(f"EIO once on {call} of the log, {flush}", there)


def test_a_flush_that_takes_too_long_is_answered_so_and_the_message_stays(tmp_path: Path):
    bench = Bench(tmp_path, "SYNC_FLUSH", syncFlushTimeout=SLOW_FLUSH_MS // 3)
    with bench.start() as broker:
        assert bench.ledger.send(broker.address, 5) == [OK] * 5
        bench.disk.fail(
            Fault("fdatasync", "/commitlog/", code=0, last=2, delay_ms=SLOW_FLUSH_MS)
        )
        codes = bench.ledger.send(broker.address, 2)
        assert FLUSH_DISK_TIMEOUT in codes
        assert set(codes) <= {OK, FLUSH_DISK_TIMEOUT}
        bench.disk.heal()
        first_accepted(bench.ledger, broker.address, seconds=TAKEN_AGAIN_SECONDS_MAX)
        assert bench.ledger.check(broker.address) == len(bench.ledger.sent)
        there = bench.check_after_kill(broker)
    assert there == len(bench.ledger.sent) - 20
    bench.report("flushes of 3 s, syncFlushTimeout 1 s", there)


NO_ROOM_STEPS = {
    "the log's next file, made": ("create", "/commitlog/"),
    "the log's next file, allocated": ("allocate", "/commitlog/"),
    "an append": ("pwrite", "/commitlog/"),
    "a queue's directory": ("mkdir", "/consumequeue/"),
    "a queue's file, made": ("create", "/consumequeue/"),
    "a queue's file, its size": ("resize", "/consumequeue/"),
    "a queue's entries": ("pwrite", "/consumequeue/"),
    "an index file, made": ("create", "/index/"),
    "an index file's entries": ("pwrite", "/index/"),
}


@pytest.mark.parametrize("step", NO_ROOM_STEPS)
def test_no_room_refuses_senders_and_goes_on_when_there_is(tmp_path: Path, step):
    bench = Bench(tmp_path, "ASYNC_FLUSH", mappedFileSizeConsumeQueue=20 * 100)
    bench.ledger = Ledger("Faulty", padding=8_000)  # So files are full soon.
    with bench.start() as broker:
        bench.disk.fail(Fault(*NO_ROOM_STEPS[step], code=errno.ENOSPC))
        began = time.monotonic()
        while SERVICE_NOT_AVAILABLE not in bench.ledger.send(broker.address, 50):
            assert time.monotonic() - began < TAKEN_AGAIN_SECONDS_MAX, "never refused"
        began = time.monotonic()
        assert set(bench.ledger.send(broker.address, 10)) <= {OK, SERVICE_NOT_AVAILABLE}
        assert time.monotonic() - began < ANSWER_SECONDS_MAX
        bench.ledger.check(broker.address)
        bench.disk.heal()
        seconds = first_accepted(bench.ledger, broker.address, seconds=TAKEN_AGAIN_SECONDS_MAX)
        assert bench.ledger.send(broker.address, 200) == [OK] * 200
        bench.ledger.check(broker.address)
        there = bench.check_after_kill(broker)
    bench.report(f"ENOSPC at {step}, taken again after {seconds:.1f} s", there)


@pytest.mark.parametrize("call", ["create", "pwrite", "fdatasync", "rename"])
def test_a_topic_that_cannot_be_written_down_is_not_acknowledged(tmp_path: Path, call):
    bench = Bench(tmp_path, "SYNC_FLUSH")
    other = Ledger("Other")
    with bench.start() as broker:
        assert bench.ledger.send(broker.address, 5) == [OK] * 5
        bench.disk.fail(Fault(call, "/config/topics.json", code=errno.ENOSPC))
        assert OK not in other.send(broker.address, 3)
        assert bench.ledger.send(broker.address, 5) == [OK] * 5
        bench.disk.heal()
        first_accepted(other, broker.address, seconds=TAKEN_AGAIN_SECONDS_MAX)
        broker.kill()
        with bench.start() as again:
            other.check(again.address)
            bench.ledger.check(again.address)
    print(f"ENOSPC at {call} of topics.json: answers {dict(other.codes)}, 0 lost")


def test_a_checkpoint_that_cannot_be_made_stops_nobody(tmp_path: Path):
    bench = Bench(tmp_path, "ASYNC_FLUSH")
    with bench.start() as broker:
        bench.disk.fail(Fault("pwrite", "/store/checkpoint", code=errno.ENOSPC))
        began = time.monotonic()
        while time.monotonic() - began < 2.5:  # Two checkpoints are due meanwhile.
            assert bench.ledger.send(broker.address, 50) == [OK] * 50
            time.sleep(0.1)
        there = bench.check_after_kill(broker)
    bench.report("ENOSPC at the checkpoint", there)


def test_offsets_that_cannot_be_saved_are_saved_when_they_can(tmp_path: Path):
    bench = Bench(tmp_path, "ASYNC_FLUSH", flushConsumerOffsetInterval=100)
    update_offset, query_offset = 15, 14
    fields = {"consumerGroup": "group", "topic": "Faulty", "queueId": "0"}
    with bench.start() as broker:
        assert bench.ledger.send(broker.address, 40) == [OK] * 40
        bench.disk.fail(Fault("pwrite", "/config/consumerOffset", code=errno.ENOSPC))
        assert (
            ask(broker.address, update_offset, {**fields, "commitOffset": "7"})[0]["code"] == 0
        )
        time.sleep(0.5)
        assert bench.ledger.send(broker.address, 5) == [OK] * 5
        bench.disk.heal()
        saved = bench.store / "config" / "consumerOffset.json"
        processes.wait_until(
            lambda: saved.exists() and b"7" in saved.read_bytes(),
            seconds=TAKEN_AGAIN_SECONDS_MAX,
            what="offsets saved",
        )
        broker.kill()
        with bench.start() as again:
            header, _ = ask(again.address, query_offset, fields)
            assert header["extFields"]["offset"] == "7"
