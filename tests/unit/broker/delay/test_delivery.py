"""The machine of delay levels: deliveries, restarts and errors, on a hand clock and a disk in memory."""

from __future__ import annotations

import errno
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cometmq.broker.delay.delivered_offsets import DeliveredOffsets
from cometmq.broker.delay.delivery import LOOK_SECONDS, DelayedDelivery
from cometmq.broker.delay.levels import DelayLevelTable
from cometmq.broker.inner.puts import InnerMessage
from cometmq.codec.bodies.delay_offset import decode_delay_offsets
from cometmq.model.topic import TopicConfig
from cometmq.steps.runner import KeptMachine
from cometmq.steps.steps import Elsewhere
from cometmq.store.config_file import ConfigFile
from tests.support.hand_broker import PATH, HandBroker
from tests.support.hand_clock import HandClock
from tests.support.store_puts import HOST_V4, later

FILE = f"{PATH}/config/delayOffset.json"
FIRST_LEVEL = f"{PATH}/consumequeue/SCHEDULE_TOPIC_XXXX/0/{0:020d}"
TOPICS = (TopicConfig("Orders", 2, 2), TopicConfig("Others", 1, 1))


class Delays:
    """One life of a broker with delay levels."""

    def __init__(self, **more) -> None:
        self.broker = broker = HandBroker(topics=TOPICS, **more)
        self.levels = DelayLevelTable(broker.store.settings.delay_levels_ms, broker.topics)
        self.delivered = DeliveredOffsets(ConfigFile(FILE, broker.disk), clock=broker.clock)
        self.delivered.load()
        self.delivery = DelayedDelivery(broker.parts, self.levels.delays_ms, self.delivered)
        self.delivery.correct_offsets()
        broker.store.on_truncated.append(self.delivery.truncated)
        machine = KeptMachine(
            broker.world, "delivery", self.delivery.deliver, period_seconds=LOOK_SECONDS
        )
        machine.begin()
        broker.wake(machine, self.delivery.queues())

    def send(self, body: bytes, level: int, topic: str = "Orders", queue_id: int = 1) -> None:
        """Store a message as the reroute of a send would."""
        place, queue, properties = self.levels.place(level, topic, queue_id, {"TAGS": "t"})
        now_ms = self.broker.clock.now_ms()
        message = InnerMessage(
            place, queue, body, properties, born_ms=now_ms, born_host=HOST_V4, flag=7,
            is_due_coded=True,
        )  # fmt: skip
        self.broker.put(message)

    def orders(self) -> list[bytes]:
        return self.broker.bodies("Orders", 1)

    def saved(self) -> dict[int, int]:
        return dict(decode_delay_offsets(self.broker.disk.content(FILE)).offsets)

    def killed(self, **more) -> Delays:
        return Delays(**self.broker.killed(), **more)


@pytest.mark.parametrize(("is_steady", "looks"), [(True, 2), (False, 1900)])
def test_it_sleeps_until_the_next_one_is_due_where_nobody_sets_the_clock(is_steady, looks):
    delays = Delays(clock=HandClock(is_steady=is_steady))
    world = delays.broker.world
    world.pass_time(1_000)
    world.sleeps.clear()
    delays.send(b"30 minutes", 16)
    world.pass_time(1_799.9)
    assert delays.orders() == []
    world.pass_time(0.2)
    assert delays.orders() == [b"30 minutes"]
    world.pass_time(86_400)
    assert len(world.sleeps) <= looks


def test_a_head_that_comes_before_what_another_level_sleeps_for_is_not_late():
    delays = Delays(clock=HandClock(is_steady=True))
    delays.send(b"later", 4)
    delays.broker.world.pass_time(10.07)
    delays.send(b"sooner", 1)
    delays.broker.world.pass_time(1.11)
    assert delays.orders() == [b"sooner"]
    delays.broker.world.pass_time(18.92)
    assert delays.orders() == [b"sooner", b"later"]


@pytest.fixture
def delays():
    return Delays()


@pytest.mark.parametrize("set_ms", [1_700_000, -3_600_000])
def test_a_clock_that_is_set_is_noticed_within_a_second(delays, set_ms):
    delays.send(b"b", 16)
    delays.broker.world.pass_time(100.05)
    delays.broker.clock._start_ms += set_ms  # The wall clock alone.
    delays.broker.world.pass_time(1.1)
    assert delays.orders() == [b"b"]


def test_many_that_are_due_at_once_come_in_their_order(delays):
    bodies = [b"%d" % number for number in range(1100)]
    for body in bodies:
        delays.send(body, 1)
    delays.broker.world.pass_time(1.1)
    assert delays.orders() == bodies


def test_an_entry_that_points_backwards_stops_no_level(delays):
    delays.send(b"before", 1)
    delays.broker.world.pass_time(1.2)
    delays.send(b"right", 1)
    delays.send(b"damaged", 1)
    store = delays.broker.store
    queue = store.queue("SCHEDULE_TOPIC_XXXX", 0)
    damaged = store.entries(queue, 2, 1)[0]._replace(physical_offset=0)
    later(store, delays.broker.clock)
    delays.broker.disk.names[FIRST_LEVEL].content[40:48] = bytes(8)
    assert store.entries(queue, 2, 1) == [damaged]
    delays.broker.world.pass_time(2)
    assert delays.orders() == [b"before", b"right", b"damaged"]


def test_a_clock_that_was_set_back_keeps_nobody_waiting_longer_than_the_level(delays):
    delays.send(b"b", 2)
    delays.broker.clock._start_ms -= 3_600_000  # The wall clock alone.
    delays.broker.world.pass_time(0.2)
    assert delays.orders() == [b"b"]


