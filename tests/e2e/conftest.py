"""What several of these tests ask for; a module that needs another cluster makes its own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from cometmq.embedded import Embedded
from tests.support.scripted import ScriptedCluster


@pytest.fixture(scope="module")
def names() -> Iterator[str]:
    """The address of the nameserver of a cluster in this process."""
    with Embedded() as made:
        yield made.nameserver


@pytest.fixture
async def cluster() -> AsyncIterator[ScriptedCluster]:
    """A nameserver and two brokers that answer by a script."""
    made = ScriptedCluster()
    async with made.names, made.a, made.b:
        yield made
