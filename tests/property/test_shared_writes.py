"""Requests that share a write do what they do when each is read alone: ends of transactions, and messages sent back.

The same broker twice: one reads the requests of a turn together and finds all messages in memory; the other reads them one by
one, and each waits for the disk. Ends are right and wrong, repeated and contradicting, of transactions that are open, have
ended or never were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.broker.features import FEATURES
from cometmq.broker.retry.requests import RetryHandler
from cometmq.broker.send.requests.sends import SendHandler
from cometmq.broker.send.sends import Sends
from cometmq.broker.transactions.feature import Transactions
from cometmq.broker.transactions.prepared_messages import decode_op
from cometmq.codec.record import Record
from cometmq.codec.remoting import Command, encode_command
from cometmq.model.codes import RequestCode
from cometmq.model.group import GroupConfig
from cometmq.model.names import OP_HALF_TOPIC
from cometmq.net.server import Server
from cometmq.net.virtual_loop import VirtualLoop
from cometmq.store.reader import GetResult
from cometmq.wire.connection import Connection
from tests.support.hand_clock import HandClock
from tests.support.hand_connection import connected_to
from tests.support.request_fields import short_fields
from tests.support.store_puts import read_all
from tests.support.tables import answering
from tests.unit.broker.parts_by_hand import load_tables, parts_by_hand, unique_ids

pytestmark = pytest.mark.slow

CONNECTIONS, GROUP = 3, "payers"
# Group, and what is added to both places of the half message.
RIGHT = (GROUP, 0, 0)
TWISTS = st.sampled_from(
    [RIGHT] * 8 + [("others", 0, 0), (GROUP, 1, 0), (GROUP, 0, 1), (GROUP, 9_999, 0)]
)
ENDS = st.tuples(st.just("end"), st.integers(0, 30), st.sampled_from([8, 8, 12, 0]), TWISTS)
BACKS = st.tuples(
    st.just("back"), st.integers(0, 30), st.sampled_from([0, 0, 2, -1]), st.just(RIGHT)
)
HALVES = st.tuples(st.just("half"), st.just(0), st.just(0), st.just(RIGHT))
TURNS = st.lists(
    st.lists(
        st.tuples(st.integers(0, CONNECTIONS - 1), st.one_of(HALVES, ENDS, ENDS, BACKS)),
        max_size=12,
    ),
    max_size=6,
)
Request = tuple[int, tuple[str, int, int, tuple[str, int, int]]]


class House:
    """A broker's transactions and retries behind a server without sockets, and what its producers know."""

    def __init__(self, parts: Any, clock: HandClock, *, is_cold: bool) -> None:
        load_tables(parts)
        self.parts, self.is_cold = parts, is_cold
        made = [make(parts) for make in FEATURES]
        self.transactions = next(each for each in made if isinstance(each, Transactions))
        retries = next(each for each in made if isinstance(each, RetryHandler))
        self.sends = sends = SendHandler(Sends(parts, unique_ids(clock)), parts)
        answers: dict[int, Any] = {**sends.answers, **retries.answers}
        end = RequestCode.END_TRANSACTION
        answers[end] = self.transactions.answers[end]
        self.server = Server(answering(answers), clock)
        connected = [
            connected_to(self.server, f"127.0.0.{1 + each}", 5000)
            for each in range(CONNECTIONS)
        ]
        self.peers, self.wires = zip(*connected, strict=True)
        self.halves: list[
            tuple[int, int]
        ] = []  # Their places in the half queue and in the log.
        parts.topics.ensure("Orders", queues=2, perm=6)
        parts.groups.put(GroupConfig("readers"))

    def frame(self, number: int, request: Request, known: int) -> bytes:
        """The request of this number, about one of the first `known` half messages."""
        _, (what, which, how, (group, offset, physical)) = request
        if what == "half":
            key = f"7F00000100000001{number:016X}"
            marks = {"UNIQ_KEY": key, "TRAN_MSG": "true", "PGROUP": GROUP, "TAGS": "t"}
            fields = short_fields("Orders", number % 2, marks, sysFlag="4")
            return encode_command(
                Command(310, opaque=number, fields=fields, body=b"%d" % number)
            )
        place = self.halves[which % known]
        if what == "back":
            fields = {"offset": str(place[1]), "group": "readers", "delayLevel": str(how)}
            return encode_command(Command(36, opaque=number, version=479, fields=fields))
        fields = {
            "producerGroup": group, "tranStateTableOffset": str(place[0] + offset), "msgId": "",
            "commitLogOffset": str(place[1] + physical), "commitOrRollback": str(how),
        }  # fmt: skip
        return encode_command(Command(37, opaque=number, fields=fields))

    async def turn(
        self, frames: list[tuple[int, bytes]]
    ) -> set[tuple[int, int, int, str | None]]:
        """Read frames together; number, connection, code and remark of their answers."""
        with self._cold_reads() if self.is_cold else nullcontext():
            for place in range(CONNECTIONS):
                data = b"".join(frame for peer, frame in frames if peer == place)
                if data:
                    self.peers[place].data_received(data)
            for _ in range(100_000):
                if sum(each.written.count(b'"opaque"') for each in self.wires) == len(frames):
                    break
                await asyncio.sleep(0)
        answers = set()
        for place, wire in enumerate(self.wires):
            data, wire.written = wire.written, b""
            for answer in Connection[None]().receive_data(data):
                answers.add((answer[2], place, answer[0], answer[5]))
                if "msgId" in answer[6]:
                    fields = answer[6]
                    self.halves.append(
                        (int(fields["queueOffset"]), int(fields["msgId"][-16:], 16))
                    )
        return answers

    @contextmanager
    def _cold_reads(self) -> Iterator[None]:
        """Let nothing be read at once, as if no page of the log were in memory."""
        store = self.parts.store
        get, read_record = store.get, store.read_record

        def get_later(*place: Any, **how: Any) -> GetResult:
            return get(*place, **how)._replace(cold=lambda: get(*place, **how))

        def read_later(*place: Any, may_wait: bool = True) -> bytes | None:
            if not may_wait:
                raise BlockingIOError
            return read_record(*place)

        store.get, store.read_record = get_later, read_later
        try:
            yield
        finally:
            store.get, store.read_record = get, read_record

    def seen(self) -> list[object]:
        """All that there is to see of it, but for places in the log."""
        store, found = self.parts.store, []
        for topic in sorted({*store.topics()} - {OP_HALF_TOPIC}):
            for queue in store.queues_of(topic):
                records = read_all(store, topic, queue.queue_id)
                found.append((topic, queue.queue_id, [self._content(each) for each in records]))
        ops = read_all(store, OP_HALF_TOPIC)
        ended = sorted(offset for each in ops for offset in decode_op(each.body))
        table, events = self.transactions._table, self.parts.counters.events
        states = {key: each.state for key, each in table.open.items()}
        counted = [
            events.of(f"rocketmq_{how}_messages_total") for how in ("commit", "rollback")
        ]
        return [found, ended, states, table._ended, counted]

    def _content(self, record: Record) -> tuple[object, ...]:
        properties = record.properties()
        first = properties.pop("ORIGIN_MESSAGE_ID", None)
        retried = None if first is None else self._half_at(int(first[-16:], 16))
        half = self._half_at(record.prepared_offset) if record.prepared_offset else None
        return (
            record.body, properties, record.sys_flag, record.flag, record.queue_offset,
            record.reconsume_times, retried, half,
        )  # fmt: skip

    def _half_at(self, place: int) -> int:
        return {physical: offset for offset, physical in self.halves}[place]


