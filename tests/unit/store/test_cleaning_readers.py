"""Threads read old messages while their files go: each answer is right, or says that they are gone."""

from __future__ import annotations

import contextlib
import gc
import os
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from cometmq.codec.record import decode_records
from cometmq.store.disk import Buffer
from cometmq.store.log_file import LogFile
from cometmq.store.reader import GetResult, GetStatus
from cometmq.store.real_disk import RealDisk
from cometmq.store.retention import Retention
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.store_puts import SMALL, clean, open_store, put, settle

ROUNDS = 30
GONE = {GetStatus.MESSAGE_WAS_REMOVING, GetStatus.OFFSET_FOUND_NULL}


class ColdDisk(RealDisk):
    """A disk on which every read has to wait."""

    def pread_nowait(self, fd: int, size: int, offset: int) -> Buffer | None:
        return None

    def pread(self, fd: int, size: int, offset: int) -> bytes:
        time.sleep(0.0005)  # Let the file go meanwhile.
        return super().pread(fd, size, offset)


def body(number: int) -> bytes:
    return b"%06d" % number + b"x" * 3900


def check(start: int, result: GetResult) -> int:
    """An answer holds the messages that it says, in order; how many."""
    if result.status in GONE:
        assert result.next_offset > start
        return 0
    assert result.status is GetStatus.FOUND
    found = decode_records(b"".join(result.records))
    offsets = [record.queue_offset for record in found]
    assert offsets == list(range(result.next_offset - len(found), result.next_offset))
    assert [record.body for record in found] == [body(offset) for offset in offsets]
    return len(found)


def open_names() -> list[str]:
    """What this process has open."""
    names = []
    for path in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # The folder's own descriptor.
            names.append(str(path.readlink()))
    return names


def test_reads_of_files_that_go_are_right_or_say_so(tmp_path: Path):
    clock = HandClock(int(time.time() * 1000))
    settings = replace(
        SMALL,
        warm_tail_bytes=0,
        access_in_memory_ratio=0,
        retention=Retention(delete_hours=frozenset()),
    )
    store = open_store(tmp_path, settings, disk=ColdDisk(), clock=clock)
    reads: list[tuple[int, Future[GetResult]]] = []
    queue = store.queue_for_append("orders", 0)
    with ThreadPoolExecutor(4) as pool:
        for _ in range(ROUNDS):
            for _ in range(12):
                put(store, body(queue.next_offset))
            settle(store, clock)
            for start in range(queue.min_offset, queue.tail_start):
                result = store.get("orders", 0, start)
                assert result.cold is not None
                reads.append((start, pool.submit(result.cold)))
            for path in sorted((tmp_path / "commitlog").iterdir())[:-4]:
                os.utime(path, (1, 1))
            clean(store)
    counts = [check(start, read.result()) for start, read in reads]
    assert sum(counts) > len(reads)
    assert queue.min_offset >= queue.max_offset - 24
    del reads
    gc.collect()
    held = [name for name in open_names() if str(tmp_path) in name and "(deleted)" in name]
    assert held == []
    store.close()


def test_a_file_that_goes_between_the_choice_of_entries_and_their_reading_is_passed_over():
    store = open_store(disk=FakeDisk())
    for number in range(12):
        put(store, body(number))
    gone: list[LogFile] = []

    def match(_code: int) -> bool:
        if not gone:
            gone.append(store._log.chain.drop_first())
        return True

    result = store.get("orders", 0, 0, match=match)
    assert result.status is GetStatus.FOUND
    found = decode_records(b"".join(result.records))
    assert [record.queue_offset for record in found] == list(range(4, 12))
