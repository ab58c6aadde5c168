"""Our Python client beside those that somebody would take instead: Java's on the same brokers, aiokafka, redis-py.

A round starts one server after the other, each on an empty folder, and gives each client the same work in a
process of its own. Client and broker share the machine's cores. One at a time is measured on processors that
are kept awake (`bench.awake`), for all alike.
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.awake import awake
from bench.kafka import kafka
from bench.load import Report, run_java_client
from bench.peers import peers_python, redis
from bench.systems import COMETMQ, JAVA, KAFKA, REDIS, Running, running
from bench.work import Round, fill, warm_up
from tests.support.programs import run_program

SCRIPT = Path(__file__).resolve().with_name("python_clients.py")
QUEUES = 4
CONSUMED_MESSAGES = 500_000
JAVA_ASYNC_THREADS = 4
Measured = dict[str, dict[str, Any]]


def client_rounds(rounds: int, *, seconds: int) -> Iterator[Measured]:
    """What was measured of each client, round by round."""
    for number in range(rounds):
        measured: Measured = {JAVA: {}, KAFKA: {}, REDIS: {}, COMETMQ: {}}
        print(f"clients: round {number + 1}", flush=True)
        for work in (on_java, on_ours, on_kafka, on_redis):
            with tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder:
                work(measured, Path(folder), seconds)
        yield measured


def on_java(measured: Measured, folder: Path, seconds: int) -> None:
    with running(JAVA, folder) as system:
        warm_up(system)
        keep(measured, JAVA, "to java", java_async(system, seconds))
        row = python_client(COMETMQ, "gathered", system.nameserver, seconds)
        keep(measured, COMETMQ, "to java", row)


def on_ours(measured: Measured, folder: Path, seconds: int) -> None:
    with running(COMETMQ, folder) as system:
        warm_up(system)
        names = system.nameserver
        keep(measured, JAVA, "to ours", java_async(system, seconds))
        keep(measured, COMETMQ, "to ours", python_client(COMETMQ, "gathered", names, seconds))
        for work in ("in-flight", "batched", "together"):
            keep(measured, COMETMQ, work, python_client(COMETMQ, work, names, seconds))
        with awake():
            keep(measured, JAVA, "blocking", java_client(system, "sync", seconds, threads=1))
            for work in ("blocking", "alone"):
                keep(measured, COMETMQ, work, python_client(COMETMQ, work, names, seconds))
        fill(Round(system, seconds), "Consumed", CONSUMED_MESSAGES)
        java_row = java_client(system, "consume", 60, threads=1, topic="Consumed")
        keep(measured, JAVA, "push", java_row)
        # A little less than there is, for threads count at once.
        row = python_client(COMETMQ, "push", names, CONSUMED_MESSAGES - 1_000)
        keep(measured, COMETMQ, "push", row)


def on_kafka(measured: Measured, folder: Path, seconds: int) -> None:
    with kafka(folder, partitions=QUEUES) as address:
        row = python_client(KAFKA, "in-flight", address, seconds)
        keep(measured, KAFKA, "together", python_client(KAFKA, "together", address, seconds))
    keep(measured, KAFKA, "in-flight", row)
    keep(measured, KAFKA, "batched", row)  # It fills batches by itself, always.


def on_redis(measured: Measured, folder: Path, seconds: int) -> None:
    with redis(folder) as address, awake():
        keep(measured, REDIS, "alone", python_client(REDIS, "alone", address, seconds))


def java_async(system: Running, seconds: int) -> Report:
    return java_client(system, "async", seconds, threads=JAVA_ASYNC_THREADS)


def java_client(
    system: Running, mode: str, seconds: int, *, threads: int, topic: str = "Java"
) -> Report:
    return run_java_client(
        system.nameserver, mode, seconds=seconds, threads=threads, size=128, topic=topic
    )


def python_client(name: str, work: str, address: str, amount: int) -> Report:
    """One work of `python_clients` in a process of its own.

    Raises:
        RuntimeError: it failed.
    """
    command = [str(peers_python(name)), str(SCRIPT), name, work, address, str(amount)]
    report: Report = json.loads(run_program(*command, seconds=300).stdout)
    return report


def keep(measured: Measured, system: str, row: str, report: Report) -> None:
    """Remember a row, and tell it."""
    measured[system][row] = report
    figures = "  ".join(
        f"{figure} {value:,.1f}" for figure, value in report.items() if figure != "mode"
    )
    print(f"  {system:8} {row:10} {figures}", flush=True)
