"""How often an address may be wrong about who it is."""

from __future__ import annotations

import pytest

from cometmq.access.gate import AccessGate
from cometmq.access.login_failures import ADDRESS_FAILURES_MAX, FAILURES_MAX, LoginFailures
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


@pytest.fixture
def gate(clock):
    """A gate that knows one user, and counts failures."""
    return AccessGate(Users(account(is_super=True)), failures=LoginFailures(clock))


def said(gate, command, peer):
    try:
        gate.check(RULE, command, peer)
    except RequestError as error:
        return error.remark
    return "passed"


def test_an_access_key_that_is_guessed_from_an_address_is_not_looked_at_there_for_a_minute(
    gate, clock
):
    good, bad = signed(Command(34)), signed(Command(34), secret="another-secret")
    honest = far()
    assert said(gate, good, honest) == "passed"
    for _ in range(FAILURES_MAX):
        assert "not that of a known user" in said(gate, bad, far())
    # Right or wrong, a new connection with that key learns nothing.
    assert said(gate, good, far()) == said(gate, bad, far())
    assert "refused for one minute" in said(gate, good, far())
    # The user who has signed well goes on, and so do others.
    assert said(gate, good, honest) == "passed"
    assert said(gate, good, far(NEAR)) == "passed"
    clock.turn(61)
    assert said(gate, good, far()) == "passed"


def test_a_neighbour_with_wrong_keys_locked_out_all_who_share_its_address(gate):
    for number in range(40):
        stranger = signed(Command(34), name=f"misconfigured-{number % 4}", secret="wrong")
        assert said(gate, stranger, far()) != "passed"
    assert said(gate, signed(Command(34)), far()) == "passed"


def test_behind_one_good_signature_passwords_of_others_were_guessed_without_end():
    users = Users(account(is_super=True), account(name="root-user", is_super=True))
    gate = AccessGate(users, failures=LoginFailures(HandClock()))
    peer = far()
    assert said(gate, signed(Command(34)), peer) == "passed"
    for number in range(FAILURES_MAX):
        guess = signed(Command(34), name="root-user", secret=f"guess-{number}")
        assert "not that of a known user" in said(gate, guess, peer)
    assert "refused for one minute" in said(gate, signed(Command(34), name="root-user"), peer)
    assert said(gate, signed(Command(34)), peer) == "passed"


def test_an_unknown_key_is_counted_as_a_known_one(gate):
    def answers(name):
        return [
            said(gate, signed(Command(34), name=name, secret="wrong"), far())
            for _ in range(2 * FAILURES_MAX)
        ]

    assert answers("nobody-at-all") == answers(account().name)


def test_one_that_tries_many_names_is_stopped_as_well():
    failures = LoginFailures(HandClock())
    for number in range(ADDRESS_FAILURES_MAX):
        assert not failures.is_too_many(FAR, f"name-{number}")
        failures.note(FAR, f"name-{number}")
    assert failures.is_too_many(FAR, "another")
    assert not failures.is_too_many(NEAR, "another")


def test_the_own_machine_is_not_counted_and_memory_is_bounded(clock):
    failures = LoginFailures(clock)
    gate = AccessGate(Users(account(is_super=True)), failures=failures)
    bad = signed(Command(34), secret="another-secret")
    near = Asking(NEAR)
    near.network, near.has_signed = "this machine", False
    for _ in range(20):
        assert "not that of a known user" in said(gate, bad, near)
    for number in range(40_000):
        failures.note(f"address {number}", "n" * 30_000)
    assert len(failures._counts) == 20_000
