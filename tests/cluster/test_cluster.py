"""Jobs on a real cluster: both workers work, with the wheel installed or brought along."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.cluster.standalone import LOOPBACK, SPARK_HOME
from tests.interop.reference import QUICK_COMPILER
from tests.support.processes import wait_until
from tests.support.programs import run_program

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

SECONDS_MAX = 120
JOB = """
import sys

from pyspark.sql import SparkSession

from cometmq.spark import register

spark = register(SparkSession.builder.getOrCreate())
rows = spark.range(1000).selectExpr("CAST(id AS STRING) AS body")
options = {"nameServer": sys.argv[1], "topic": sys.argv[2]}
rows.write.format("rocketmq").options(**options).mode("append").save()
print("read", spark.read.format("rocketmq").options(**options).load().count())
spark.stop()
"""


def executors(spark: SparkSession) -> dict[int, int]:
    """Ports of the executors that the job has, and the tasks that each has begun."""
    listed = spark._jsc.sc().statusStore().executorList(True)
    found = [listed.apply(at) for at in range(listed.size())]
    return {
        int(one.hostPort().rpartition(":")[2]): one.totalTasks()
        for one in found
        # One that is being registered has no port yet.
        if one.id() != "driver" and one.isActive() and ":" in one.hostPort()
    }


def save(rows: DataFrame, nameserver: str, topic: str) -> None:
    writer = rows.write.format("rocketmq").option("nameServer", nameserver)
    writer.option("topic", topic).mode("append").save()


def load(spark: SparkSession, nameserver: str, topic: str, **options: int) -> DataFrame:
    reader = spark.read.format("rocketmq").option("nameServer", nameserver)
    return reader.option("subscribe", topic).options(**options).load()


def bodies(count: int, spark: SparkSession) -> DataFrame:
    return spark.range(0, count, 1, 4).selectExpr("CAST(id AS STRING) AS body")


def summed(rows: DataFrame) -> tuple[int, int, int]:
    """Rows, different bodies, and the largest."""
    numbers = rows.selectExpr("int(CAST(body AS STRING)) AS n")
    return tuple(numbers.selectExpr("count(n)", "count(DISTINCT n)", "max(n)").collect()[0])


def test_both_workers_find_the_installed_format_by_themselves(
    spark, standalone, nameserver, topic, installed
):
    wait_until(lambda: len(executors(spark)) == 2, seconds=SECONDS_MAX, what="two executors")

    def where(_: int) -> str:
        import cometmq

        return cometmq.__file__

    seen = spark.sparkContext.parallelize(range(4), 4).map(where).collect()
    assert all(path.startswith(str(installed.parents[1])) for path in seen), seen
    before = executors(spark)
    save(bodies(20_000, spark), nameserver, topic)
    rows = load(spark, nameserver, topic, minRecordsPerTask=0)
    assert summed(rows) == (20_000, 20_000, 19_999)
    assert all(tasks > before[port] for port, tasks in executors(spark).items())


def test_a_job_brings_the_wheel_along_to_pythons_without_it(
    wheel, bare, standalone, nameserver, topic, tmp_path
):
    job = tmp_path / "job.py"
    job.write_text(JOB)
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": LOOPBACK,
        "spark.cores.max": "1",
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK_COMPILER,
        "spark.pyspark.python": str(bare),
    }
    command: list[str | Path] = [
        SPARK_HOME / "bin" / "spark-submit",
        "--master",
        standalone.url,
    ]
    for name, value in settings.items():
        command += ["--conf", f"{name}={value}"]
    # A wheel is a zip; Spark puts on the Python path only what is called so.
    brought = shutil.copyfile(wheel, tmp_path / "cometmq.zip")
    done = run_program(
        *command, "--py-files", brought, job, nameserver, topic,
        env={**standalone.env, "PYSPARK_PYTHON": str(bare)}, cwd=tmp_path, seconds=SECONDS_MAX,
    )  # fmt: skip
    assert "read 1000" in done.stdout, done.stdout + done.stderr
    without = run_program(bare, "-c", "import cometmq", status=None)
    assert "No module named 'cometmq'" in without.stderr
