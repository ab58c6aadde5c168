"""`cometmq pipeline` as a process: killed in the middle and gone on with; and under spark-submit."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from cometmq import Message, Producer
from cometmq.cli import pipeline
from cometmq.spark.java import java_home
from cometmq.spark.jobs import table
from tests.support.processes import wait_until
from tests.support.programs import run_program

# Starts of Spark, one after the other, on whatever machine.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

PIPELINE = (sys.executable, "-m", "cometmq.cli", "pipeline")
SECONDS_MAX = 130.0
ROWS = 600


def environment(cluster, **more):
    return {**os.environ, "NAMESRV_ADDR": cluster.nameserver, **more}


def test_a_killed_table_goes_on_where_it_was_and_has_each_row_once(
    spark, cluster, topic, tmp_path
):
    with Producer(cluster.nameserver) as producer:
        numbers = (f'{{"n": {number}}}'.encode() for number in range(ROWS))
        producer.send_batch([Message(topic, body) for body in numbers])
    to = tmp_path / "table"
    command = ("table", "--topic", topic, "--schema", "n INT", "--to", str(to))
    slow = subprocess.Popen(
        [*PIPELINE, *command, "--batch-rows", "100", "--rate", "60", "--master", "local[2]"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment(cluster),
        start_new_session=True,
    )

    def batches() -> int:
        for path in to.glob("_jobs/*.json"):
            return int(json.loads(path.read_text())["batch"])
        return -1

    try:
        wait_until(lambda: batches() >= 1, seconds=SECONDS_MAX, what="two micro-batches")
    finally:
        os.killpg(slow.pid, signal.SIGKILL)
        slow.communicate()
    (manifest,) = to.glob("_jobs/*.json")
    assert json.loads(manifest.read_text())["status"] == "running"

    # The same run from Python: it is known by what it does, not by who asks for it.
    given = table.TableOptions(
        nameserver=cluster.nameserver, topic=topic, schema="n INT", to=str(to), progress="none"
    )
    assert table.run(spark, given).counts["rows"] == ROWS
    found = sorted(row.n for row in spark.read.parquet(str(to)).select("n").collect())
    assert found == list(range(ROWS))
    assert json.loads(manifest.read_text())["status"] == "done"


def test_spark_submit_runs_the_same_job_and_gives_its_status(spark, cluster, topic, send):
    send(0, 7)
    folder = Path(pyspark.__file__).parent
    options = ("stats", "--topic", topic, "--by", "tag", "--json")
    given = environment(
        cluster,
        SPARK_HOME=str(folder),
        JAVA_HOME=str(java_home()),
        PYSPARK_PYTHON=sys.executable,
        SPARK_LOCAL_IP="127.0.0.1",
    )
    submit = (folder / "bin" / "spark-submit", "--master", "local[2]", pipeline.__file__)
    done = run_program(*submit, *options, env=given, seconds=SECONDS_MAX)
    report = json.loads(next(line for line in done.stdout.splitlines() if line[:1] == "{"))
    assert report["rows"][0]["messages"] == 7
