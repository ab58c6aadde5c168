"""The registrar by values and a hand clock: what it asks which nameserver, and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest

from cometmq.broker.registration import registrar as registrar_module
from cometmq.broker.registration import registration_body
from cometmq.broker.registration.registrar import (
    CHANGE_SECONDS_MAX,
    WHOLE_MAX,
    Registrar,
    RegistrarSettings,
)
from cometmq.codec.bodies.topic_config import TopicTable
from cometmq.codec.headers.nameserver import BrokerIdentity
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import ConnectionLost
from cometmq.model.topic import TopicConfig
from cometmq.steps.runner import REST_SECONDS, KeptMachine
from tests.support.hand_world import HandWorld
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

    def __init__(self, count: int = 1, **settings: bool) -> None:
        self.world = HandWorld()
        self.nameservers = HandNameservers(self.world)
        names = [f"t{number}" for number in range(count)]
        self.table = TopicTable(DataVersion(1, 1), {name: TopicConfig(name) for name in names})
        self.registrar = Registrar(
            ["one", "two"],
            BrokerIdentity("broker-a", "127.0.0.1:10911", "DefaultCluster", 0),
            lambda: self.table,
            ha_address="127.0.0.1:10912",
            ask=self.nameservers,
            timers=self.world,
            settings=RegistrarSettings(**settings),
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


def test_it_registers_everywhere_and_leaves_those_that_are_up():
    bench = Bench()
    bench.nameservers.down = {"two"}
    bench.started().start.get()
    assert [call.address for call in bench.nameservers.calls] == ["one", "two"]
    assert bench.nameservers.calls[0].fields["haServerAddr"] == "127.0.0.1:10912"
    bench.world.run(bench.registrar.leave())
    assert bench.nameservers.codes("one") == [REGISTER, LEAVE]
    assert bench.nameservers.codes("two") == [REGISTER]


def test_a_start_waits_for_a_nameserver_until_its_time_is_over():
    bench = Bench()
    bench.nameservers.silent = {"two"}
    bench.started()
    bench.world.pass_time(23.9)
    assert not bench.start.is_over
    bench.world.pass_time(0.2)
    bench.start.get()


def test_each_period_it_tells_again_and_one_that_is_down_each_three_seconds():
    bench = Bench()
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


def test_a_nameserver_that_refuses_is_not_up():
    bench = Bench()
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
def test_a_change_waits_for_the_answers_of_those_that_are_up_and_not_for_ever(limit):
    bench = Bench()
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


def test_a_step_that_fails_ends_its_round_and_no_machine(monkeypatch, caplog):
    bench = Bench()
    monkeypatch.setattr(registrar_module, "make_body", lambda *_, **__: 1 / 0)
    bench.started().start.get()
    assert "ZeroDivisionError" in caplog.text
    monkeypatch.undo()
    bench.world.pass_time(REST_SECONDS + 1)
    assert bench.nameservers.codes("one") == [REGISTER]
