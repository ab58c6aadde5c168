"""The nameserver that frames are sent to, or that the broker under test is registered at."""

from __future__ import annotations

import pytest

from tests.support import processes


@pytest.fixture
def nameserver(tmp_path):
    with processes.nameserver(tmp_path) as program:
        yield program
