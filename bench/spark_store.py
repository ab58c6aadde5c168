"""The store source and the store jobs in Spark, each beside what a live Kafka takes for the like, in one session.

The store is one of ours, closed; Kafka holds as many rows with the same bodies of 1 KiB: Parquet's time
depends on how well they compress. Reads go to "noop"; an archive is compressed Parquet of both. And a job as its user meets it: from the command to its result.
"""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.spark_work import FEW_ROWS, FEW_TOPIC, FORMATS, Measured, Sources, sources
from bench.systems import COMETMQ, KAFKA
from cometmq.offline import archive, rebuild
from cometmq.offline.choices import SPLIT_BYTES
from cometmq.offline.folder import StoreFolder
from cometmq.offline.found import find_store
from cometmq.offline.part_check import PartVerdict, check_part, parts_of
from cometmq.offline.plan import LogRange, plan_tasks
from cometmq.offline.verify import StoreCheck
from cometmq.store.real_disk import RealDisk
from cometmq.store.settings import IndexSettings, StoreSettings
from tests.support.big_store import make_big_store
from tests.support.programs import said_by_python

BODY_SIZE = 1024
# What Kafka's source gives: key, value, topic, partition, offset, timestamp, headers.
KAFKA_LIKE = "keys,body,topic,queueId,queueOffset,storeTimestamp,properties"
COLD_CACHE, WARM_CACHE = "cold-cache", "warm-cache"
SETTINGS = StoreSettings(disk_reserve=0, index=IndexSettings(slots=500_000, entries=4_000_000))


class StoreWork:
    """The rows of the table.

    Args:
        made: the session, and a Kafka with rows in it.
        folder: where the store is and outputs go.
    """

    def __init__(self, made: Sources, folder: Path) -> None:
        self._made = made
        self._folder = folder
        self._store = folder / "store"
        make_big_store(
            self._store, made.rows, body_size=BODY_SIZE, filling=b"x", settings=SETTINGS
        )

    def scan(self, name: str, **options: str) -> Measured:
        """All rows to nowhere; all columns where none are named."""
        if name == KAFKA:
            return self._made.read(name)
        reader = self._made.spark.read.format("rocketmq-store").options(**options)
        began = time.perf_counter()
        reader.load(str(self._store)).write.format("noop").mode("overwrite").save()
        return self._per_second(began)

    def archive(self, name: str) -> Measured:
        """All rows to Parquet."""
        place = self._folder / "archive"
        shutil.rmtree(place, ignore_errors=True)
        folder, rules = StoreFolder(str(self._store)), archive.ArchiveRules(str(place))
        began = time.perf_counter()
        if name == KAFKA:
            reader = self._made.spark.read.format(FORMATS[name]).options(
                **self._made.options(name)
            )
            reader.load().write.option("compression", "zstd").parquet(str(place))
            return self._per_second(began)
        splits = archive.plan_archive(folder, LogRange(start=0))
        files = self._in_tasks(splits, lambda each: archive.archive_task(folder, [each], rules))
        measured = self._per_second(began)
        assert sum(file.rows for file in files) == self._made.rows
        return measured

    def rebuild(self, _name: str) -> Measured:
        """All queue files anew, in another place."""
        out = str(self._folder / "rebuilt")
        folder, settings = (
            StoreFolder(str(self._store)),
            rebuild.found_settings(str(self._store)),
        )
        target = rebuild.target_of(str(self._store), settings, out=out)
        began = time.perf_counter()
        rebuild.begin(target)
        tasks = plan_tasks(folder)
        written = self._in_tasks(tasks, lambda task: rebuild.rebuild_task(folder, task, target))
        assert rebuild.finish(target, written) == self._made.rows
        return self._per_second(began)

    def verify(self, _name: str) -> Measured:
        """Every record, every CRC, every queue entry, every key of the index."""
        root = str(self._store)
        store = find_store(root, None, RealDisk())
        check, settings = StoreCheck(store), store.settings
        began = time.perf_counter()
        parts = self._in_tasks(
            parts_of(store, SPLIT_BYTES), lambda part: [_checked(root, settings, part)]
        )
        assert check.finish(parts).queue_entries == self._made.rows
        store.close()
        return self._per_second(began)

    def job(self, _name: str, *, cache: str) -> Measured:
        """A query over a small topic, in a process of its own.

        Args:
            cache: the user's cache folder; what `python -m examples.spark_classes` makes is there, or is not.
        """
        query = "SELECT count(*) AS rows FROM messages"
        where = ("--nameserver", self._made.nameserver, "--topic", FEW_TOPIC)
        began = time.perf_counter()
        said = self._python(
            cache,
            "cometmq.cli",
            "pipeline",
            "sql",
            query,
            *where,
            "--master",
            "local[2]",
            "--json",
        )
        took = time.perf_counter() - began
        if str(FEW_ROWS) not in said:
            raise RuntimeError(f"{FEW_TOPIC} has {FEW_ROWS} rows, and the job said {said}")
        return {"seconds": took}

    def bare_job(self, _name: str) -> Measured:
        """The least that Spark itself takes for a job of that kind (`bench.bare_spark`)."""
        began = time.perf_counter()
        said = said_by_python("-m", "bench.bare_spark")
        took = time.perf_counter() - began
        if "rows=2" not in said:
            raise RuntimeError(f"Spark alone said {said}")
        return {"seconds": took}

    def warm(self) -> None:
        """Make what later jobs start faster with."""
        self._python(WARM_CACHE, "examples.spark_classes")

    def _python(self, cache: str, *command: str) -> str:
        return said_by_python("-m", *command, XDG_CACHE_HOME=str(self._folder / cache))

    def _in_tasks(self, parts: Sequence[Any], work: Callable[[Any], list[Any]]) -> list[Any]:
        context = self._made.spark.sparkContext
        return context.parallelize(parts, len(parts)).flatMap(work).collect()

    def _per_second(self, began: float) -> Measured:
        return {"per_second": self._made.rows / (time.perf_counter() - began)}


