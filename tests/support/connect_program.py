"""A user's program with a session of Spark Connect, each step for real: prints as JSON what came of each.

    python -m tests.support.connect_program sc://127.0.0.1:15002 NAMESERVER STORE FOLDER

The server and this process see the same folders. The session is of a process of its own: where one of Spark Connect
is, PySpark lets no other be.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq import Admin
from cometmq.model.errors import SettingsError
from cometmq.spark import OffsetCommits, commit_offsets, delta_sink, read_delta, register
from cometmq.spark.jobs import archive, catalogue, rebuild, sql, stats, trace, verify
from cometmq.spark.jobs.error_text import message_of
from cometmq.spark.jobs.job import Job, Report
from tests.support.processes import wait_until

ROWS = 300
TOPIC, COPY = "connect", "connect-copy"
SECONDS_MAX = 60
# What jobs of micro-batches take; what they name need not be there: they refuse before they look.
NEEDED = {
    "schema": "n INT", "key": "n", "to_topic": COPY, "group": "nobody", "kafka": "localhost:1", "from_topic": "t",
    "source": "localhost:1", "target": "localhost:2", "topics": TOPIC,
}  # fmt: skip


class ConnectProgram:
    """The steps, in their order: what the first writes the others read."""

    def __init__(self, spark: SparkSession, nameserver: str, store: str, folder: Path) -> None:
        self._spark = spark
        self._nameserver = nameserver
        self._store = store
        self._folder = folder

    def steps(self) -> list[Callable[[], Any]]:
        return [
            self.batch,
            self.stream,
            self.delta,
            self.store,
            self.jobs,
            self.refusals,
            self.wrong,
        ]

    def _load(self, topic: str) -> DataFrame:
        reader = self._spark.read.format("rocketmq").option("nameServer", self._nameserver)
        return reader.option("subscribe", topic).load()

    def _load_stream(self) -> DataFrame:
        reader = self._spark.readStream.format("rocketmq").option(
            "nameServer", self._nameserver
        )
        return reader.option("subscribe", TOPIC).option("startingOffsets", "earliest").load()

    def batch(self) -> dict[str, int]:
        """A batch into a topic, and out of it."""
        rows = self._spark.range(ROWS).selectExpr(
            "string(id) AS body", "concat('t', id % 3) AS tags"
        )
        writer = rows.write.format("rocketmq").option("nameServer", self._nameserver)
        writer.option("topic", TOPIC).mode("append").save()
        read = self._load(TOPIC)
        bodies = {bytes(row.body) for row in read.select("body").collect()}
        return {"bodies": len(bodies), "t1": read.where("tags = 't1'").count()}

    def stream(self) -> dict[str, int]:
        """A stream out of a topic into another, whose offsets go into groups."""
        told = OffsetCommits(name_server=self._nameserver, group="listener", query_name="copy")
        self._spark.streams.addListener(told)
        writer = (
            self._load_stream().select("body").writeStream.format("rocketmq").queryName("copy")
        )
        writer = writer.option("nameServer", self._nameserver).option("topic", COPY)
        query = (
            writer.option("checkpointLocation", str(self._folder / "copy"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(SECONDS_MAX), "the copy does not end"
        queues = commit_offsets(query, name_server=self._nameserver, group="caller")
        with Admin(self._nameserver) as admin:

            def lag(group: str) -> int:
                return sum(admin.offsets.lag(group, TOPIC).values())

            wait_until(
                lambda: lag("listener") == 0,
                seconds=SECONDS_MAX,
                what="offsets by the listener",
            )
            left = lag("caller")
        self._spark.streams.removeListener(told)
        return {"copied": self._load(COPY).count(), "queues": queues, "left": left}

    def delta(self) -> int:
        """A stream into a Delta table: the server runs the function of its micro-batches."""
        place, checkpoint = str(self._folder / "delta"), str(self._folder / "delta-checkpoint")
        writer = (
            self._load_stream()
            .select("body")
            .writeStream.foreachBatch(delta_sink(place, checkpoint))
        )
        query = (
            writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        )
        assert query.awaitTermination(SECONDS_MAX), "the table does not end"
        return read_delta(self._spark, place).select(f.count_distinct("body")).collect()[0][0]

    def store(self) -> dict[str, int]:
        """A store's directory, without its broker: as a batch, and as a stream in small micro-batches."""
        rows = self._spark.read.format("rocketmq-store").load(self._store).count()
        reader = self._spark.readStream.format("rocketmq-store").option(
            "maxBytesPerTrigger", 65_536
        )
        place, checkpoint = (
            str(self._folder / "copied"),
            str(self._folder / "copied-checkpoint"),
        )
        for _ in range(2):  # The second finds nothing to do behind its checkpoint.
            writer = reader.load(self._store).select("commitLogOffset", "body").writeStream
            query = (
                writer.option("checkpointLocation", checkpoint)
                .trigger(availableNow=True)
                .start(place, format="parquet")
            )
            assert query.awaitTermination(SECONDS_MAX), "the store does not end"
        streamed = self._spark.read.parquet(place)
        return {
            "rows": rows,
            "streamed": streamed.count(),
            "distinct": streamed.select("commitLogOffset").distinct().count(),
            "micro-batches": len([*Path(checkpoint, "commits").glob("[0-9]*")]),
        }

    def jobs(self) -> dict[str, dict[str, int]]:
        """Each job without micro-batches."""
        live = {"nameserver": self._nameserver, "topic": TOPIC}
        quiet: dict[str, Any] = {"progress": "none"}
        topics, records = str(self._folder / "topics"), str(self._folder / "records")
        reports = {
            "stats": self._run(
                stats.JOB, by="tag", **live, to=str(self._folder / "stats"), progress="json"
            ),
            "sql": self._run(
                sql.JOB,
                query="SELECT count(*) FROM messages WHERE tags = 't2'",
                **live,
                **quiet,
            ),
            "trace": self._run(trace.JOB, store=self._store, **quiet),
            "verify": self._run(verify.JOB, store=self._store, **quiet),
            "archive of topics": self._run(archive.JOBS[0], to=topics, **live, **quiet),
            "archive": self._run(
                archive.JOBS[0], store=self._store, to=records, raw=True, **quiet
            ),
            "restore": self._run(
                archive.JOBS[1], archive=records, to=str(self._folder / "restored"), **quiet
            ),
            "rebuild-index": self._run(
                rebuild.JOB, store=self._store, out=str(self._folder / "rebuilt"), **quiet
            ),
            "compared": self._run(
                verify.JOB, topic=TOPIC, nameserver=self._nameserver, against=topics, **quiet
            ),
        }
        return {
            name: {**each.counts, "findings": len(each.findings)}
            for name, each in reports.items()
        }

    def _run(self, job: Job[Any], **given: Any) -> Report:
        return job.run(self._spark, job.options(**given))

    def refusals(self) -> dict[str, str]:
        """What each job of micro-batches says; with --follow two more are such jobs."""
        said = {}
        for job in catalogue.all_jobs():
            fields = set(job.options.__dataclass_fields__)
            if "batch_rows" not in fields:
                continue
            given: dict[str, Any] = {
                name: value for name, value in NEEDED.items() if name in fields
            }
            place = str(self._folder / "refused")
            given |= {name: place for name in ("to", "state") if name in fields}
            given |= {"follow": True, "window": "1m"} if "window" in fields else {}
            try:
                self._run(job, **given)
            except SettingsError as error:
                said[job.name] = str(error)
        assert not Path(self._folder / "refused").exists()
        return said

    def wrong(self) -> str:
        """What a wrong option says, which the server's Python notices."""
        try:
            self._spark.read.format("rocketmq").option("subscribe", TOPIC).option(
                "minPartitions", "none"
            ).load().count()
        except PySparkException as error:
            return message_of(error)
        return ""


def main() -> None:
    url, nameserver, store, folder = sys.argv[1:]
    spark = register(SparkSession.builder.remote(url).getOrCreate())
    program = ConnectProgram(spark, nameserver, store, Path(folder))
    print(json.dumps({step.__name__: step() for step in program.steps()}))
    spark.stop()


if __name__ == "__main__":
    main()
