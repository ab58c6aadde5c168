"""A faster start: the classes that Spark's JVM loads, parsed once and kept in a file.

Java calls such a file a class-data-sharing archive (JDK 13 and later). `build` runs a small job in a
process of its own whose JVM writes the file when it ends; every later local session maps it. It belongs to
one Java and one Spark; a JVM for which it does not fit passes over it.
"""

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark

from cometmq.model.errors import CometError
from cometmq.spark.java import java_home, java_version

_TIMEOUT_S = 180
# JVM options come from here while the file is built (`session` puts them on the command line).
BUILDING = "COMETMQ_SPARK_ARCHIVE_TO_BUILD"
# What PySpark starts its JVM with; one that a user has set replaces ours.
SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
# Java's optimising compiler begins ten times as late as by default: its threads take half of two cores while
# Spark starts, and a loop over rows is there in a second all the same. The parallel collector suits the small
# heap of one person's session (docs/spark/tuning.md).
_SHORT_START = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_COLLECTOR = "-XX:+UseParallelGC"
# What else a JVM takes options from; two collectors are an error.
_OTHER_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
# What most jobs do: a Python source gives Arrow batches, and they are counted by a key.
_JOB = """
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader
from cometmq.spark import session

class Reader(DataSourceReader):
    def read(self, partition):
        yield pa.record_batch({"text": ["a", "b"]})

class Source(DataSource):
    name = classmethod(lambda cls: "warm")
    def schema(self):
        return "text string"
    def reader(self, schema):
        return Reader()

spark = session("warm", master="local[1]")
spark.dataSource.register(Source)
spark.read.format("warm").load().createOrReplaceTempView("messages")
spark.sql("SELECT text, count(*) FROM messages WHERE text > '' GROUP BY text").collect()
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


class NoClassArchive(CometError):
    """Raised where this Java has made no archive of its classes."""


def archive_path(home: Path) -> Path:
    """The path of the archive: in the user's cache, for a JAVA_HOME and this Spark."""
    told = f"{java_version(home)} {pyspark.__version__} {Path(pyspark.__file__).parent}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "cometmq" / f"spark-{hashlib.sha256(told.encode()).hexdigest()[:12]}.jsa"


def java_options(home: Path) -> list[str]:
    """The options of a local session's JVM that build the archive or use it."""
    options = list(_SHORT_START)
    if not any("GC" in os.environ.get(name, "") for name in _OTHER_OPTIONS):
        options.append(_COLLECTOR)
    path = archive_path(home)
    if BUILDING in os.environ:
        options += [f"-XX:ArchiveClassesAtExit={os.environ[BUILDING]}", "-Xlog:cds=off"]
    elif path.is_file():
        # Where it does not fit, Java says so on stdout unless it is told not to.
        quiet = ["-Xlog:disable", "-Xlog:all=off"]
        options += [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", *quiet]
    return options


def build() -> Path:
    """Make the archive anew, some 160 MB; gives where it is.

    Raises:
        NoClassArchive: this Java cannot, or the small job failed; the text says which.
    """
    path = archive_path(java_home())
    path.parent.mkdir(parents=True, exist_ok=True)
    growing = path.with_suffix(".new")
    growing.unlink(missing_ok=True)
    inherited = {name: value for name, value in os.environ.items() if name != SUBMIT_ARGS}
    # The program is this Python, the text our own. A session of its own: its JVM ends with it.
    job = subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", _JOB],
        env={**inherited, BUILDING: str(growing)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        _, errors = job.communicate(timeout=_TIMEOUT_S)
    except BaseException as error:
        os.killpg(job.pid, signal.SIGKILL)
        job.communicate()
        growing.unlink(missing_ok=True)
        if not isinstance(error, subprocess.TimeoutExpired):
            raise
        raise NoClassArchive(
            f"no archive was made: a small job of Spark did not end within {_TIMEOUT_S} s; try again when this machine has "
            "less to do, jobs run without it"
        ) from None
    if job.returncode or not growing.is_file():
        last = (errors.strip() or "its Java writes none").splitlines()[-1]
        raise NoClassArchive(f"no archive was made: {last}")
    growing.rename(path)
    return path
