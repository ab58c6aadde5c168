"""Real programs on free ports for each attack."""

from __future__ import annotations

import pytest

from tests.support import processes


@pytest.fixture
def nameserver(tmp_path):
    """A nameserver of a test's own."""
    with processes.nameserver(tmp_path / "nameserver") as program:
        yield program


@pytest.fixture(scope="module")
def bystander(tmp_path_factory):
    """A nameserver for the brokers of a module whose tests do not ask for one themselves: each start takes a second."""
    with processes.nameserver(tmp_path_factory.mktemp("nameserver")) as program:
        yield program


@pytest.fixture
def broker(request, tmp_path):
    """A broker with defaults; a test that needs settings starts one of its own."""
    has_its_own = "nameserver" in request.fixturenames
    registry = request.getfixturevalue("nameserver" if has_its_own else "bystander")
    with processes.broker(tmp_path / "broker", registry.address) as program:
        yield program
