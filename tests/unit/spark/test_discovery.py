"""What Spark imports to look for formats: it must be cheap, and must not fail for what others lack."""

import sys
from pathlib import Path

import pytest

from tests.support.programs import run_program, said_by_python
from tests.support.store_puts import put, writing

SCRIPT = """
import sys
sys.modules["pyarrow"] = sys.modules["numpy"] = None
import pyspark_rocketmq, pyspark_rocketmq_store
sources = [pyspark_rocketmq.DefaultSource, pyspark_rocketmq_store.DefaultSource]
print(*(source.name() for source in sources))
print([name for name in sys.modules if name.split(".")[0] == "cometmq"])
for source in sources:
    try:
        source({}).reader(None)
    except ImportError as error:
        print(error)
"""


def test_finding_the_formats_imports_nothing_of_ours_and_fails_only_who_uses_them():
    names, imported, *errors = said_by_python("-c", SCRIPT).splitlines()
    assert names == "rocketmq rocketmq-store"
    assert imported == "[]"
    assert len(errors) == 2
    assert all("pyarrow" in error or "numpy" in error for error in errors), errors


def test_a_source_that_is_made_is_the_real_one():
    from cometmq.spark import RocketMQSource
    from cometmq.spark.store.format import RocketMQStoreSource
    from pyspark_rocketmq import DefaultSource
    from pyspark_rocketmq_store import DefaultSource as DefaultStoreSource

    options = {"nameServer": "localhost:9876"}
    assert type(DefaultSource(options)) is RocketMQSource
    assert DefaultSource(options).options is options
    assert type(DefaultStoreSource(options)) is RocketMQStoreSource
    assert DefaultSource.name() == RocketMQSource.name()
    assert DefaultStoreSource.name() == RocketMQStoreSource.name()


PANDAS = """
print("asked for", flush=True)
raise ImportError
"""
READ = """
import sys
from cometmq.spark.store.format import RocketMQStoreSource
for form in ("map", "raw"):
    source = RocketMQStoreSource({"path": sys.argv[1], "propertiesFormat": form})
    reader = source.reader(source.schema())
    rows = 0
    for partition in reader.partitions():
        for batch in reader.read(partition):
            batch.validate(full=True)
            rows += batch.num_rows
    print(rows)
import numpy, pyarrow
pyarrow.array(numpy.arange(3))
"""
PLAN = """
import sys
from cometmq.spark.store.format import RocketMQStoreSource
source = RocketMQStoreSource({"path": sys.argv[1], **dict(each.split("=") for each in sys.argv[2:])})
assert source.reader(source.schema()).partitions()
late = {"pyarrow.compute", "cometmq.offline.rebuild", "cometmq.offline.verify"}
print(sorted(late & set(sys.modules)))
"""

COLUMNS = """
import sys
from cometmq.spark.format import RocketMQSource
from cometmq.spark.store.format import RocketMQStoreSource
assert RocketMQStoreSource({"path": "/none"}).schema() and RocketMQSource({}).schema()
late = {"numpy", "pyarrow", "cometmq.kernel", "cometmq.client.consumer.filters"}
print(sorted(late & set(sys.modules)))
import cometmq.spark.store.settings, cometmq.spark.source.settings
print(sorted(late & set(sys.modules)))
"""


def store_of(folder: Path, count: int) -> None:
    """A closed store of two messages a number, below a folder."""
    with writing(folder / "store") as store:
        for number in range(count):
            put(store, b"%d" % number, b"x" * number)


def planned(*given):
    """What of the late modules a process has imported that plans a read."""
    return said_by_python("-c", PLAN, *given)


def test_plain_messages_are_read_without_pandas(tmp_path):
    store_of(tmp_path, 20)
    (tmp_path / "pandas.py").write_text(PANDAS)
    said = said_by_python("-c", READ, tmp_path / "store", PYTHONPATH=str(tmp_path))
    # The last line shows that it would have been noticed.
    assert said.splitlines() == ["40", "40", "asked for"]


def test_who_plans_a_read_of_messages_imports_neither_what_reads_them_nor_the_engine(tmp_path):
    store_of(tmp_path, 1)
    assert planned(str(tmp_path / "store")) == "[]"
    # And it would be noticed: this view is made by the engine.
    assert "cometmq.offline.rebuild" in planned(str(tmp_path / "store"), "view=packed-cq")


def test_who_asks_for_the_columns_imports_neither_arrow_nor_what_reads():
    said = said_by_python("-c", COLUMNS)
    found = ["cometmq.client.consumer.filters", "cometmq.kernel", "numpy", "pyarrow"]
    # The second line shows that they would have been noticed.
    assert said.splitlines() == ["[]", str(found)]


PROGRAM = """
import sys, traceback
from importlib.machinery import ModuleSpec
sys.modules["__main__"].__spec__ = ModuleSpec({name!r}, None)
import cometmq.spark
for error in (BrokenPipeError("closed"), ValueError("wrong")):
    try:
        raise error
    except Exception:
        traceback.print_exc()
raise BrokenPipeError("closed")
"""


@pytest.mark.parametrize(("name", "closed"), [("pyspark.daemon", 0), ("shop.reports", 2)])
def test_a_closed_connection_is_silent_in_a_python_of_spark_and_other_errors_are_not(
    name, closed
):
    program = PROGRAM.format(name=name)
    done = run_program(sys.executable, "-c", program, status=1, seconds=None)
    assert done.stderr.count("BrokenPipeError") == closed
    assert done.stderr.count("ValueError: wrong") == 1
