"""What a write has stored, on paper: the file says what the acknowledgements said, and all of it."""

import json
import re
from pathlib import Path

import pytest

from cometmq.model.queue import MessageQueue
from cometmq.spark.jobs import replay
from cometmq.spark.sink.columns import SinkColumns
from cometmq.spark.sink.identity import TaskRun
from cometmq.spark.sink.sender import StoredRows
from cometmq.spark.sink.settings import SinkSettings
from cometmq.spark.sink.task import TaskStored
from cometmq.spark.sink.writer import (
    ABORTED,
    STORED,
    RocketMQStreamWriter,
    audit_of,
    write_audit,
)
from tests.spark.conftest import load, save
from tests.spark.test_jobs import place

PAGE = Path(__file__).parents[2] / "docs" / "format" / "spark-audit.md"


def stored(partition: int, first: int, rows: int, *, delayed: int = 0) -> TaskStored:
    queue = MessageQueue("orders", "broker-a", partition)
    return TaskStored(
        TaskRun("8f0c", 7, partition),
        {queue: StoredRows(rows, first, first + rows - 1)},
        delayed,
        [],
        0,
    )


def test_the_page_shows_what_the_code_writes():
    found = re.search(r"```json\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found is not None
    assert json.loads(found[1]) == audit_of([stored(0, 40, 100, delayed=3)], STORED)


def test_an_audit_is_there_whole_under_the_name_of_its_write(tmp_path):
    folder = tmp_path / "audits"
    write_audit(str(folder), [], STORED)
    assert not folder.exists(), "a write without rows leaves nothing"
    write_audit(str(folder), [stored(1, 0, 5), stored(0, 9, 2)], ABORTED)
    write_audit(folder.as_uri(), [stored(1, 0, 5), stored(0, 9, 2)], ABORTED)
    (path,) = folder.iterdir()
    assert path.name == "8f0c-7.json"
    audit = json.loads(path.read_text())
    assert (audit["state"], audit["rows"]) == ("aborted", 7)
    assert [task["partition"] for task in audit["tasks"]] == [0, 1]


def test_an_abort_rolls_back_even_if_its_audit_cannot_be_written(cluster, tmp_path):
    (tmp_path / "file").touch()
    given = {
        "nameServer": cluster.nameserver,
        "topic": "orders",
        "delivery": "transactional",
        "ledgerDir": str(tmp_path / "ledgers"),
        "auditDir": str(tmp_path / "file" / "audits"),
    }
    settings = SinkSettings.parse(given, is_stream=True)
    writer = RocketMQStreamWriter(settings, SinkColumns({}, "orders"))
    with pytest.raises(OSError, match="audits"):
        writer.abort([stored(0, 40, 100)], 7)
    assert (tmp_path / "ledgers" / "8f0c").is_dir(), "so that brokers' checks roll back"


@pytest.mark.slow
def test_a_replay_says_which_offsets_brokers_acknowledged(
    spark, cluster, send, topic, tmp_path
):
    send(0, 40)
    to = f"{topic}-again"
    save(spark.sql("SELECT 'there before' AS body"), cluster, to)
    given = replay.ReplayOptions(
        to_topic=to, state=str(tmp_path), batch_rows=25, **place(cluster, topic)
    )
    assert replay.run(spark, given).counts["rows"] == 40
    audits = [json.loads(path.read_text()) for path in tmp_path.glob("_jobs/*.audit/*/*.json")]
    assert len(audits) == 2, "one for each micro-batch"
    assert {audit["state"] for audit in audits} == {"stored"}
    named = {
        (queue["queue"], offset)
        for audit in audits
        for task in audit["tasks"]
        for queue in task["queues"]
        for offset in range(queue["first"], queue["last"] + 1)
    }
    there = load(spark, cluster, to).where("body <> 'there before'")
    found = {(row.queueId, row.queueOffset) for row in there.collect()}
    assert len(found) == sum(audit["rows"] for audit in audits) == 40
    assert found == named
