"""A client's connection that is made of lists, as services know it (`broker.tables.client_peer`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from cometmq.broker.tables.client_peer import ClientPeer
from cometmq.broker.tables.members import Client
from cometmq.model.rights import EVERYBODY
from cometmq.steps.steps import Steps

HOST = bytes([127, 0, 0, 1, 0, 0, 0xC3, 0x50])


class Asked(NamedTuple):
    """What a client was told or asked."""

    code: int
    fields: dict[str, str]
    body: bytes


class HandAnswer(NamedTuple):
    """What it answers."""

    code: int = 0
    remark: str | None = None
    fields: dict[str, str] = {}  # noqa: RUF012  Nobody writes to it.
    body: bytes = b""


class HandClientPeer:
    """A connection of which the test says what comes back.

    Attributes:
        told: what it was told.
        asked: what it was asked.
        answer: what it answers, or the error that comes instead.
    """

    def __init__(
        self, port: int = 50_000, answer: HandAnswer | Exception | None = None
    ) -> None:
        self.address = f"127.0.0.1:{port}"
        self.host = HOST
        self.is_closed = False
        self.is_paused = False
        self.on_close: list[Callable[[ClientPeer], None]] = []
        self.told: list[Asked] = []
        self.asked: list[Asked] = []
        self.answer = answer or HandAnswer()

    def notify(self, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        self.told.append(Asked(code, fields, body))

    def call(
        self, code: int, fields: dict[str, str], body: bytes = b"", *, timeout_ms: int = 10_000
    ) -> Steps[HandAnswer]:
        self.asked.append(Asked(code, fields, body))
        if isinstance(self.answer, Exception):
            raise self.answer
        yield from ()
        return self.answer

    def close(self) -> None:
        self.is_closed = True
        for listener in self.on_close:
            listener(self)


def client_of(peer: ClientPeer, client_id: str, *, version: int = 479) -> Client:
    """Who it is in its groups."""
    return Client(client_id, peer, EVERYBODY, language=0, version=version, seen=0.0)
