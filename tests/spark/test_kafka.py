"""The job `export-kafka` into a real Kafka: killed in the middle and gone on with."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from bench.kafka import kafka, spark_jars
from cometmq import Message, Producer
from tests.interop.reference import QUICK_START
from tests.support.processes import wait_until
from tests.support.programs import run_program

# A Kafka and two starts of Spark; the first run on a machine fetches Kafka.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
SECONDS_MAX = 420.0
ROWS, BATCH_ROWS = 600, 100


def kill_after_two_batches(options: dict[str, str | int], jars: str) -> None:
    """A life of the command, which ends by SIGKILL."""
    given = (f"--{name.replace('_', '-')}={value}" for name, value in options.items())
    command = ("pipeline", "export-kafka", *given, "--rate", "100", "--master", "local[2]")
    process = subprocess.Popen(
        [sys.executable, "-m", "cometmq.cli", *command, "--conf", f"spark.jars={jars}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )

    def batches() -> int:
        for path in Path(str(options["state"])).glob("_jobs/*.json"):
            return int(json.loads(path.read_text())["batch"])
        return -1

    try:
        wait_until(lambda: batches() >= 1, seconds=SECONDS_MAX, what="two micro-batches")
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def test_a_killed_export_to_kafka_ends_and_sends_one_micro_batch_twice_at_most(
    cluster, topic, tmp_path
):
    with Producer(cluster.nameserver) as producer:
        bodies = [str(number).encode() for number in range(ROWS)]
        producer.send_batch([Message(topic, body) for body in bodies])
    jars, work = spark_jars(), tmp_path / "work.json"
    with kafka(tmp_path, partitions=2, jvm=("-Xmx256m", *QUICK_START)) as address:
        options = {
            "topic": topic, "kafka": address, "to_topic": "out", "state": str(tmp_path / "state"),
            "progress": "none", "batch_rows": BATCH_ROWS, "nameserver": cluster.nameserver,
        }  # fmt: skip
        kill_after_two_batches(options, jars)
        work.write_text(json.dumps({"jars": jars, "options": options}))
        program = (sys.executable, "-m", "tests.support.kafka_export_app", work)
        last = run_program(*program, cwd=ROOT, seconds=SECONDS_MAX)
    found = json.loads(last.stdout.splitlines()[-1])
    copies = Counter(found["copies"])
    assert copies.keys() == {str(number) for number in range(ROWS)}
    assert copies.total() <= ROWS + BATCH_ROWS, (
        "a run that goes on sends one batch again at most"
    )
    assert len(found["ids"]) == ROWS, "a record that came twice has the same id"
    assert found["counts"]["rows"] == ROWS
    assert 0 < found["run"]["rows"] < ROWS, "what this run did is not what all did"
    assert found["counts"]["bytes"] > ROWS
