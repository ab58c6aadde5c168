"""A faster start: the classes that Spark's JVM loads, parsed once and kept in a file.

Java calls such a file a class-data-sharing archive (JDK 13 and later). `build` runs a small job in a
process of its own whose JVM writes the file when it ends; every later local session maps it. It belongs to
one Java and one Spark; a JVM for which it does not fit passes over it.

Next: cometmq.spark.session
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pyspark

from cometmq.model.errors import CometError
from cometmq.spark.java import java_home, java_version

_TIMEOUT_S = 180
# JVM options come from here while the file is built (`session` puts them on the command line).
BUILDING = "COMETMQ_SPARK_ARCHIVE_TO_BUILD"
_JOB = """
from cometmq.spark import session
spark = session("warm", master="local[1]")
spark.range(10).selectExpr("id", "cast(id AS string) AS text").groupBy("text").count().collect()
gateway = spark.sparkContext._gateway
spark.stop()
gateway.shutdown()
gateway.proc.stdin.close()
gateway.proc.wait()
"""


class NoArchive(CometError):
    """This Java has made no archive of its classes."""


def archive_path(home: Path) -> Path:
    """Where the file is, or would be: in the user's cache, for a JAVA_HOME and this Spark."""
    told = f"{java_version(home)} {pyspark.__version__} {Path(pyspark.__file__).parent}"
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "cometmq" / f"spark-{hashlib.sha256(told.encode()).hexdigest()[:12]}.jsa"


def java_options(home: Path) -> list[str]:
    """What the JVM of a local session is told, to build the file or to use it."""
    if BUILDING in os.environ:
        return [f"-XX:ArchiveClassesAtExit={os.environ[BUILDING]}", "-Xlog:cds=off"]
    path = archive_path(home)
    if not path.is_file():
        return []
    # Where it does not fit, Java says so on stdout unless it is told not to.
    quiet = ["-Xlog:disable", "-Xlog:all=off"]
    return [f"-XX:SharedArchiveFile={path}", "-Xshare:auto", *quiet]


def build() -> Path:
    """Make the file anew, some 160 MB; gives where it is.

    Raises:
        NoArchive: this Java cannot, or the small job failed; the text says which.
    """
    path = archive_path(java_home())
    path.parent.mkdir(parents=True, exist_ok=True)
    growing = path.with_suffix(".new")
    growing.unlink(missing_ok=True)
    # The program is this Python, the text our own.
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", _JOB],
        env={**os.environ, BUILDING: str(growing)},
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode or not growing.is_file():
        last = (done.stderr.strip() or "its Java writes none").splitlines()[-1]
        raise NoArchive(f"no archive was made: {last}")
    growing.rename(path)
    return path
