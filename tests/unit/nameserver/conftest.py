"""A route table whose time is turned by hand."""

from __future__ import annotations

import pytest

from cometmq.nameserver.routes import RouteTable


@pytest.fixture
def table(clock) -> RouteTable:
    return RouteTable(clock)
