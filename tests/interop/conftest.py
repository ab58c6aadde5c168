"""Clusters for the interop tests: ours, the reference, and the mixtures."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cometmq import Producer, ProducerSettings
from tests.interop import clients, reference
from tests.interop.ours import new_topic
from tests.support import processes
from tests.support.programs import small_cluster


@dataclass(frozen=True, slots=True)
class Cluster:
    """One nameserver and one broker that is registered with it."""

    nameserver: processes.Program
    broker: processes.Program
    folder: Path


@pytest.fixture(scope="session")
def our_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Our nameserver and our broker, with the settings of the scenarios."""
    folder = tmp_path_factory.mktemp("ours")
    with small_cluster(folder, **clients.BROKER_SETTINGS) as programs:
        yield Cluster(*programs, folder)


@pytest.fixture(scope="session")
def java_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Java nameserver and a Java broker, with the settings of the scenarios."""
    folder = tmp_path_factory.mktemp("java")
    names = reference.nameserver(folder / "nameserver")
    broker = reference.broker(
        folder / "broker", names.address, settings=clients.BROKER_SETTINGS
    )
    with reference.served(names, broker):
        yield Cluster(names, broker, folder)


@pytest.fixture(params=["our_cluster", "java_cluster"], ids=["ours", "java"], scope="module")
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """Both clusters, one after the other."""
    found: Cluster = request.getfixturevalue(request.param)
    return found


@pytest.fixture(scope="module")
def names(cluster: Cluster) -> str:
    """The address of the cluster's nameserver."""
    return cluster.nameserver.address


@pytest.fixture(scope="module")
def producer(names: str) -> Iterator[Producer]:
    """A producer of ours that gives a busy machine time."""
    settings = ProducerSettings(send_timeout_ms=10_000)
    with Producer(names, group="our_producer", settings=settings) as made:
        yield made


@pytest.fixture
def topic(names: str) -> str:
    """A topic of four queues for one test."""
    return new_topic(names)


@pytest.fixture
def group() -> str:
    """A consumer group for one test."""
    return f"our_group_{time.time_ns()}"
