"""The driver of a Spark sink is killed between every two steps of a micro-batch, and the broker in the middle of one.

A small process runs micro-batches in Spark's place (tests/support/sink_driver.py), over a real broker and real ledgers;
tests/spark/test_sink_restarts.py does it with Spark itself. Every life begins with what the life before it left.
"""

import json
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from cometmq.model.names import HALF_TOPIC, OP_HALF_TOPIC
from cometmq.spark.sink.checks import TransactionChecks
from cometmq.spark.sink.columns import SinkColumns
from cometmq.spark.sink.half_messages import BatchKey
from cometmq.spark.sink.identity import TaskRun
from cometmq.spark.sink.ledger import Ledgers
from cometmq.spark.sink.settings import SinkSettings
from cometmq.spark.sink.task import write_rows
from tests.support import processes, topics
from tests.support.load import read_queue
from tests.support.programs import small_cluster
from tests.support.sink_driver import DELIVERIES, STEPS, TASKS, bodies, topic_of

LIFE_SECONDS = 120


@dataclass
class Books:
    """What consumers find in a topic, against what they should."""

    copies: Counter[str]
    ids: dict[str, set[str]]
    wanted: set[str]

    @property
    def lost(self) -> int:
        return len(self.wanted - self.copies.keys())

    @property
    def duplicated(self) -> int:
        return sum(self.copies.values()) - len(self.copies)

    @property
    def duplicated_by_id(self) -> int:
        """What dropDuplicates("msgId") leaves of it."""
        return sum(len(ids) for ids in self.ids.values()) - len(self.ids)

    @property
    def strange(self) -> int:
        return len(self.copies.keys() - self.wanted)


def books(nameserver: str, delivery: str, batches: int) -> Books:
    wanted = {
        body
        for batch in range(batches)
        for task in range(TASKS)
        for body in bodies(batch, task)
    }
    found = Books(Counter(), {}, wanted)
    for message in topics.read(nameserver, topic_of(delivery)):
        body = message.body.decode()
        found.copies[body] += 1
        found.ids.setdefault(body, set()).add(message.message_id)
    return found


class Lives:
    """The driver's lives, one after the other, on one folder."""

    def __init__(self, folder: Path, nameserver: str, batches: int) -> None:
        self.folder = folder
        self.folder.mkdir()
        self.work = {"folder": str(folder / "state"), "nameserver": nameserver}
        (folder / "state").mkdir()
        self.batches = batches

    def begin(self, step: str) -> subprocess.Popen[bytes]:
        work = self.folder / "work.json"
        work.write_text(json.dumps({**self.work, "batches": str(self.batches), "step": step}))
        command = [sys.executable, "-m", "tests.support.sink_driver", str(work)]
        with (self.folder / "driver.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log)

    def end(self, life: subprocess.Popen[bytes], status: int, what: str) -> None:
        found = life.wait(LIFE_SECONDS)
        log = (self.folder / "driver.log").read_text()[-3000:]
        assert found == status, f"{what}: ended with {found}\n{log}"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_driver_that_is_killed_at_every_step_keeps_the_three_promises(tmp_path: Path):
    batches = len(STEPS) + 1  # One is begun and killed at each step, and one is not.
    with small_cluster(tmp_path) as (names, _):
        lives = Lives(tmp_path / "driver", names.address, batches)
        for step in STEPS:
            lives.end(lives.begin(step), -signal.SIGKILL, step)
        lives.end(lives.begin(""), 0, "the last life")
        found = {delivery: books(names.address, delivery, batches) for delivery in DELIVERIES}
    for delivery, book in found.items():
        print(
            f"{delivery}: killed {len(STEPS)} times, lost {book.lost}, duplicated {book.duplicated}, "
            f"by msgId {book.duplicated_by_id}"
        )
        assert book.lost == 0
        assert book.strange == 0
    assert found["at-least-once"].duplicated > 0, "nothing was killed in earnest"
    assert found["idempotent"].duplicated > 0, "nothing was killed in earnest"
    assert found["idempotent"].duplicated_by_id == 0
    assert found["transactional"].duplicated == 0


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_broker_that_is_killed_in_the_middle_costs_a_pause(tmp_path: Path):
    batches, port = 12, processes.broker_port()
    with processes.nameserver(tmp_path / "nameserver") as names:

        def broker() -> processes.Program:
            return processes.broker(tmp_path / "broker", names.address, port=port).start()

        running = broker()
        lives = Lives(tmp_path / "driver", names.address, batches)
        life = lives.begin("")
        for batch in (2, 6):
            begun = tmp_path / "driver" / "state" / f"begun-{batch}"
            processes.wait_until(begun.exists, seconds=60, what=f"batch {batch}")
            running.kill()
            running = broker()
        lives.end(life, 0, "a life with two deaths of its broker")
        found = {delivery: books(names.address, delivery, batches) for delivery in DELIVERIES}
        running.stop()
    for delivery, book in found.items():
        print(
            f"{delivery}: broker killed twice, lost {book.lost}, duplicated {book.duplicated}"
        )
        assert (book.lost, book.strange) == (0, 0)
        assert book.duplicated == 0 or delivery != "transactional"
        assert book.duplicated_by_id == 0 or delivery == "at-least-once"


def is_settled(broker: str) -> bool:
    """Whether no half message is open."""
    halves = {offset for offset, _ in read_queue(broker, HALF_TOPIC, 0)}
    ended = {
        int(each)
        for _, body in read_queue(broker, OP_HALF_TOPIC, 0)
        for each in body.decode().split(",")
        if each
    }
    return halves <= ended


@pytest.mark.slow
@pytest.mark.timeout(150)
def test_what_nobody_ended_is_settled_when_the_broker_asks(tmp_path: Path):
    """Batch 3 was decided and its driver died; batch 4 lost its driver before that, and is an orphan."""
    # A busy machine may need more than 15 checks to answer one.
    often = {
        "transactionCheckInterval": 100,
        "transactionTimeOut": 0,
        "transactionCheckMax": 999,
    }
    with small_cluster(tmp_path, **often) as (names, broker):
        options = {
            "nameServer": names.address,
            "topic": topic_of("transactional"),
            "delivery": "transactional",
            "group": "orphans",
            "ledgerDir": str(tmp_path / "ledgers"),
            "transactionImmunity": "3s",
        }
        settings = SinkSettings.parse(options, is_stream=True)
        columns = SinkColumns.of(StructType([StructField("body", StringType())]), settings)
        ledgers = Ledgers(tmp_path / "ledgers")
        with TransactionChecks(names.address, group="orphans", ledger_dir=tmp_path / "ledgers"):
            for batch in (3, 4):
                rows = pa.record_batch({"body": bodies(batch, 0)})
                task = write_rows(iter([rows]), settings, columns, TaskRun("query", batch, 0))
                if batch == 3:
                    ledgers.begin(BatchKey("query", 3), "orphans", task.half_messages)
            processes.wait_until(
                lambda: is_settled(broker.address), seconds=90, what="an end of all halves"
            )
        found = books(names.address, "transactional", 0)
    assert found.copies == Counter(bodies(3, 0))
