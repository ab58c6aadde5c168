"""How often an address may be wrong about who it is."""

from __future__ import annotations

from cometmq.access.gate import AccessGate
from cometmq.access.login_failures import FAILURES_MAX, LoginFailures
from cometmq.broker import requests as broker
from cometmq.codec.remoting import Command
from cometmq.model.errors import RequestError
from tests.support.hand_clock import HandClock
from tests.unit.access.test_rights_table import FAR, NEAR, Asking, Users, account, signed

RULE = next(rule for rule in broker.RULES if rule.code == 34)


def far(ip=FAR):
    peer = Asking(ip, is_on_own_machine=False)
    peer.network, peer.has_signed = ip, False
    return peer


def said(gate, command, peer):
    try:
        gate.check(RULE, command, peer)
    except RequestError as error:
        return error.remark
    return "passed"


def test_an_address_that_guesses_is_not_looked_at_for_a_minute_and_others_are():
    clock = HandClock()
    gate = AccessGate(Users(account(is_super=True)), failures=LoginFailures(clock))
    good, bad = signed(Command(34)), signed(Command(34), secret="another-secret")
    honest = far()
    assert said(gate, good, honest) == "passed"
    for _ in range(FAILURES_MAX):
        assert "no known user" in said(gate, bad, far())
    # Right or wrong, a new connection of it learns nothing.
    assert said(gate, good, far()) == said(gate, bad, far())
    assert "not looked at" in said(gate, good, far())
    # Who has signed well goes on, and so do others.
    assert said(gate, good, honest) == "passed"
    assert said(gate, good, far(NEAR)) == "passed"
    clock.turn(61)
    assert said(gate, good, far()) == "passed"


def test_the_own_machine_is_not_counted_and_memory_is_bounded():
    clock = HandClock()
    failures = LoginFailures(clock)
    gate = AccessGate(Users(account(is_super=True)), failures=failures)
    bad = signed(Command(34), secret="another-secret")
    near = Asking(NEAR)
    near.network, near.has_signed = "this machine", False
    for _ in range(20):
        assert "no known user" in said(gate, bad, near)
    for number in range(20_000):
        failures.note(f"address {number}")
    assert len(failures._of_address) == 10_000
