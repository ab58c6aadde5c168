"""One sender who waits for each flush, and what a bare write to the same disk takes beside it."""

import os
import time
from pathlib import Path
from statistics import mean, median

from bench.awake import awake
from bench.load import run_loadgen
from bench.placing import Cores, here_on, placed
from bench.work import Measured, Round

RECORD_SIZE = 128 + 170  # of a message of 128 bytes from loadgen, about
BARE_WRITES = 2_000
BARE_FILE_SIZE = 64 << 20
TURNS = 8  # A disk changes with the second: each turn of a second has its own bare writes.


def lone_senders(work: Round, folder: Path) -> None:
    """A row for each way in which sender and server can be put on two cores."""
    first, second, *_ = sorted(everywhere := os.sched_getaffinity(0))
    places = {
        "sync on one core": ({first}, {first}),
        "sync on a core each": ({first}, {second}),
        "sync alone": (everywhere, everywhere),
    }
    with awake():
        for row, (server, load) in places.items():
            lone_sender(work, row, folder, server=server, load=load)


def lone_sender(work: Round, row: str, folder: Path, *, server: Cores, load: Cores) -> None:
    """Sends and bare writes in turn, the bare ones where the server writes."""
    address = work.system.broker.address
    sent, bare_us, over_us = [], [], []

    def bare() -> float:
        with here_on(server):
            return bare_write_us(folder)

    def send() -> Measured:
        with placed(work.system.group, server=server, load=load):
            return run_loadgen("lone", address, topic="Alone", size=128, secs=1)

    with work.measured(row) as measured:
        for _ in range(TURNS):
            before, report, after = bare(), send(), bare()
            sent.append(report)
            bare_us.append(mean((before, after)))
            over_us.append(report["p50_us"] - bare_us[-1])
        measured["messages"] = sum(each["messages"] for each in sent)
        measured["per_second"] = mean(each["per_second"] for each in sent)
    measured["p50_us"] = median(each["p50_us"] for each in sent)
    measured["bare_us"] = median(bare_us)
    measured["over_bare_us"] = median(over_us)
    work.acknowledged["Alone"] += measured["messages"]


def bare_write_us(folder: Path) -> float:
    """Median of a `pwrite` and `fdatasync` of a record into an allocated file, one behind the other."""
    piece = b"x" * RECORD_SIZE
    path = folder / "bare"
    fd = os.open(path, os.O_RDWR | os.O_CREAT)
    try:
        os.posix_fallocate(fd, 0, BARE_FILE_SIZE)
        os.fsync(fd)
        took = []
        for number in range(BARE_WRITES):
            began = time.perf_counter()
            os.pwrite(fd, piece, number * RECORD_SIZE)
            os.fdatasync(fd)
            took.append(time.perf_counter() - began)
        return median(took) * 1e6
    finally:
        os.close(fd)
        path.unlink()