def _checked(root: str, settings: StoreSettings, part: range) -> PartVerdict:
    """A part of the store, looked at by a task."""
    store = find_store(root, settings, RealDisk())
    try:
        return check_part(store, part)
    finally:
        store.close()


def spark_store_rounds(rounds: int, *, rows: int) -> Iterator[dict[str, dict[str, Measured]]]:
    """All rounds, after one that is thrown away."""
    with (
        sources(rows) as made,
        tempfile.TemporaryDirectory(prefix="cometmq-bench-") as folder,
    ):
        work = StoreWork(made, Path(folder))
        work.warm()
        for number in range(rounds + 1):
            print(f"spark-store: round {number}" if number else "to warm up", flush=True)
            measured = _round(work)
            if number:
                yield measured


def _round(work: StoreWork) -> dict[str, dict[str, Measured]]:
    """Each row: Kafka's figure where there is one, and ours right behind it."""
    rows: dict[str, dict[str, Measured]] = {KAFKA: {}, COMETMQ: {}}
    plan: dict[str, tuple[Callable[..., Measured], tuple[str, ...], dict[str, str]]] = {
        "scan": (
            work.scan,
            (KAFKA, COMETMQ),
            {"propertiesFormat": "raw", "columns": KAFKA_LIKE},
        ),
        "scan raw": (work.scan, (KAFKA, COMETMQ), {"propertiesFormat": "raw"}),
        "scan map": (work.scan, (KAFKA, COMETMQ), {}),
        "archive": (work.archive, (KAFKA, COMETMQ), {}),
        "rebuild": (work.rebuild, (COMETMQ,), {}),
        "verify": (work.verify, (COMETMQ,), {}),
        "bare job": (work.bare_job, (COMETMQ,), {}),
        "cold job": (work.job, (COMETMQ,), {"cache": COLD_CACHE}),
        "warm job": (work.job, (COMETMQ,), {"cache": WARM_CACHE}),
    }
    for name in (KAFKA, COMETMQ):
        work.scan(name)  # Nobody has read either log for the minute that the jobs took.
    for row, (measure, names, options) in plan.items():
        for name in names:
            rows[name][row] = measured = measure(name, **options)
            figures = ", ".join(f"{key} {value:,.1f}" for key, value in measured.items())
            print(f"  {name:8} {row:16} {figures}", flush=True)
    return rows
