"""What users of the client, the commands and Spark wait for: plans, commands, sinks, backlogs, tables.

Where a row compares with the tree before this work, `bench.ab` builds that one in an environment of its own.
"""

import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench.ab import old_tree
from bench.systems import BEFORE, COMETMQ
from cometmq import Admin
from cometmq.embedded import Embedded
from cometmq.spark.source import planning
from cometmq.spark.source.cluster import SourceCluster
from cometmq.spark.source.settings import SourceSettings
from tests.support.big_store import make_big_store
from tests.support.far_away import FarAway
from tests.support.programs import run_program

Measured = dict[str, Any]
BEFORE_COMMIT = "7fa79f5"
QUEUES, DELAY_MS = 1_000, 5
FAR = "127.0.0.2"  # What the route names; the broker itself listens at 127.0.0.1.
TURNS = 5
STORE_MESSAGES = 200_000


def face_rounds(
    rounds: int, *, folder: Path, keys: int
) -> Iterator[dict[str, dict[str, Measured]]]:
    """The rows of each round; `keys` are those of the table that changes are merged into."""
    from bench.face_spark import SparkFace  # Not everybody has Spark.

    store = folder / "store"
    make_big_store(store, STORE_MESSAGES, body_size=1024, filling=b"x")
    with SparkFace(folder, keys=keys) as spark:
        for number in range(rounds):
            print(f"face: round {number + 1}", flush=True)
            ours: dict[str, Measured] = {"plan": plan(), "commands": commands()}
            theirs, ours["verify"] = verify(store)
            ours |= spark.rows(number)
            yield {BEFORE: {"verify": theirs}, COMETMQ: ours}


def plan() -> Measured:
    """How long the plan of a batch read takes: 1,000 queues of a broker that is 5 ms away."""
    settings = {"brokerIP1": FAR, "bindAddress": "127.0.0.1"}
    with Embedded(settings=settings) as mq:
        port = int(mq.broker.rpartition(":")[2])
        with (
            FarAway(FAR, ("127.0.0.1", port), delay_ms=DELAY_MS),
            Admin(mq.nameserver) as admin,
        ):
            admin.topics.create("wide", queues=QUEUES)
            return {"seconds": median(one_plan(mq.nameserver) for _ in range(TURNS))}


def one_plan(nameserver: str) -> float:
    """From a source that knows nothing to the range of each queue, in seconds."""
    given = {"nameserver": nameserver, "subscribe": "wide", "group": "g"}
    settings = SourceSettings.parse(given, is_stream=False)
    began = time.perf_counter()
    cluster = SourceCluster(settings)
    try:
        queues = planning.covered_queues(settings.topics, cluster)
        planning.resolve(settings.starting, queues, cluster)
        ends = planning.resolve(settings.ending, queues, cluster)
        assert len(ends) == QUEUES
        return time.perf_counter() - began
    finally:
        cluster.close()


def commands() -> Measured:
    """Processor time of `cometmq --help`, and of a program that imports the client."""
    return {
        "help_seconds": median(
            processor_time(sys.executable, "-m", "cometmq.cli", "--help") for _ in range(TURNS)
        ),
        "import_seconds": median(
            processor_time(sys.executable, "-c", "from cometmq import Producer")
            for _ in range(TURNS)
        ),
    }


def verify(store: Path) -> tuple[Measured, Measured]:
    """`cometmq store verify` of one store by the old tree and by this one, in turn, on one core."""
    size = sum(path.stat().st_size for path in (store / "commitlog").iterdir())
    old = str(old_tree(BEFORE_COMMIT))
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(TURNS):
        for python, kept in zip((old, sys.executable), times, strict=True):
            kept.append(
                processor_time(python, "-m", "cometmq.cli", "store", "verify", str(store))
            )
    theirs, ours = ({"bytes_per_second": size / median(kept)} for kept in times)
    return theirs, ours


def processor_time(*command: str) -> float:
    """Seconds of processor time that a program takes on one core, its start included.

    Raises:
        RuntimeError: it fails.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    core = min(os.sched_getaffinity(0))
    env = {"PYTHONDONTWRITEBYTECODE": ""}  # Users have the bytecode of the last run.
    run_program("taskset", "-c", core, *command, env=env, seconds=None)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
