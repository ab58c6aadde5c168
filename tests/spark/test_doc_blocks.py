"""The code on the pages about Spark runs, each block; tests/e2e has the pages without."""

import re
import sys
from pathlib import Path

import orjson
import pytest

from cometmq.embedded import Embedded
from cometmq.spark.sink.options import SINK_OPTIONS
from cometmq.spark.source.options import SOURCE_OPTIONS
from tests.support.pages import ROOT, Reading, counted, pages
from tests.support.programs import run_program

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

HEADING = ["", " Kafka's option ", " option here ", " what differs ", ""]
THOSE = pages(with_spark=True)


@pytest.mark.parametrize("page", THOSE, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_of_a_page_runs(page: Path, spark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    # Spark's own folder is where it was started: a page that writes there has forgotten `replace`.
    beside = set(ROOT.iterdir())
    tables = {table.name for table in spark.catalog.listTables()}
    with Embedded() as cluster:
        monkeypatch.setenv("NAMESRV_ADDR", cluster.nameserver)
        try:
            Reading(cluster.nameserver, tmp_path).run(page)
            for query in spark.streams.active:
                query.processAllAvailable()
        finally:
            for query in spark.streams.active:
                query.stop()
            for table in spark.catalog.listTables():
                if table.name not in tables:
                    kind = "VIEW" if table.isTemporary else "TABLE"
                    spark.sql(f"DROP {kind} {table.name}")
    left = {path.name for path in set(ROOT.iterdir()) - beside}
    assert left <= {"spark-warehouse"}


def test_the_notebook_runs_cell_by_cell(tmp_path):
    notebook = orjson.loads((ROOT / "examples" / "orders.ipynb").read_bytes())
    cells = ["".join(c["source"]) for c in notebook["cells"] if c["cell_type"] == "code"]
    assert not any(cell["outputs"] for cell in notebook["cells"] if "outputs" in cell)
    # As a kernel does: a process of its own, for the last cell ends its session.
    script = tmp_path / "orders.py"
    script.write_text("\n\n".join(cells))
    done = run_program(sys.executable, script, cwd=tmp_path, seconds=200)
    said = done.stdout.replace(" ", "")
    assert "|books|334|8350.0|" in said, done.stdout
    assert '|{"shop":"tools","orders":333,' in said
    assert "|order-totals|3|" in said


def test_the_names_beside_those_of_kafka_are_options():
    page = (ROOT / "docs" / "spark" / "from-kafka.md").read_text()
    rows = [line.split("|") for line in page.splitlines() if line.count("|") == 4]
    named = {
        name
        for row in rows[rows.index(HEADING) :]
        for name in re.findall(r"`([\w.]+)`", row[2])
    }
    known = {option.name for option in (*SOURCE_OPTIONS, *SINK_OPTIONS)}
    assert len(named) > 30
    assert named <= known, named - known


def test_what_is_not_run_is_counted_with_its_reason(capsys):
    with capsys.disabled():
        print(f"\n{counted(THOSE)}")
