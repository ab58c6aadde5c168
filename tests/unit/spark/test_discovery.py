"""What Spark imports to look for formats: it must be cheap, and must not fail for what others lack."""

import subprocess
import sys

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
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    names, imported, *errors = done.stdout.splitlines()
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
