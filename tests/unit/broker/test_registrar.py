"""The registrar by values and a hand clock: what it asks which nameserver, and when."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from cometmq.broker.registration import registrar as registrar_module
from cometmq.broker.registration import registration_body
from cometmq.broker.registration.group_watch import OLD_PERIOD_SECONDS, Fence, GroupWatch
from cometmq.broker.registration.registered_topics import RegisteredTopics
from cometmq.broker.registration.registrar import (
    CHANGE_SECONDS_MAX,
    WHOLE_MAX,
    Registrar,
)
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.topics import Topics
from cometmq.codec.bodies.cluster import encode_member_group
from cometmq.codec.bodies.topic_config import TopicTable
from cometmq.codec.headers.nameserver import BrokerIdentity
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import ConnectionLost
from cometmq.model.flags import PERM_READ, PERM_READ_WRITE, PERM_WRITE
from cometmq.model.names import DEFAULT_TOPIC, SELF_TEST_TOPIC
from cometmq.model.route import BrokerData
from cometmq.model.topic import TopicConfig
from cometmq.steps.runner import REST_SECONDS, KeptMachine
from cometmq.store.config_file import ConfigFile
from cometmq.store.running_flags import RunningFlag, RunningFlags
from cometmq.store.settings import StoreSettings
from tests.support.fake_disk import FakeDisk
from tests.support.hand_clock import HandClock
from tests.support.hand_world import HandWorld
from tests.support.store_puts import flush, open_store, put
from tests.unit.broker.client_by_hand import HandAnswer

REGISTER, LEAVE = RequestCode.REGISTER_BROKER, RequestCode.UNREGISTER_BROKER
ONE = RequestCode.REGISTER_TOPIC_IN_NAMESRV


class Call(NamedTuple):
    """What a nameserver was asked."""

    at: float
    address: str
    code: int
    fields: dict[str, str]


class HandNameservers:
    """Nameservers that are lists.

    Attributes:
        down: addresses where nobody answers.
        silent: addresses where nobody answers for ever.
    """

    def __init__(self, world: HandWorld) -> None:
        self.calls: list[Call] = []
        self.down: set[str] = set()
        self.silent: set[str] = set()
        self.answer = HandAnswer()
        self._held: dict[str, Callable[[HandAnswer, None], None]] = {}
        self._world = world
        self._watching: dict[str, Callable[[], None]] = {}

    def __call__(self, address, code, fields, body, *, timeout_ms, done) -> None:
        self.calls.append(Call(self._world.monotonic(), address, code, fields))
        if address in self.down:
            self._world.call_soon(lambda: done(None, ConnectionLost(address)))
        elif address in self.silent:
            self._held[address] = done
        else:
            self._world.call_soon(lambda: done(self.answer, None))

    def answer_later(self, address: str) -> None:
        """Answer the last request to a silent nameserver."""
        self._held.pop(address)(self.answer, None)

    def is_connected(self, address: str) -> bool:
        return address not in self.down

    def when_lost(self, address: str, lost: Callable[[], None]) -> None:
        assert address not in self._watching, "one watch is enough"
        self._watching[address] = lost

    def lose(self, address: str) -> None:
        self._watching.pop(address)()

    def codes(self, address: str) -> list[int]:
        return [call.code for call in self.calls if call.address == address]


class Bench:
    """A registrar of a broker with so many topics, and two nameservers."""

    def __init__(self, count: int = 1, period_ms: int = 30_000) -> None:
        self.world = HandWorld()
        self.nameservers = HandNameservers(self.world)
        names = [f"t{number}" for number in range(count)]
        self.table = TopicTable(DataVersion(1, 1), {name: TopicConfig(name) for name in names})
        self.registrar = Registrar(
            BrokerSettings(nameservers="one;two", register_period_ms=period_ms),
            "127.0.0.1:10911",
            lambda: self.table,
            ha_address="127.0.0.1:10912",
            ask=self.nameservers,
            timers=self.world,
        )

    def keep(self, name: str, step) -> KeptMachine:
        machine = KeptMachine(self.world, name, step)
        machine.begin()
        return machine

    def started(self) -> Bench:
        """It has registered, as far as nameservers answer."""
        self.start = self.world.begin(self.registrar.start(self.keep))
        self.world.pass_time(0)
        return self


@pytest.fixture
def bench():
    return Bench()


def test_it_registers_everywhere_and_leaves_those_that_are_up(bench):
    bench.nameservers.down = {"two"}
    bench.started().start.get()
    assert [call.address for call in bench.nameservers.calls] == ["one", "two"]
    assert bench.nameservers.calls[0].fields["haServerAddr"] == "127.0.0.1:10912"
    bench.world.run(bench.registrar.leave())
    assert bench.nameservers.codes("one") == [REGISTER, LEAVE]
    assert bench.nameservers.codes("two") == [REGISTER]


def test_a_start_waits_for_a_nameserver_until_its_time_is_over(bench):
    bench.nameservers.silent = {"two"}
    bench.started()
    bench.world.pass_time(23.9)
    assert not bench.start.is_over
    bench.world.pass_time(0.2)
    bench.start.get()


def test_each_period_it_tells_again_and_one_that_is_down_each_three_seconds(bench):
    bench.nameservers.down = {"two"}
    bench.started()
    began = bench.world.monotonic()
    bench.world.pass_time(61)
    at = {
        name: [
            round(call.at - began) for call in bench.nameservers.calls if call.address == name
        ]
        for name in ("one", "two")
    }
    assert at["one"] == [0, 30, 60]
    assert at["two"] == list(range(0, 61, 3))


@pytest.mark.parametrize(("period_ms", "seconds"), [(1, 10), (30_000, 30), (10**9, 60)])
def test_the_period_stays_within_the_bounds_of_rocketmq(period_ms, seconds):
    bench = Bench(period_ms=period_ms)
    assert bench.registrar.period_seconds == seconds


def test_a_nameserver_that_was_lost_is_told_again_a_second_later():
    bench = Bench().started()
    nameservers = bench.nameservers
    bench.world.pass_time(28)
    assert nameservers.codes("one") == [REGISTER]
    nameservers.lose("one")
    bench.world.pass_time(0.9)
    assert nameservers.codes("one") == [REGISTER]
    bench.world.pass_time(0.2)
    assert nameservers.codes("one") == [REGISTER, REGISTER]
    bench.world.pass_time(29)
    assert nameservers.codes("one") == [REGISTER, REGISTER]
    assert nameservers.codes("two") == [REGISTER, REGISTER]


def test_a_nameserver_that_refuses_is_not_up(bench):
    bench.nameservers.answer = HandAnswer(ResponseCode.SYSTEM_ERROR, "no")
    bench.started().start.get()
    bench.world.run(bench.registrar.leave())
    assert bench.nameservers.codes("one") == [REGISTER]


@pytest.mark.parametrize(("count", "code"), [(1, REGISTER), (WHOLE_MAX + 1, ONE)])
def test_of_very_many_topics_only_those_that_changed_are_told(count, code):
    bench = Bench(count).started()
    bench.nameservers.calls.clear()
    bench.registrar.changed("t0")
    told = bench.world.begin(bench.registrar.register())
    bench.world.pass_time(0)
    told.get()
    assert bench.nameservers.codes("one") == [code]


def test_changes_that_come_while_one_is_told_are_told_together():
    bench = Bench().started()
    bench.nameservers.calls.clear()
    bench.nameservers.silent = {"one"}
    bench.registrar.changed()
    bench.world.pass_time(1)
    for _ in range(100):
        bench.registrar.changed()
    bench.world.pass_time(1)
    assert bench.nameservers.codes("one") == [REGISTER], "it has not answered"
    assert bench.nameservers.codes("two") == [REGISTER, REGISTER]


@pytest.mark.parametrize("limit", [(), (1.0,)])
def test_a_change_waits_for_the_answers_of_those_that_are_up_and_not_for_ever(bench, limit):
    bench.nameservers.down = {"two"}
    bench.started()
    bench.nameservers.silent = {"one", "two"}
    bench.nameservers.down = set()
    told = bench.world.begin(bench.registrar.register(*limit))
    bench.world.pass_time((*limit, CHANGE_SECONDS_MAX)[0] - 0.1)
    assert not told.is_over
    bench.world.pass_time(0.2)
    told.get()


def test_who_waits_until_topics_are_known_waits_for_the_registration_with_the_last_change():
    bench = Bench().started()
    bench.world.begin(bench.registrar.known()).get()  # There was no change.
    bench.nameservers.silent = {"one"}
    bench.registrar.changed("t0")
    bench.world.pass_time(0.1)  # It is told, and has not answered.
    first = bench.world.begin(bench.registrar.known())
    bench.nameservers.answer_later("one")
    bench.world.pass_time(0)
    first.get()
    assert bench.nameservers.codes("one") == [REGISTER] * 2
    bench.registrar.changed("t0")
    bench.world.pass_time(0)
    bench.registrar.changed("t1")  # The next registration has it, not the one that "one" has.
    second = bench.world.begin(bench.registrar.known())
    bench.nameservers.answer_later("one")
    bench.world.pass_time(0)
    assert not second.is_over
    bench.nameservers.answer_later("one")
    bench.world.pass_time(0)
    second.get()


def test_who_waits_until_topics_are_known_does_so_for_a_second_at_most():
    bench = Bench()
    bench.nameservers.down = {"two"}
    bench.started()
    bench.nameservers.silent = {"one", "two"}
    bench.registrar.changed("t0")
    waits = bench.world.begin(bench.registrar.known())
    bench.world.pass_time(0.9)
    assert not waits.is_over
    bench.world.pass_time(0.2)
    waits.get()


def test_a_large_body_is_made_once_and_elsewhere_for_all_nameservers(monkeypatch):
    made = []

    def count(*args, **settings):
        made.append(args)
        return make(*args, **settings)

    make = registration_body.make_body
    monkeypatch.setattr(registrar_module, "make_body", count)
    bench = Bench(WHOLE_MAX + 1).started()
    bench.world.pass_time(1)
    assert bench.nameservers.codes("one") == bench.nameservers.codes("two") == [REGISTER]
    assert len(made) == 1


def test_a_step_that_fails_ends_its_round_and_no_machine(bench, monkeypatch, caplog):
    monkeypatch.setattr(registrar_module, "make_body", lambda *_, **__: 1 / 0)
    bench.started().start.get()
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.undo()
    bench.world.pass_time(REST_SECONDS + 1)
    assert bench.nameservers.codes("one") == [REGISTER]


@contextmanager
def registered(disk: FakeDisk, *, perm: int = PERM_READ_WRITE, is_read_only: bool = False):
    """The store, the topics, and what is told of them."""
    clock = HandClock()
    settings = StoreSettings(commitlog_file_size=16_384, queue_file_size=400, disk_reserve=0)
    store = open_store(settings=settings, disk=disk, clock=clock, read_only=is_read_only)
    with ThreadPoolExecutor(1) as pool:
        file = ConfigFile("/store/config/topics.json", disk)
        topics = Topics(file, BrokerSettings(), clock=clock, pool=pool)
        yield store, topics, RegisteredTopics(topics, store, clock, BrokerSettings(perm=perm))


async def test_the_broker_permission_cuts_those_of_its_topics():
    with registered(FakeDisk(), perm=PERM_READ) as (_, topics, told):
        topics.load()
        assert told.table().topics[SELF_TEST_TOPIC].perm == PERM_READ
        assert told.table().topics[DEFAULT_TOPIC].perm == PERM_READ  # Nobody inherits it.
        assert told.table().version == topics.version
        assert topics.table().topics[SELF_TEST_TOPIC].perm == PERM_READ_WRITE


async def test_a_failed_flush_takes_write_permission_away_once_and_under_a_new_version():
    disk = FakeDisk()
    with registered(disk) as (store, topics, told):
        topics.load()
        assert told.table() == topics.table()
        assert not told.look()
        put(store, b"x")
        store.wait_flushed(store.max_offset, lambda _durability: None)
        disk.fail("fdatasync")
        flush(store)
        assert told.look()
        assert not told.look()
        after = told.table()
        assert not any(config.perm & PERM_WRITE for config in after.topics.values())
        assert after.topics[SELF_TEST_TOPIC].perm == PERM_READ
        assert after.version != topics.version
        assert topics.table().topics[SELF_TEST_TOPIC].perm == PERM_READ_WRITE


async def test_a_full_disk_passes_and_changes_nothing():
    disk = FakeDisk()
    with registered(disk) as (store, topics, told):
        topics.load()
        store.room.file_failed("disk full")
        assert store.refusal is not None
        assert not told.look()
        assert told.table() == topics.table()


async def test_a_store_that_opens_for_reading_only_is_never_registered_for_writing():
    disk = FakeDisk()
    with registered(disk) as (store, _, _):
        put(store, b"x")
        store.close()
    with registered(disk, is_read_only=True) as (_, topics, told):
        topics.load()
        assert told.look()  # The broker asks before it registers.
        assert not any(config.perm & PERM_WRITE for config in told.table().topics.values())


OWN, OTHER = "127.0.0.1:1", "127.0.0.2:1"


class WatchBench:
    """A broker, and what nameservers answer it: the address of id 0, a code, or None for silence."""

    def __init__(self, *, is_slave: bool = False, **answers: str | int | None) -> None:
        self.world = HandWorld()
        self.answers = answers
        self.store = SimpleNamespace(flags=RunningFlags(), max_offset=100)
        self.registered: list[str] = []
        self.asked = 0
        self.has_master = False
        identity = BrokerIdentity("a", OWN, "c", 1 if is_slave else 0)
        watch = GroupWatch(
            list(answers),
            identity,
            self,  # type: ignore[arg-type]
            fence=None if is_slave else Fence(self.store, identity),  # type: ignore[arg-type]
            has_master=lambda: self.has_master,
            register_at=self.registered.append,
        )
        self.watch = watch
        watch.begin(self.keep)
        self.world.pass_time(0)

    def keep(self, name, step):
        machine = KeptMachine(self.world, name, step)
        machine.begin()
        return machine

    def __call__(self, address, code, fields, body, *, timeout_ms, done) -> None:
        self.asked += 1
        said = self.answers[address]
        if said is None:
            self.world.call_soon(lambda: done(None, ConnectionLost(address)))
        elif isinstance(said, int):
            self.world.call_soon(lambda: done(Command(said), None))
        else:
            group = BrokerData("c", "a", {0: said} if said else {})
            self.world.call_soon(
                lambda: done(Command(0, body=encode_member_group(group)), None)
            )

    @property
    def is_fenced(self) -> bool:
        return self.store.flags.has(RunningFlag.FENCED)

    def later(self, **answers: str | int | None) -> None:
        self.answers.update(answers)
        for nameserver in answers:
            self.watch.registered(nameserver)
        self.world.pass_time(OLD_PERIOD_SECONDS + 0.1)


@pytest.mark.parametrize(
    ("answers", "is_fenced"),
    [
        ({"one": OWN}, False),
        ({"one": OTHER}, True),
        ({"one": OTHER, "two": OTHER}, True),
        ({"one": OTHER, "two": None}, True),
        ({"one": OTHER, "two": ""}, True),
        # Clients of the second one still send here, and read here.
        ({"one": OTHER, "two": OWN}, False),
        # Nobody has the place, or nobody knows: sends go on.
        ({"one": ""}, False),
        ({"one": None}, False),
        ({"one": int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)}, False),
        ({"one": int(ResponseCode.NO_PERMISSION)}, False),
    ],
)
def test_a_master_takes_no_messages_while_each_nameserver_that_knows_has_another(
    answers, is_fenced
):
    bench = WatchBench(**answers)
    assert bench.is_fenced == is_fenced


def test_what_only_the_old_master_has_is_said_and_it_goes_on_once_it_is_the_master_again(
    caplog,
):
    bench = WatchBench(one=OWN)
    bench.store.max_offset = 250
    bench.later(one=OTHER)
    assert bench.is_fenced
    assert OTHER in (bench.store.flags.refusal or "")
    assert OWN in (bench.store.flags.refusal or "")
    assert "from physical offset 100 to 250" in caplog.text
    bench.later(one=None)  # Silence changes nothing.
    assert bench.is_fenced
    bench.later(one=OWN)
    assert not bench.is_fenced


def test_a_nameserver_that_is_gone_does_not_keep_a_master_that_all_others_have_replaced():
    bench = WatchBench(one=OWN, two=OTHER)
    seen = [bench.is_fenced]
    bench.later(one=None)
    seen.append(bench.is_fenced)
    assert bench.watch.other_master() == (OTHER, "two")
    bench.answers["one"] = OWN  # It is noticed without a registration, which may take 30 s.
    bench.world.pass_time(1.1)
    seen.append(bench.is_fenced)
    bench.later(one=None, two=OWN)
    assert [*seen, bench.is_fenced] == [False, True, False, False]
    asked = bench.asked
    bench.world.pass_time(10)
    assert bench.asked == asked  # Nobody has a rival.


def test_a_slave_may_be_promoted_when_the_nameserver_that_had_the_old_master_is_gone():
    bench = WatchBench(is_slave=True, one=OTHER, two="")
    assert bench.watch.other_master() == (OTHER, "one")
    bench.later(one=None)
    assert bench.watch.other_master() is None


def test_a_slave_without_a_master_registers_once_there_is_one_and_asks_nobody_while_it_copies():
    bench = WatchBench(is_slave=True, one="")
    bench.later()
    assert bench.registered == []
    bench.later(one=OTHER)
    assert bench.registered == ["one"]
    bench.has_master, asked = True, bench.asked
    bench.later(one="127.0.0.3:1")
    assert bench.asked == asked
    bench.has_master = False
    bench.later()
    assert bench.registered == ["one", "one"]


def test_at_a_nameserver_of_before_5_0_a_slave_registers_until_it_has_a_master():
    bench = WatchBench(is_slave=True, one=int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED))
    bench.later()
    assert bench.registered == ["one", "one"]