@contextmanager
def house(folder: Path, loop: asyncio.Runner, *, is_cold: bool) -> Iterator[House]:
    clock = HandClock()
    with parts_by_hand(folder, clock) as parts:

        async def begin() -> House:
            return House(parts, clock, is_cold=is_cold)

        async def end() -> None:
            for table in (parts.topics, parts.groups, parts.offsets):
                await table.saver.close()

        try:
            yield loop.run(begin())
        finally:
            loop.run(end())


@settings(max_examples=25, deadline=None)
@given(turns=TURNS)
def test_requests_that_are_read_together_do_what_they_do_one_by_one(tmp_path_factory, turns):
    folder = tmp_path_factory.mktemp("shared")
    with (
        asyncio.Runner(loop_factory=VirtualLoop) as loop,
        house(folder / "together", loop, is_cold=False) as together,
        house(folder / "alone", loop, is_cold=True) as alone,
    ):
        number = 0
        first = [(0, ("half", 0, 0, RIGHT)), (1, ("half", 0, 0, RIGHT))]
        for requests in [first, *turns]:
            # Sends are stored before ends that were read with them, and connections come in their order.
            placed = sorted(
                enumerate(requests),
                key=lambda each: (each[1][1][0] != "half", each[1][1][0] == "end", each[1][0]),
            )
            numbered = [(number + n, *each) for n, each in enumerate(placed)]
            number += len(requests)
            known = len(together.halves)
            frames = [
                (each[0], together.frame(place, each, known))
                for place, _, each in sorted(
                    numbered, key=lambda each: (each[2][1][0] == "back", each[1])
                )
            ]
            answers = loop.run(together.turn(frames))
            others: set[Any] = set()
            for place, _, each in numbered:
                others |= loop.run(alone.turn([(each[0], alone.frame(place, each, known))]))
            assert answers == others
            assert len(answers) == len(numbered)
            assert together.seen() == alone.seen()


@pytest.mark.compiled
def test_half_messages_behind_ends_of_others_take_the_fast_path(tmp_path, monkeypatch):
    half, commit = ("half", 0, 0, RIGHT), ("end", 0, 8, RIGHT)
    with (
        asyncio.Runner(loop_factory=VirtualLoop) as loop,
        house(tmp_path, loop, is_cold=False) as one,
    ):
        for number in range(
            4
        ):  # Lanes are open after the first of each queue of a topic that is saved.
            loop.run(one.turn([(0, one.frame(number, (0, half), 0))]))
        decoded: list[Any] = []
        monkeypatch.setattr(one.sends, "handle", decoded.append)
        requests = [commit, half, commit, commit, half, half, commit]
        frames = [
            (0, one.frame(number, (0, each), 4)) for number, each in enumerate(requests, 4)
        ]
        answers = loop.run(one.turn(frames))
        assert not decoded
        assert sorted((number, code) for number, _, code, _ in answers) == [
            (number, 0) for number in range(4, 11)
        ]
