"""Class-data-sharing archive (JDK 13 and later) that makes local Spark sessions start faster.

The archive is a file with the classes that Spark's JVM loads, already parsed. `build` runs a small job in a separate
process whose JVM writes the file at exit; later sessions map it. The file fits one version of Java and one installation
of Spark; any other JVM ignores it.
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
# Environment variable with the path of the archive that is being built; `java_options` adds the JVM options for it.
BUILDING = "COMETMQ_SPARK_ARCHIVE_TO_BUILD"
# PySpark takes the JVM's arguments from this variable; a value set by the user replaces ours.
SUBMIT_ARGS = "PYSPARK_SUBMIT_ARGS"
# Start Java's optimising compiler ten times later than by default: its threads would use half of two cores while
# Spark starts, and a loop over rows still reaches it within a second. The parallel collector suits the small
# heap of a local session (docs/spark/tuning.md).
_SHORT_START = (
    "-XX:Tier4InvocationThreshold=50000",
    "-XX:Tier4MinInvocationThreshold=6000",
    "-XX:Tier4CompileThreshold=150000",
    "-XX:Tier4BackEdgeThreshold=400000",
)
_COLLECTOR = "-XX:+UseParallelGC"
# Other variables with JVM options. A JVM refuses to start with two collectors.
_OTHER_OPTIONS = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
# Loads the classes that most jobs need: a Python source returns Arrow batches, which are counted by a key.
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
    """Raised if the class archive could not be built."""


def archive_path(home: Path) -> Path:
    """Return the path of the class archive in the user's cache, for this PySpark and a JAVA_HOME's release (17, ...)."""
    told = f"{java_version(home)} {pyspark.__version__} {Path(pyspark.__file__).parent}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "cometmq" / f"spark-{hashlib.sha256(told.encode()).hexdigest()[:12]}.jsa"


def java_options(home: Path) -> list[str]:
    """Return JVM options of a session: for a fast start, and to write a class archive or use an existing one, if any."""
    options = list(_SHORT_START)
    if not any("GC" in os.environ.get(name, "") for name in _OTHER_OPTIONS):
        options.append(_COLLECTOR)
    path = archive_path(home)
    if BUILDING in os.environ:
        options += [f"-XX:ArchiveClassesAtExit={os.environ[BUILDING]}", "-Xlog:cds=off"]
    elif path.is_file():
        # Without these options Java prints a warning to stdout if the archive does not fit.
        quiet = ["-Xlog:disable", "-Xlog:all=off"]
        options += [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", *quiet]
    return options


def build() -> Path:
    """Build the class-data-sharing archive, about 160 MB, by a small Spark job; replace an old one and return its path.

    Raises:
        SettingsError: No suitable Java was found.
        NoClassArchive: The job failed, took more than 180 s, or its Java wrote no archive.
        OSError: The folder of the archive cannot be created.
    """
    path = archive_path(java_home())
    path.parent.mkdir(parents=True, exist_ok=True)
    growing = path.with_suffix(".new")
    growing.unlink(missing_ok=True)
    inherited = {name: value for name, value in os.environ.items() if name != SUBMIT_ARGS}
    # The program is this Python, the code our own. In a new session, so that killing its group also ends its JVM.
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
            f"the class archive was not created: a small Spark job did not finish within {_TIMEOUT_S} s; try again "
            "when this machine has less load. Jobs run without the archive, but start more slowly"
        ) from None
    if job.returncode or not growing.is_file():
        last = (errors.strip() or "this Java cannot write one").splitlines()[-1]
        raise NoClassArchive(f"the class archive was not created: {last}")
    growing.rename(path)
    return path
