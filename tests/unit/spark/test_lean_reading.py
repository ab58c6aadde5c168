"""Reading plain messages imports only what it needs: Spark asks new processes, one after the other.

What is found under the name of pandas here is a module that only says that it was asked for.
"""

from pathlib import Path

from tests.support.programs import said_by_python
from tests.support.store_puts import open_store, put, run_jobs

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
    store = open_store(folder / "store")
    for number in range(count):
        put(store, b"%d" % number, b"x" * number)
    run_jobs(store)
    store.close()


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
