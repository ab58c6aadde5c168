"""A route table whose time is turned by hand."""

from __future__ import annotations

import pytest

from cometmq.nameserver.routes import RouteTable
from tests.support.hand_clock import HandClock


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


@pytest.fixture
def table(clock) -> RouteTable:
    return RouteTable(clock)
