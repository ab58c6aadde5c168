"""One Spark session and one cluster for all tests that need them; both are real.

Most of what a small job takes is the start of Spark's JVM. So all of them, those of programs and commands too, read the
classes from an archive as `python -m examples.spark_classes` makes it (`make spark` does, in the project's cache folder), and
compile with the quick compiler alone.
"""

import os
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from pyspark.sql import DataFrame, SparkSession

from cometmq.embedded import Embedded
from cometmq.spark import session
from tests.interop.reference import CACHE, QUICK_COMPILER

_numbers = count(1)
os.environ["XDG_CACHE_HOME"] = str(CACHE / "spark")
os.environ["SPARK_SUBMIT_OPTS"] = QUICK_COMPILER


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--messages 1000000`: the store of ours that the store tests make; small by default."""
    parser.addoption("--messages", type=int, default=20_000, help="messages in the big store")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Embedded]:
    with Embedded() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    spark = session("tests", master="local[2]", conf={"spark.sql.shuffle.partitions": "2"})
    yield spark
    spark.stop()


@pytest.fixture
def topic() -> str:
    """A topic that no other test has."""
    return f"spark-{next(_numbers)}"


@pytest.fixture
def send(spark: SparkSession, cluster: Embedded, topic: str) -> Callable[..., None]:
    """Sends the numbers of a range, as text, to the topic."""

    def send(start: int, end: int, **options: str) -> None:
        rows = spark.range(start, end).selectExpr("cast(id AS string) AS body")
        save(rows, cluster, topic, **options)

    return send


def save(rows: DataFrame, cluster: Embedded, topic: str, **options: str) -> None:
    writer = rows.write.format("rocketmq").option("nameServer", cluster.nameserver)
    writer.option("topic", topic).options(**options).mode("append").save()


def load(spark: SparkSession, cluster: Embedded, topic: str, **options: str) -> DataFrame:
    reader = spark.read.format("rocketmq").option("nameServer", cluster.nameserver)
    return reader.option("subscribe", topic).options(**options).load()


def numbers_of(rows: DataFrame) -> list[int]:
    """The numbers that the bodies say, sorted."""
    return sorted(int(bytes(row.body)) for row in rows.select("body").collect())
