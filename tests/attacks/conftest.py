"""Real programs on free ports for each attack."""

from __future__ import annotations

import pytest

from tests.support import processes
from tests.support.good_client import rerun_waits


def pytest_collection_modifyitems(items):
    rerun_waits(items, under=__file__)


@pytest.fixture(scope="session")
def nameserver(tmp_path_factory):
    """One for all attacks but those on itself: each start takes a second, and who leaves it leaves nothing."""
    with processes.nameserver(tmp_path_factory.mktemp("nameserver")) as program:
        yield program


@pytest.fixture
def broker(tmp_path, nameserver):
    """A broker with defaults; a test that needs settings starts one of its own."""
    with processes.broker(tmp_path / "broker", nameserver.address) as program:
        yield program


@pytest.fixture(scope="module")
def standing(tmp_path_factory, nameserver):
    """One for all tests of a module that leave it as it was."""
    folder = tmp_path_factory.mktemp("standing")
    with processes.broker(folder / "broker", nameserver.address) as program:
        yield program
