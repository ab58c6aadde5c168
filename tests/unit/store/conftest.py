"""A disk in memory, and a small store on it."""

from __future__ import annotations

import pytest

from cometmq.store.message_store import MessageStore
from tests.support.fake_disk import FakeDisk
from tests.support.store_puts import open_store


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()


@pytest.fixture
def store(disk: FakeDisk) -> MessageStore:
    return open_store(disk=disk)
