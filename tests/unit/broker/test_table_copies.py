"""Deletions that a slave cannot have: the master names the slave."""

from __future__ import annotations

import logging

import pytest

from cometmq.broker.tables.replication_state import CopyState, ReplicationState
from cometmq.broker.tables.table_copies import TABLES, TableCopies
from cometmq.model.codes import RequestCode as Code
from tests.support.steps import run


class Slave:
    """The connection of a slave that asks for all tables as soon as it is told to."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def notify(self, code: int, _fields: dict[str, str], _body: bytes = b"") -> None:
        self.told.append(code)


async def test_a_deletion_names_the_slaves_that_were_there_and_are_away(
    caplog: pytest.LogCaptureFixture,
):
    connected = [1, 2]

    def replication() -> ReplicationState:
        copies = tuple(
            CopyState("127.0.0.1:1", each, 0, 0, 0.0, True, 0, 0) for each in connected
        )
        return ReplicationState(True, 0, copies, len(copies) + 1, 1, 0, None)

    copies = TableCopies(replication)
    slaves = {"1": Slave(), "2": Slave()}
    for slave, peer in slaves.items():
        for code in TABLES:
            copies.asked(code, slave, peer)
    connected.clear()
    with caplog.at_level(logging.WARNING):
        await run(copies.deleted(Code.GET_ALL_TOPIC_CONFIG, "orders"))
    assert "orders is deleted while the slaves with these ids are not connected: 1, 2" in (
        caplog.text
    )
    assert [slave.told for slave in slaves.values()] == [[], []]
