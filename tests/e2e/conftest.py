"""What several of these tests ask for; a module that needs another cluster makes its own."""

from collections.abc import AsyncIterator, Iterator

import pytest

from cometmq.embedded import AsyncEmbedded, Embedded
from tests.support.scripted import ScriptedCluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Embedded]:
    """A cluster in this process."""
    with Embedded() as made:
        yield made


@pytest.fixture(scope="module")
def names(cluster: Embedded) -> str:
    """The address of its nameserver."""
    return cluster.nameserver


@pytest.fixture
async def fresh() -> AsyncIterator[AsyncEmbedded]:
    """A cluster of one test's own, on its loop."""
    async with AsyncEmbedded() as made:
        yield made


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedCluster]:
    """A nameserver and two brokers that answer by a script."""
    made = ScriptedCluster()
    async with made.names, made.a, made.b:
        yield made
