"""Tracebacks of connections that Spark has closed: none in Spark's own Pythons, all in others."""

import subprocess
import sys

import pytest

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
    command = [sys.executable, "-c", PROGRAM.format(name=name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 1
    assert done.stderr.count("BrokenPipeError") == closed
    assert done.stderr.count("ValueError: wrong") == 1
