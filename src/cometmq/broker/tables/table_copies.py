"""Tracks which slaves have copied a master's tables, so that a deletion is answered when they have it, or after 4 s.

Without this wait, a slave that is promoted could bring a deleted topic back. CometMQ's slaves send their id when they
request tables, one after the other: each when the one before is on disk. The request after that for topics thus proves
that the slave has the topics. A slave that is not connected cannot learn of a deletion: the master logs its id, if it
knows it.
"""

import logging
from collections.abc import Callable
from functools import partial
from typing import Protocol

from cometmq.broker.tables.replication_state import ReplicationState
from cometmq.model.codes import RequestCode as Code
from cometmq.steps.steps import Done, Steps, called_back

_log = logging.getLogger(__name__)

# Header field with the broker id of a slave that requests a table.
SLAVE_ID = "slaveId"
# A slave requests tables every 3 s, and when it is notified.
_WAIT_SECONDS = 4.0
# Order of requests: a slave that requests the key has the value on disk.
_NEXT = {
    Code.GET_ALL_CONSUMER_OFFSET: Code.GET_ALL_TOPIC_CONFIG,
    Code.GET_ALL_MESSAGE_REQUEST_MODE: Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
}
TABLES = (*_NEXT.values(), *_NEXT)
# Rounds of requests after which a slave has everything, see `TableCopies.copied`.
_ROUNDS = 3


class TableReader(Protocol):
    """The connection of a slave that requests tables."""

    def notify(self, code: int, fields: dict[str, str], body: bytes = b"") -> None: ...  # noqa: D102


class TableCopies:
    """The tables that the slaves of this master have copied; lets a deletion wait until they know of it.

    Deletions of topics and groups, and rounds of `copied`, are numbered. A table that a slave requests after number n
    lacks what deletion n removed. Its next request, for the table that follows, proves that it has that table on disk.
    """

    def __init__(self, replication: Callable[[], ReplicationState] | None = None) -> None:
        """`replication` returns the connected slaves; None: there are none."""
        self._replication = replication
        self._deletions = 0
        self._asked: dict[tuple[str, int], int] = {}
        self._had: dict[tuple[str, int], int] = {}
        self._peers: dict[str, TableReader] = {}
        # Steps that wait for slaves: what they wait for, and what to call.
        self._waiting: list[tuple[Callable[[], bool], Done]] = []

    def asked(self, code: int, slave: str, peer: TableReader) -> None:
        """Note that a slave with this broker id and connection (`peer`) requests the table that `code` returns.

        Ignored unless such a slave is connected to copy the log.
        """
        if slave not in self._slaves():
            return
        self._peers[slave] = peer
        before = _NEXT.get(Code(code))
        if before is None:
            self._asked[slave, code] = self._deletions
        elif (slave, before) in self._asked:
            self._had[slave, before] = self._asked[slave, before]
            self._look()

    def is_read_by(self, slave: str) -> bool:
        """Return whether a CometMQ slave with this broker id is connected to copy the log, and has requested tables."""
        return slave in self._slaves() and slave in self._peers

    def copied(self, slave: str) -> Steps[None]:
        """Ask a slave to copy the tables, and wait until it has all as they are now; TimeoutError if it is too slow or gone.

        A slave requests every table in a round, and applies those that depend on the log when the round ends, if its log
        is that long. A current round may have begun before now, so `copied` waits for several rounds.
        """
        for _ in range(_ROUNDS):
            self._deletions += 1
            number = self._deletions
            if self.is_read_by(slave):
                self._peers[slave].notify(Code.GET_ALL_TOPIC_CONFIG, {})
            for code in _NEXT.values():
                yield from self._until(partial(self._has, slave, code, number))

    def deleted(self, code: int, name: str) -> Steps[None]:
        """Let connected CometMQ slaves copy a table without a deleted topic or group; wait up to 4 s until all have it.

        Slaves that do not have it then, or that copied tables before but are not connected, are logged.
        """
        self._deletions += 1
        number = self._deletions
        connected = self._slaves()
        for slave in connected & self._peers.keys():
            self._peers[slave].notify(code, {})
        away = self._peers.keys() - connected
        if away:
            _log.warning(
                "%s is deleted while the slaves with these ids are not connected: %s; if one of them becomes the master "
                "before it has connected again, delete it there again", name, ", ".join(sorted(away)),
            )  # fmt: skip
        try:
            yield from self._until(lambda: not self._lacking(code, number))
        except TimeoutError:
            _log.warning(
                "%s is deleted, but the slaves with these ids have not copied that yet: %s; if one of them becomes the "
                "master now, delete it there again", name, ", ".join(sorted(self._lacking(code, number))),
            )  # fmt: skip

    def _until(self, is_there: Callable[[], bool]) -> Steps[None]:
        """Wait until `is_there` returns True; raise TimeoutError after 4 s."""
        if is_there():
            return
        try:
            yield from called_back(
                lambda done: self._waiting.append((is_there, done)), _WAIT_SECONDS
            )
        finally:
            self._waiting = [wait for wait in self._waiting if wait[0] is not is_there]

    def _look(self) -> None:
        waiting = [done for is_there, done in self._waiting if is_there()]
        for done in waiting:
            done(None, None)

    def _has(self, slave: str, code: int, number: int) -> bool:
        return self._had.get((slave, code), 0) >= number

    def _lacking(self, code: int, number: int) -> set[str]:
        return {slave for slave in self._slaves() if not self._has(slave, code, number)}

    def _slaves(self) -> set[str]:
        if self._replication is None:
            return set()
        copies = self._replication().copies
        return {str(copy.broker_id) for copy in copies if copy.broker_id is not None}
