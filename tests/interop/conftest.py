"""Clusters for the interop tests: ours, the reference, and the mixtures."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.interop import clients, reference
from tests.support import processes


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
    names = processes.nameserver(folder / "nameserver")
    with names, ExitStack() as stack:
        served = processes.broker(
            folder / "broker", names.address, settings=clients.BROKER_SETTINGS
        )
        stack.enter_context(served)
        reference.wait_registered(names.address)
        yield Cluster(names, served, folder)


@pytest.fixture(scope="session")
def java_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Java nameserver and a Java broker, with the settings of the scenarios."""
    folder = tmp_path_factory.mktemp("java")
    names = reference.nameserver(folder / "nameserver").start()
    served = reference.broker(
        folder / "broker", names.address, settings=clients.BROKER_SETTINGS
    )
    try:
        served.start()
        reference.wait_registered(names.address)
        yield Cluster(names, served, folder)
    finally:
        # An ordinary stop of the Java broker takes 15 seconds, and nobody reads this store again.
        if served.process is not None:
            served.kill()
        names.kill()