def test_offsets_are_saved_when_the_delivery_is_on_the_device_and_not_before(delays):
    delays.send(b"b", 1)
    delays.broker.world.pass_time(1.1)
    delays.broker.world.is_flushed = None
    saving = delays.broker.world.begin(delays.delivered.save())
    delays.broker.world.settle()
    assert not delays.broker.disk.exists(FILE)
    delays.broker.world.flush()
    saving.get()
    assert delays.saved() == {1: 1}


def test_a_flush_that_fails_saves_nothing_and_the_next_one_does(delays):
    delays.send(b"b", 1)
    delays.broker.world.pass_time(1.1)
    for is_flushed in (False, True):
        delays.broker.world.is_flushed = is_flushed
        delays.broker.world.run(delays.delivered.save())
        assert delays.broker.disk.exists(FILE) is is_flushed


def test_a_file_that_cannot_be_written_is_tried_again(delays):
    delays.send(b"b", 1)
    delays.broker.world.pass_time(1.1)
    delays.broker.disk.fail("open", code=errno.EMFILE)
    with pytest.raises(OSError, match="EMFILE"):
        delays.broker.world.run(delays.delivered.save())
    delays.broker.world.run(delays.delivered.save())
    assert delays.saved() == {1: 1}


def test_a_delivery_that_fails_is_tried_again_and_harms_no_other_level(delays, caplog):
    delays.send(b"stuck", 1)
    delays.broker.world.pass_time(0.95)
    delays.broker.disk.fail("pwrite", code=errno.ENOSPC)
    delays.broker.world.pass_time(0.2)
    assert delays.orders() == []
    assert "messages of delay level 1 cannot be delivered: disk full" in caplog.text
    delays.broker.store.tick()
    delays.broker.clock.turn(0.5)
    delays.send(b"other", 2, "Others", 0)
    delays.broker.world.pass_time(6)
    assert (delays.orders(), delays.broker.bodies("Others")) == ([b"stuck"], [b"other"])


@pytest.mark.parametrize(("offset", "found"), [(99, 1), (-1, 0)])
def test_an_offset_outside_of_its_queue_is_brought_back(delays, offset, found):
    delays.send(b"b", 1)
    delays.delivered.offsets[1] = offset
    delays.delivered.offsets[7] = 3
    delays.delivery.correct_offsets()
    assert delays.delivered.offsets == {1: found, 7: 0}


@settings(max_examples=40, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1 << 32))
def test_each_comes_in_its_time_across_kills_and_none_is_lost(data, seed):
    """Without a kill each once; with kills again what was not saved, as in RocketMQ."""
    delays = Delays(chance=Random(seed))
    sent: dict[bytes, int] = {}  # When each is due, ms by the wall: what a message carries.
    is_killed = False
    for number in range(data.draw(st.integers(1, 12))):
        level = data.draw(st.integers(1, 4))
        body = b"%d" % number
        sent[body] = delays.broker.clock.now_ms() + delays.levels.delays_ms[level - 1]
        delays.send(body, level)
        deed, waited = data.draw(st.sampled_from(["wait", "wait", "save", "kill"])), 0.0
        if deed == "wait":
            waited = data.draw(st.floats(0, 12))
            delays.broker.world.pass_time(waited)
        elif deed == "save":
            delays.broker.world.run(delays.delivered.save())
        else:
            is_killed = True
            delays = delays.killed()
        now = delays.broker.clock.now_ms()
        assert {body for body, due in sent.items() if due > now}.isdisjoint(delays.orders())
        if waited > 0.2:
            overdue = {body for body, due in sent.items() if due < now - 200}
            assert overdue <= set(delays.orders())
    delays.broker.world.pass_time(40)
    assert set(delays.orders()) == set(sent)
    assert is_killed or len(delays.orders()) == len(sent)


def truncated(delays: Delays, body: bytes, queue: tuple[str, int]) -> None:
    """The log is cut before a message."""
    place = next(r.physical_offset for r in delays.broker.records(*queue) if r.body == body)
    delays.broker.store.truncate(place)


def test_what_was_delivered_behind_a_new_end_is_delivered_again(delays):
    for number in range(3):
        delays.send(b"%d" % number, 2)
        delays.broker.world.pass_time(6)
    assert delays.orders() == [b"0", b"1", b"2"]
    truncated(delays, b"1", ("Orders", 1))
    assert delays.orders() == [b"0"]
    assert delays.delivered.offsets[2] == 1
    delays.send(b"3", 1)  # It wakes the machine, as the feature does.
    delays.broker.world.pass_time(6)
    # The wait of 2 lay behind the new end, too.
    assert delays.orders() == [b"0", b"1", b"3"]


def test_what_came_behind_a_new_end_never_comes_and_what_comes_then_does(delays):
    for body in (b"stays", b"goes", b"goes, too"):
        delays.send(body, 3)
    truncated(delays, b"goes", ("SCHEDULE_TOPIC_XXXX", 2))
    delays.broker.world.pass_time(1)
    delays.send(b"new", 3)
    delays.broker.world.pass_time(12)
    assert delays.orders() == [b"stays", b"new"]


def test_what_was_read_before_the_log_was_truncated_is_not_delivered(delays):
    delays.send(b"stays", 1)
    delays.send(b"goes", 1)
    # The look has its work elsewhere when the end is taken back.
    delays.broker.clock.turn(1.5)
    steps = delays.delivery.deliver()
    wait = next(steps)
    assert isinstance(wait, Elsewhere)
    result = wait.work()
    truncated(delays, b"goes", ("SCHEDULE_TOPIC_XXXX", 0))
    with pytest.raises(StopIteration):  # noqa: PT012  The last of some sends ends them.
        while True:
            wait = steps.send(result)
            assert isinstance(wait, Elsewhere)
            result = wait.work()
    assert delays.orders() == [b"stays"]
