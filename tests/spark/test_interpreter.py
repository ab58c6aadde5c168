"""What a local session's JVM starts is this Python, and it finds PySpark where its bytecode is kept."""

import os
import sys
from pathlib import Path

import pyspark
import pytest

from cometmq.spark.session import unzipped_python
from tests.support.programs import run_program

LIBRARY = Path(pyspark.__file__).parent / "python" / "lib"
ZIPS = f"{LIBRARY}/pyspark.zip:{next(LIBRARY.glob('py4j-*-src.zip'))}"
LOOK = (
    "import pyspark, sys, os; print(pyspark.__file__, sys.executable, os.environ['PYTHONPATH'])"
)


def look(program: str, path: str) -> list[str]:
    return run_program(program, "-c", LOOK, env={"PYTHONPATH": path}).stdout.split()


@pytest.mark.parametrize(
    ("path", "left"),
    [
        (f"{ZIPS}:/spark-core.jar", "/spark-core.jar"),
        # What the look for formats is told: both of it twice.
        (f"{ZIPS}:/a.jar:{ZIPS}:/a.jar:/with blank", "/a.jar:/a.jar:/with blank"),
        ("/other/pyspark.zip:/a.jar", "/other/pyspark.zip:/a.jar"),
    ],
)
def test_the_copies_in_zips_are_left_out_and_nothing_else(tmp_path, path, left):
    found, executable, *told = look(unzipped_python(tmp_path), path)
    assert found == pyspark.__file__
    assert executable == sys.executable
    assert " ".join(told) == left


def test_without_it_pyspark_comes_from_the_zip(tmp_path):
    """What all this is for; when it is so no more, the module can go."""
    assert look(sys.executable, ZIPS)[0].startswith(f"{LIBRARY}/pyspark.zip")


def test_where_temporary_files_are_no_programs_it_is_this_python(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # A file system without them.
    assert unzipped_python(tmp_path) == sys.executable


def test_the_workers_of_a_session_are_started_so(spark):
    def look(_: object) -> object:
        import pyspark

        yield pyspark.__file__

    found = spark.sparkContext.parallelize([0], 1).mapPartitions(look).collect()
    assert found == [pyspark.__file__]
