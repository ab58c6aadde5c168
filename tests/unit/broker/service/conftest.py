"""Services without a wire: values in, values out."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.broker_tables import BrokerTables


@pytest.fixture
async def tables() -> AsyncIterator[BrokerTables]:
    made = BrokerTables()
    made.add("orders")
    yield made
    await made.close()
