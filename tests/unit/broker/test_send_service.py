"""Sends without a frame or a connection: admitted messages in, places out to whoever put them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from cometmq.broker.counters.counters import Counters
from cometmq.broker.inner.puts import in_parts
from cometmq.broker.parts import Parts
from cometmq.broker.send.requests.answers import as_late
from cometmq.broker.send.sends import Sends
from cometmq.broker.settings.store_keys import FlushDiskType
from cometmq.broker.tables.lanes import Lane, Lanes
from cometmq.broker.tables.saving import saved
from cometmq.codec.batch import encode_batch
from cometmq.codec.headers.send import SendRequestV2
from cometmq.codec.properties import encode_properties
from cometmq.kernel import SendBatch, encode_answers, take_sends
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RecordIllegal, RequestError, StoreError, StoreFull
from cometmq.model.topic import TopicConfig
from cometmq.steps.steps import Done, called_back
from cometmq.store.batch import Columns
from cometmq.store.positions import Durability
from tests.support.hand_clock import HandClock
from tests.support.send_frames import Sent, frame_of
from tests.support.store_puts import bodies_of, flush, store_with
from tests.unit.broker.parts_by_hand import HOST, load_tables, parts_by_hand, unique_ids


class Here:
    """A sender in this process."""

    host = HOST
    address = "127.0.0.1:0"


@dataclass
class Caller:
    """Who puts sends, and what it is told: (sends, places, durability, whether it waited), or (sends, error)."""

    told: list[tuple[Any, ...]] = field(default_factory=list)

    def stored(self, sends, results, durability, *, has_waited) -> None:
        self.told.append((sends, results, durability, has_waited))

    def refused(self, sends, error) -> None:
        self.told.append((sends, error))


class House:
    """The sends of a broker that has nothing else."""

    def __init__(self, parts: Parts, clock: HandClock) -> None:
        self.parts, self.store = parts, parts.store
        load_tables(parts)
        parts.topics.put(TopicConfig("orders", 2, 2))
        self.sends = Sends(parts, unique_ids(clock))

    def put(
        self, send: object, caller: Caller, *, body: bytes = b"", topic="orders", **more: Any
    ) -> None:
        properties = encode_properties(more.pop("properties", {})).decode()
        request = SendRequestV2("g", topic, 0, 0, 1, 0, properties=properties, **more)
        content = body or str(send).encode()
        self.sends.put(self.sends.admission.admit(request, content, Here()), send, caller)

    async def saved(self) -> None:
        """The topics that were made are on disk."""
        for name in ("orders", "new"):
            saving = self.parts.topics.saving_of(name)
            if saving is not None:
                await saving


@contextmanager
def house(path, topics_known=saved, **settings: Any) -> Iterator[House]:
    clock = HandClock()
    with parts_by_hand(path, clock, **settings) as parts:
        yield House(replace(parts, topics_known=topics_known), clock)


@pytest.fixture
async def here(tmp_path):
    with house(tmp_path) as made:
        await made.saved()
        yield made
        await made.parts.topics.saver.close()


async def test_all_that_was_put_is_one_write_and_each_caller_is_told_once(here, monkeypatch):
    writes: list[int] = []
    real = here.store.put_many

    def counted(puts, **how):
        writes.append(len(puts))
        return real(puts, **how)

    monkeypatch.setattr(here.store, "put_many", counted)
    first, second = Caller(), Caller()
    for send, caller in enumerate((first, first, second, first)):
        here.put(send, caller)
    assert (first.told, writes) == ([], [])
    here.sends.store()
    assert writes == [4]
    assert [(sends, how) for sends, _, *how in first.told] == [
        ([0, 1], [Durability.OK, False]), ([3], [Durability.OK, False])
    ]  # fmt: skip
    places = [place for _, results, *_ in first.told for place in results]
    assert [queue_offset for queue_offset, _, _ in places] == [0, 1, 3]
    ((sends, [(queue_offset, _, _)], *_),) = second.told
    assert (sends, queue_offset) == ([2], 2)
    assert sum(here.parts.counters.sends.counts) == 4
    assert bodies_of(here.store) == []
    here.sends.written()
    assert bodies_of(here.store) == [b"0", b"1", b"2", b"3"]


async def test_an_illegal_record_refuses_only_itself(tmp_path):
    with house(tmp_path, commitlog_file_size=1 << 16) as here:
        await here.saved()
        first, second = Caller(), Caller()
        for send, caller in enumerate((first, second, second, first)):
            here.put(send, caller, body=b"x" * (70_000 if send == 1 else 10))
        here.sends.store()
        refused = [told for told in second.told if len(told) == 2]
        assert [(sends, type(error)) for sends, error in refused] == [([1], RecordIllegal)]
        stored = [told[0] for told in first.told + second.told if len(told) == 4]
        assert sorted(send for sends in stored for send in sends) == [0, 2, 3]
        assert here.parts.counters.put_failed == 1
        await here.parts.topics.saver.close()


async def test_a_batch_and_what_awaits_no_flush_keep_their_place_between_others(here):
    caller = Caller()
    items = encode_batch([(0, b"1", b""), (0, b"2", b"")])
    here.put(0, caller)
    here.put(1, caller, body=items, batch=True)
    here.put(2, caller, properties={"WAIT": "false"})
    here.put(3, caller)
    here.sends.store()
    assert [(sends, len(results)) for sends, results, *_ in caller.told] == [
        ([0], 1), ([1], 2), ([2], 1), ([3], 1)
    ]  # fmt: skip
    here.sends.written()
    assert bodies_of(here.store) == [b"0", b"1", b"2", b"2", b"3"]


async def test_with_a_synchronous_flush_each_caller_is_told_behind_it_and_waits_once(tmp_path):
    with house(tmp_path, flush_disk_type=FlushDiskType.SYNC_FLUSH) as here:
        await here.saved()
        callers = [Caller(), Caller()]
        for send in range(4):
            here.put(send, callers[send // 2])
        here.put(4, callers[0], properties={"WAIT": "false"})
        here.sends.store()
        assert [len(caller.told) for caller in callers] == [1, 0]
        assert callers[0].told[0][0] == [4]
        assert sum(here.parts.counters.sends.counts) == 1
        flush(here.store)
        assert [(sends, *how) for caller in callers for sends, _, *how in caller.told[-1:]] == [
            ([0, 1], Durability.OK, True), ([2, 3], Durability.OK, True)
        ]  # fmt: skip
        assert sum(here.parts.counters.sends.counts) == 5
        here.put(5, callers[0])
        here.sends.store()
        here.store.poison("the disk failed")
        assert callers[0].told[-1][2] is Durability.DISK_LATE
        await here.parts.topics.saver.close()


async def test_a_send_to_a_new_topic_is_told_when_the_topic_is_on_disk(here):
    caller = Caller()
    here.put(0, caller, topic="new")
    here.put(1, caller, topic="new")
    here.sends.store()
    assert not caller.told
    await here.saved()
    assert [told[0] for told in caller.told] == [[0], [1]]


async def test_a_send_to_a_new_topic_is_told_when_nameservers_know_the_topic(tmp_path):
    answered: list[Done] = []
    with house(
        tmp_path, topics_known=lambda: (yield from called_back(answered.append))
    ) as here:
        caller = Caller()
        here.put(0, caller, topic="new")
        here.sends.store()
        await here.saved()
        assert not caller.told
        (done,) = answered
        done(None, None)
        assert [told[0] for told in caller.told] == [[0]]
        await here.parts.topics.saver.close()


async def test_too_few_replicas_refuse_what_awaits_them_and_store_none_of_it(here):
    caller = Caller()
    here.store.positions.refusal = "1 replica of 2 is in sync"
    here.put(0, caller)
    here.put(1, caller, properties={"WAIT": "false"})
    here.sends.store()
    (refused, stored) = caller.told
    assert (refused[0], refused[1].code) == ([0], ResponseCode.SYSTEM_ERROR)
    assert isinstance(refused[1], RequestError)
    assert stored[0] == [1]
    assert here.parts.counters.put_failed == 1


async def test_what_a_full_disk_refuses_is_told_once_and_not_tried_in_parts(here, monkeypatch):
    calls = []

    def full(puts, **_how):
        calls.append(len(puts))
        raise StoreFull("no room")

    monkeypatch.setattr(here.store, "put_many", full)
    caller = Caller()
    for send in range(8):
        here.put(send, caller)
    here.sends.store()
    ((sends, error),) = caller.told
    assert (sends, calls) == (list(range(8)), [8])
    assert isinstance(error, StoreFull)


@pytest.mark.parametrize("bad", [set(), {0}, {7}, {2, 3}, set(range(8))])
def test_parts_are_in_order_and_only_the_illegal_ones_carry_an_error(bad):
    def put(items):
        if bad & set(items):
            raise RecordIllegal("too long")
        return [(item, item, 1) for item in items]

    parts = list(in_parts(put, range(8)))
    assert [item for part, _ in parts for item in part] == list(range(8))
    failed = {
        item for part, outcome in parts if isinstance(outcome, StoreError) for item in part
    }
    assert failed == bad
    assert [
        place[0] for _, outcome in parts if isinstance(outcome, list) for place in outcome
    ] == [item for item in range(8) if item not in bad]


@pytest.mark.parametrize(
    ("durability", "code"),
    [
        (Durability.DISK_LATE, ResponseCode.FLUSH_DISK_TIMEOUT),
        (Durability.REPLICA_LATE, ResponseCode.FLUSH_SLAVE_TIMEOUT),
        (Durability.NO_REPLICA, ResponseCode.SLAVE_NOT_AVAILABLE),
    ],
)
def test_the_code_says_whose_fault_it_is(durability, code):
    start = '{"code":0,"extFields":{"queueId":"3","msgId":"7F000001'
    late = as_late([(17, start, "KEY"), (18, None, "ONEWAY")], durability)
    assert late[1] == (18, None, "ONEWAY")
    frame = encode_answers(late, [(5, 900, 100), (6, 1_000, 100)])
    header = json.loads(frame[8:])
    assert (header["code"], header["opaque"]) == (code, 17)
    assert header["extFields"]["queueOffset"] == "5"


def open_all(lanes: Lanes, topics: list[str], queues: int) -> dict[tuple[str, int], Lane]:
    return {
        (topic, number): lanes.open(TopicConfig(topic), number, is_kept=True)
        for topic in topics
        for number in range(queues)
    }


def test_queues_of_a_topic_have_one_topic_block_and_queues_of_one_number_one_answer():
    store, _, _ = store_with()
    opened = open_all(
        Lanes(store, region="r", is_trace_on=True, counters=Counters(HandClock())),
        ["one", "two"],
        2,
    )
    assert opened["one", 0].topic_block is opened["one", 1].topic_block
    assert opened["one", 0].topic_block != opened["two", 0].topic_block
    assert opened["one", 1].answer_start is opened["two", 1].answer_start
    assert '"queueId":"1"' in opened["one", 1].answer_start
    assert len({lane.queue for lane in opened.values()}) == len(opened)


def test_a_forgotten_topic_gets_lanes_anew():
    store, _, _ = store_with()
    lanes = Lanes(store, region="r", is_trace_on=True, counters=Counters(HandClock()))
    opened = open_all(lanes, ["one", "two"], 2)
    lanes.forget("one")
    assert lanes.open(TopicConfig("two"), 1, is_kept=True) is opened["two", 1]
    assert lanes.open(TopicConfig("one"), 1, is_kept=True) is not opened["one", 1]


@pytest.mark.compiled
def test_sends_to_a_forgotten_topic_find_no_lane():
    store, _, _ = store_with()
    lanes = Lanes(store, region="r", is_trace_on=True, counters=Counters(HandClock()))
    open_all(lanes, ["one", "two"], 2)
    assert is_taken(lanes, "one")
    lanes.forget("one")
    assert (is_taken(lanes, "one"), is_taken(lanes, "two")) == (False, True)
    open_all(lanes, ["one"], 2)
    assert is_taken(lanes, "one")
    lanes.forget_all()
    assert not is_taken(lanes, "two")


def is_taken(lanes: Lanes, topic: str) -> bool:
    """Whether a plain send to a topic is taken as columns."""
    fields = {
        "a": "p",
        "b": topic,
        "e": "1",
        "f": "0",
        "g": "1",
        "h": "0",
        "i": "UNIQ_KEY\1A\2",
    }
    frame = frame_of(Sent(310, 0, 1, fields, b"x"), "json")
    limits = 1 << 20, 1 << 24, 1 << 16, 9
    batch: Columns = SendBatch(b"")
    return take_sends(batch, frame, 0, 1, bytes(8), lanes.straight, limits) > 0
