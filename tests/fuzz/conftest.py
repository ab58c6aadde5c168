"""The nameserver that frames are sent to, or that the broker under test is registered at."""

from __future__ import annotations

import pytest

from tests.support import processes
from tests.support.good_client import rerun_waits


def pytest_collection_modifyitems(items):
    rerun_waits(items, under=__file__)


@pytest.fixture
def nameserver(tmp_path):
    with processes.nameserver(tmp_path) as program:
        yield program
