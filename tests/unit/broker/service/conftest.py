"""Services without a wire: values in, values out."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cometmq.broker.parts import Parts
from cometmq.model.group import GroupConfig
from cometmq.model.topic import TopicConfig
from tests.support.hand_clock import HandClock
from tests.unit.broker.parts_by_hand import load_tables, parts_by_hand


@pytest.fixture
async def tables(tmp_path: Path) -> AsyncIterator[Parts]:
    """Store and tables, with a topic of two queues and a group."""
    with parts_by_hand(tmp_path, HandClock()) as parts:
        load_tables(parts)
        parts.topics.put(TopicConfig("orders", 2, 2))
        parts.groups.put(GroupConfig("g"))
        yield parts
        for table in (parts.topics, parts.groups, parts.offsets, parts.locks):
            await table.close()
