"""Requests that share a write: which of them a gate checks, and which errors answer them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from cometmq.codec.remoting import Command, RawCommand, encode_command
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import StoreError
from cometmq.model.rights import EVERYBODY, Asker, Right
from cometmq.net.dispatcher import Dispatcher
from cometmq.net.requests import GateRefusal, RequestRule, RequestTable
from cometmq.net.server import Server
from cometmq.net.shared_write import SharedWrite
from cometmq.steps.steps import Steps
from tests.support.hand_clock import HandClock
from tests.support.hand_connection import connected_to
from tests.support.tables import answering

CODE, COUNT = 9100, 40


@dataclass
class Stored:
    is_stored: bool
    error: Exception | None = None


class Gate:
    """Takes a millisecond of the clock for each request, and refuses one of ten."""

    def __init__(self, clock: HandClock) -> None:
        self.clock = clock
        self.checked: list[int] = []

    def is_asked(self, _rule: RequestRule) -> bool:
        return True

    def check(self, _rule: RequestRule, request: Command | RawCommand, _peer: Any) -> Asker:
        self.clock.turn(0.001)
        self.checked.append(request[2])
        if request[2] % 10 == 3:
            raise GateRefusal("nobody knows you")
        return EVERYBODY


def prepare(command: RawCommand, _asker: Asker) -> Steps[Stored]:
    yield from ()
    return Stored(is_stored=command[2] % 2 == 0)


def store(_items: Sequence[Stored]) -> Steps[None]:
    yield from ()


def fail(_items: Sequence[Stored]) -> Steps[None]:
    yield from ()
    raise StoreError("it was not flushed in time")


@pytest.mark.parametrize("connections", [1, 2])
async def test_a_gate_checks_each_request_once_however_many_batches_they_take(connections):
    clock = HandClock()
    gate = Gate(clock)
    rule = RequestRule(CODE, Right.ANYBODY, (), is_batch=True)
    table = RequestTable([rule], [{CODE: SharedWrite(prepare, store)}], gate)
    server = Server(Dispatcher(table), clock)
    connected = [connected_to(server, f"127.0.0.{each}", 5000) for each in range(connections)]
    for place, (peer, _) in enumerate(connected):
        numbers = range(place, COUNT, connections)
        peer.data_received(b"".join(encode_command(Command(CODE, opaque=n)) for n in numbers))
    answers: list[tuple[int, int]] = []
    for _ in range(1_000):
        answers += [each for _, wire in connected for each in wire.answers()]
        if len(answers) == COUNT:
            break
        await asyncio.sleep(0)
    refused = {(ResponseCode.NO_PERMISSION, number) for number in range(3, COUNT, 10)}
    assert {each for each in answers if each[0]} == refused
    assert len(answers) == COUNT
    assert sorted(gate.checked) == list(range(COUNT))


async def test_a_request_that_stores_nothing_does_not_fail_with_the_write_of_others():
    server = Server(answering({CODE: SharedWrite(prepare, fail)}), HandClock())
    peer, wire = connected_to(server, "127.0.0.1", 5000)
    peer.data_received(b"".join(encode_command(Command(CODE, opaque=n)) for n in range(4)))
    await asyncio.sleep(0)
    failed = {number for code, number in wire.answers() if code}
    assert failed == {0, 2}
