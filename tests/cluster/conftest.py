"""One wheel, one Spark cluster and one broker for the whole suite; all real, all on loopback."""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.cluster import wheel as wheels
from tests.cluster.standalone import LOOPBACK, Standalone
from tests.interop.reference import QUICK_COMPILER
from tests.support.programs import small_cluster

_numbers = count(1)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory) -> Path:
    """CometMQ's wheel."""
    return wheels.build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def installed(tmp_path_factory, wheel: Path) -> Path:
    """A Python with CometMQ from the wheel."""
    return wheels.environment(tmp_path_factory.mktemp("installed") / "env", wheel)


@pytest.fixture(scope="session")
def bare(tmp_path_factory) -> Path:
    """A Python with Spark and the other dependencies, but no CometMQ."""
    return wheels.environment(tmp_path_factory.mktemp("bare") / "env")


@pytest.fixture(scope="session")
def standalone(tmp_path_factory, installed: Path) -> Iterator[Standalone]:
    cluster = Standalone(tmp_path_factory.mktemp("standalone"), installed)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="session")
def nameserver(tmp_path_factory) -> Iterator[str]:
    """The nameserver of a broker, both of them processes."""
    with small_cluster(tmp_path_factory.mktemp("broker")) as (names, _):
        yield names.address


@pytest.fixture(scope="session")
def spark(standalone: Standalone) -> Iterator[SparkSession]:
    """A session of the cluster, made as anybody makes one: nothing is registered."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in standalone.env.items():
            patch.setenv(name, value)
        builder = SparkSession.builder.appName("cluster").master(standalone.url)
        settings = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.executor.cores": "1",
            "spark.cores.max": "2",
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": QUICK_COMPILER,
            "spark.sql.shuffle.partitions": "2",
        }
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        yield spark
        spark.stop()


@pytest.fixture
def topic() -> str:
    """A topic that no other test has."""
    return f"cluster-{next(_numbers)}"
