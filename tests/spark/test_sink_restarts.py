"""A worker of Spark is killed in a task, and all of Spark between two steps of a micro-batch: the sink keeps its promises.

tests/crash/test_spark_sink_killed.py does it at every step, without Spark.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from cometmq import Message, Producer
from tests.support import topics
from tests.support.programs import small_cluster
from tests.support.spark_sink_app import BATCH_ROWS, DELIVERIES, LEDGER, TASK

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

ROOT = Path(__file__).parents[2]
LIFE_SECONDS = 180
BATCHES = 3


def life(folder: Path, nameserver: str, **steps: int) -> int:
    """A life of the application; its exit status."""
    work = folder / "work.json"
    content = {"nameserver": nameserver, "source": "source", "folder": str(folder)}
    work.write_text(json.dumps({**content, "steps": steps}))
    with (folder / "spark.log").open("ab") as log:
        return subprocess.run(
            [sys.executable, "-m", "tests.support.spark_sink_app", str(work)],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=log,
            stderr=log,
            timeout=LIFE_SECONDS,
            check=False,
        ).returncode


def found_in(nameserver: str, topic: str) -> tuple[Counter[str], set[tuple[str, str]]]:
    """How often each body is there, and the ids that it has."""
    found = [(each.body.decode(), each.message_id) for each in topics.read(nameserver, topic)]
    return Counter(body for body, _ in found), set(found)


def test_a_spark_that_is_killed_loses_nothing_and_duplicates_as_promised(tmp_path: Path):
    wanted = [str(number) for number in range(BATCHES * BATCH_ROWS)]
    with small_cluster(tmp_path) as (names, _):
        with Producer(names.address) as producer:
            producer.send_many([Message("source", each.encode()) for each in wanted])
        status = life(tmp_path, names.address, **{TASK: 0, LEDGER: 1})
        assert status == -signal.SIGKILL, (tmp_path / "spark.log").read_text()[-3000:]
        # A busy machine may have Spark fail for reasons of its own; the promises hold all the same.
        status = next((0 for _ in range(3) if life(tmp_path, names.address) == 0), 1)
        assert status == 0, (tmp_path / "spark.log").read_text()[-3000:]
        found = {
            delivery: found_in(names.address, f"copy-{delivery}") for delivery in DELIVERIES
        }
    for delivery, (copies, ids) in found.items():
        lost, more = len(set(wanted) - copies.keys()), copies.total() - len(copies)
        print(f"{delivery}: lost {lost}, duplicated {more}, by msgId {len(ids) - len(copies)}")
        assert sorted(copies) == sorted(wanted)
        assert more == 0 or delivery != "transactional"
        assert len(ids) == len(copies)
