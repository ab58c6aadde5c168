"""Make local Spark sessions start faster: a file with the classes that Spark's JVM loads, already parsed.

Run `python -m examples.spark_classes` once, and again after an update of Java or Spark. A small Spark job runs in a
process whose Java (13 or later) writes the file at exit, about 160 MB in your cache folder; `cometmq.spark.session` uses
it from then on. The file fits one version of Java and one installation of Spark; any other JVM ignores it.
"""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from cometmq.spark.java import class_archive, java_home

TIMEOUT_S = 180
# Loads the classes that most jobs need: a Python source returns Arrow batches, which are counted by a key.
JOB = """
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


def main() -> None:
    """Write the file, or end with a line that says why not."""
    path = class_archive(java_home())
    path.parent.mkdir(parents=True, exist_ok=True)
    growing = path.with_suffix(".new")
    try:
        run(growing)
        growing.rename(path)
    finally:
        growing.unlink(missing_ok=True)
    print(f"{path.stat().st_size / 1e6:.0f} MB: {path}")


def run(growing: Path) -> None:
    """Run the job so that its Java writes the file; replace neither what the user tells Java nor an older file."""
    told = f'-XX:ArchiveClassesAtExit="{growing}" -Xlog:cds=off'
    with tempfile.TemporaryDirectory() as empty:
        # A session with this cache folder finds no older file.
        variables = {**os.environ, "XDG_CACHE_HOME": empty}
        variables.pop("PYSPARK_SUBMIT_ARGS", None)
        variables["SPARK_SUBMIT_OPTS"] = (
            f"{variables.get('SPARK_SUBMIT_OPTS', '')} {told}".strip()
        )
        # In a new session, so that killing its group also ends its JVM.
        job = subprocess.Popen(
            [sys.executable, "-c", JOB],
            env=variables,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _, errors = job.communicate(timeout=TIMEOUT_S)
        except BaseException as error:
            os.killpg(job.pid, signal.SIGKILL)
            job.communicate()
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            sys.exit(
                f"no file was made: a small Spark job did not finish within {TIMEOUT_S} s; try again when this machine "
                "has less load"
            )
    if job.returncode or not growing.is_file():
        last = (errors.strip() or "this Java cannot write one").splitlines()[-1]
        sys.exit(f"no file was made: {last}")


if __name__ == "__main__":
    main()
