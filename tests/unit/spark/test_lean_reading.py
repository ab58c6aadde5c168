"""Reading plain messages does not import pandas, where it is installed: a process of Spark has better to do.

What is found under that name here is a module that only says that it was asked for.
"""

import os
import subprocess
import sys

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


def test_plain_messages_are_read_without_pandas(tmp_path):
    store = open_store(tmp_path / "store")
    for number in range(20):
        put(store, b"%d" % number, b"x" * number)
    run_jobs(store)
    store.close()
    (tmp_path / "pandas.py").write_text(PANDAS)
    done = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path / "store")],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    # The last line shows that it would have been noticed.
    assert done.stdout.splitlines() == ["40", "40", "asked for"]
