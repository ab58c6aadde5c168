"""The sink of Spark keeps its promises on Java's broker as on ours; Spark itself is not needed for that.

A Java broker makes a second message of a repeated END_TRANSACTION, so a ledger of which a part was committed is the hard case.
"""

from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import StringType, StructField, StructType

from cometmq.client.producer.transactions import TransactionState
from cometmq.spark.sink.columns import SinkColumns
from cometmq.spark.sink.driver import driver
from cometmq.spark.sink.half_messages import BatchKey
from cometmq.spark.sink.identity import TaskRun
from cometmq.spark.sink.ledger import Ledgers
from cometmq.spark.sink.settings import SinkSettings
from cometmq.spark.sink.task import TaskStored, write_rows
from tests.interop.ours import SECONDS
from tests.support import topics
from tests.support.processes import wait_until

pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]

ROWS = 200


def bodies(batch: int) -> list[str]:
    return [f"{batch}-{row}" + "x" * (row % 3 * 200) for row in range(ROWS)]


def write(settings: SinkSettings, batch: int) -> TaskStored:
    columns = SinkColumns.of(StructType([StructField("body", StringType())]), settings)
    rows = pa.record_batch({"body": bodies(batch)})
    return write_rows(
        iter([rows]), settings, columns, TaskRun(f"query-{settings.topic}", batch, 0)
    )


def sink(names: str, topic: str, **options: str) -> SinkSettings:
    given = {"nameServer": names, "topic": topic, **options}
    return SinkSettings.parse(given, is_stream=True)


def test_a_task_that_runs_again_gives_its_rows_the_same_ids(names, topic):
    settings = sink(names, topic, **{"compress.minBytes": "300"})
    for _ in range(2):
        assert write(settings, 0).rows == ROWS
    wait_until(
        lambda: len(topics.read(names, topic)) == 2 * ROWS, seconds=SECONDS, what="both copies"
    )
    found = {
        (message.message_id, message.body.decode()) for message in topics.read(names, topic)
    }
    assert sorted(body for _, body in found) == sorted(bodies(0))


def test_a_batch_that_was_committed_by_half_is_finished_once(names, topic, tmp_path: Path):
    settings = sink(
        names, topic, delivery="transactional", ledgerDir=str(tmp_path), group=f"sink-{topic}"
    )
    driver(settings).commit([write(settings, 0)])
    # A life that dies in the middle of batch 1.
    before = write(settings, 1)
    Ledgers(tmp_path).begin(BatchKey(f"query-{topic}", 1), settings.group, before.half_messages)
    resolver = driver(settings)._committer.resolver
    for each in before.half_messages:
        first = each.messages()[: len(each.ids) // 2]
        assert set(resolver.end(first, TransactionState.COMMIT)) == {None}
    # And the life after it.
    driver(settings).commit([write(settings, 1)])
    wanted = Counter(bodies(0) + bodies(1))
    wait_until(
        lambda: len(topics.read(names, topic)) >= 2 * ROWS, seconds=SECONDS, what="all rows"
    )
    # What was committed twice would lie before another batch.
    driver(settings).commit([write(settings, 2)])
    wanted += Counter(bodies(2))
    wait_until(
        lambda: len(topics.read(names, topic)) >= 3 * ROWS, seconds=SECONDS, what="batch 2"
    )
    assert Counter(message.body.decode() for message in topics.read(names, topic)) == wanted
