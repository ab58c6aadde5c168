"""Programs with Spark as users write them: a job with a watermark, and the notebook of the flights."""

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson
import pytest

from cometmq import Message, Producer
from cometmq.embedded import Embedded
from examples.late_orders import TOPIC, run, windows
from tests.support.pages import ROOT
from tests.support.programs import run_program

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def send(cluster: Embedded, *seconds: int) -> None:
    """An order of a euro for each second after noon, in this order."""
    with Producer(cluster.nameserver) as producer:
        for after in seconds:
            at = (NOON + timedelta(seconds=after)).isoformat()
            producer.send(Message(TOPIC, orjson.dumps({"at": at, "cents": 100})))


def test_late_orders_count_until_the_watermark_and_are_dropped_behind_it(
    spark, cluster, tmp_path: Path
):
    def complete() -> list[tuple[int, int, int]]:
        rows = windows(spark, tmp_path)
        found = rows.selectExpr("CAST(start AS LONG) AS start", "cents", "orders").collect()
        return sorted(
            (row.start - int(NOON.timestamp()), row.cents, row.orders) for row in found
        )

    spark.conf.set("spark.sql.session.timeZone", "UTC")
    send(cluster, 1, 2, 15)
    assert run(spark, cluster.nameserver, tmp_path) == 0
    assert complete() == []  # No window is over; the program shows an empty table.
    send(
        cluster, 3, 100
    )  # The first is late, and no minute behind 15; the other moves the watermark to 40.
    assert run(spark, cluster.nameserver, tmp_path) == 0
    assert complete() == [(0, 300, 3), (10, 100, 1)]
    send(cluster, 4, 200)  # Its window is written already.
    assert run(spark, cluster.nameserver, tmp_path) == 1
    assert complete() == [(0, 300, 3), (10, 100, 1), (100, 100, 1)]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_the_notebook_of_the_flights_runs_cell_by_cell(tmp_path):
    notebook = orjson.loads((ROOT / "examples" / "flights.ipynb").read_bytes())
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in notebook["cells"] if "outputs" in cell)
    script = tmp_path / "flights.py"
    script.write_text("import matplotlib\n\nmatplotlib.use('Agg')\n" + "\n\n".join(cells))
    done = run_program(sys.executable, script, cwd=tmp_path, seconds=200)
    assert "27004 flights of January" in done.stdout
    said = done.stdout.replace(" ", "")
    assert "|UA|4637|" in said, done.stdout


STREAM = """
import sys
from cometmq.spark import session

spark = session("stream", master="local[2]")
print(spark.conf.get("spark.sql.shuffle.partitions"))
rows = spark.readStream.format("rocketmq").option("nameServer", sys.argv[1])
rows = rows.option("subscribe", sys.argv[2]).option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 50).load()
seen = []
query = rows.writeStream.foreachBatch(lambda batch, _: seen.append(batch.limit(1).count())).start()
while sum(seen) < 3:
    query.awaitTermination(0.1)
query.stop()
print(rows.sparkSession.read.format("rocketmq").option("nameServer", sys.argv[1]).option("subscribe", sys.argv[2]).load().limit(1).count())
spark.stop()
"""


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_stream_that_is_stopped_well_says_nothing_of_closed_connections(cluster, topic):
    with Producer(cluster.nameserver) as producer:
        producer.send_batch([Message(topic, b"x" * 20_000) for _ in range(150)])
    stream = (sys.executable, "-c", STREAM, cluster.nameserver, topic)
    done = run_program(*stream, seconds=200)
    assert (done.returncode, done.stdout.split()) == (0, ["4", "1"]), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert "BrokenPipeError" not in done.stderr, done.stderr
