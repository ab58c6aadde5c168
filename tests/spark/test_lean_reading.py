"""Reading plain messages does not import pandas, where it is installed: a process of Spark has better to do."""

import importlib.util
import subprocess
import sys

from tests.support.store_puts import open_store, put, run_jobs

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
    print(rows, "pandas" in sys.modules)
"""


def test_plain_messages_are_read_without_pandas(tmp_path):
    assert importlib.util.find_spec("pandas"), "without it this shows nothing"
    store = open_store(tmp_path)
    for number in range(20):
        put(store, b"%d" % number, b"x" * number)
    run_jobs(store)
    store.close()
    command = [sys.executable, "-c", READ, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["40", "False"] * 2
