"""Real programs on free ports for each attack."""

from __future__ import annotations

import pytest

from tests.support import processes


@pytest.fixture
def nameserver(tmp_path):
    with processes.nameserver(tmp_path / "nameserver") as program:
        yield program


@pytest.fixture
def broker(tmp_path, nameserver):
    """A broker with defaults; a test that needs settings starts one of its own."""
    with processes.broker(tmp_path / "broker", nameserver.address) as program:
        yield program
