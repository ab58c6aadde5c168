"""Who has a broker's place, as nameservers see it, and what a master and a slave make of it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from cometmq.broker.registration.group_watch import OLD_PERIOD_SECONDS, Fence, GroupWatch
from cometmq.codec.bodies.cluster import encode_member_group
from cometmq.codec.headers.nameserver import BrokerIdentity
from cometmq.codec.remoting import Command
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import ConnectionLost
from cometmq.model.route import BrokerData
from cometmq.steps.runner import KeptMachine
from cometmq.store.running_flags import RunningFlag, RunningFlags
from tests.support.hand_world import HandWorld

OWN, OTHER = "127.0.0.1:1", "127.0.0.2:1"


class Bench:
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
    bench = Bench(**answers)
    assert bench.is_fenced == is_fenced


def test_what_only_the_old_master_has_is_said_and_it_goes_on_once_it_is_the_master_again(
    caplog,
):
    bench = Bench(one=OWN)
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
    bench = Bench(one=OWN, two=OTHER)
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
    bench = Bench(is_slave=True, one=OTHER, two="")
    assert bench.watch.other_master() == (OTHER, "one")
    bench.later(one=None)
    assert bench.watch.other_master() is None


def test_a_slave_without_a_master_registers_once_there_is_one_and_asks_nobody_while_it_copies():
    bench = Bench(is_slave=True, one="")
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
    bench = Bench(is_slave=True, one=int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED))
    bench.later()
    assert bench.registered == ["one", "one"]
