"""What a gate lets pass as bytes: signed sends of who asked last, and nothing that it would refuse as a command."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq import kernel
from cometmq.access.accounts import PERMISSIONS, Account
from cometmq.access.auth_users import AuthUser
from cometmq.access.gate import AccessGate
from cometmq.access.policies import read_policies
from cometmq.broker.requests import RULES
from cometmq.codec.remoting import Command, decode_command
from cometmq.codec.signer import Signer
from cometmq.kernel import QueueEnd, SendBatch, take_sends
from cometmq.model.credentials import Credentials
from cometmq.model.errors import RequestError
from cometmq.net.requests import RequestTable
from tests.support.lane_tables import table_of
from tests.support.send_frames import Sent, frame_of, in_words, item_of
from tests.unit.access.test_rights_table import Asking, Users

pytestmark = pytest.mark.compiled
CODES = (10, 310, 320)
SENDS = {int(rule.code): rule for rule in RULES if rule.code in CODES}
SEND = SENDS[310]
PUB = PERMISSIONS["PUB"]
SENDER = Credentials("the-sender", "secret-of-sender")
BOSS = Credentials("the-boss", "secret-of-boss")
STRANGER = Credentials("a-stranger", "secret-of-stranger")
OWN = Account("the-sender", b"secret-of-sender", topics={"Orders": PUB, "Bills": PUB})
ALL = Account("the-boss", b"secret-of-boss", is_super=True)
QUEUES = {0: QueueEnd(0)}
FIELDS = {
    "a": "p",
    "b": "Orders",
    "e": "0",
    "f": "0",
    "g": "1",
    "h": "0",
    "i": "UNIQ_KEY\1A1\2",
}


def send(
    who: Credentials, topic: str = "Orders", *, body: bytes = b"body", code: int = 310
) -> bytes:
    if code == 320:
        body = item_of(body, 0, "", (0, 0, 0))
    sent = Sent(code, 0, 1, {**FIELDS, "b": topic}, body)
    if code == 10:
        sent = in_words(sent)
    fields = Signer(who).signed(Command(code, fields=sent.fields, body=body)).fields
    return frame_of(sent._replace(fields=fields), "json")


def asked(gate: AccessGate, who: Credentials | None, *, topic: str = "Orders") -> Any:
    """A connection on which somebody has asked something already."""
    peer: Any = Asking()
    if who is not None:
        command = Signer(who).signed(Command(310, fields={**FIELDS, "b": topic}, body=b"x"))
        gate.check(SEND, command, peer)
    return peer


class Taking:
    """A batch handler that takes sends to any topic and does nothing with them."""

    judged = codes = frozenset(CODES)

    def __init__(self) -> None:
        self.intake = self
        self.passed_over: list[bytes] = []
        self.batch: Any = SendBatch(b"")
        topics = ["Orders", "Bills", "Secret", "%RETRY%group", *(f"T{n}" for n in range(300))]
        self.straight = table_of(kernel, dict.fromkeys(topics, QUEUES))

    @property
    def count(self) -> int:
        return int(self.batch.request_count)

    def take(
        self, data: bytes, position: int, _peer: Any, count_max: int, signer: Any = None
    ) -> int:
        limits = 1 << 20, 1 << 24, 1 << 16, 9
        return take_sends(
            self.batch, data, position, count_max, b"hosthost", self.straight, limits, signer
        )

    def show(self, taker: object) -> None:
        """It shows nothing to others."""

    def handle(self, reads: Any = None) -> None:
        """Nothing is done."""

    def written(self) -> None:
        """Nobody is told."""


def passing(gate: AccessGate, data: bytes, peer: Any, count_max: int = 99) -> int:
    """How many sends an intake behind the gate takes."""
    taking = Taking()
    intake = RequestTable(SENDS.values(), [dict.fromkeys(SENDS, taking)], gate).intake
    assert intake is not None
    end = intake.take(data, 0, peer, count_max)
    assert intake.count == taking.count
    assert bool(end) == bool(taking.count)
    return taking.count


@pytest.fixture
def gate() -> AccessGate:
    return AccessGate(Users(OWN, ALL))


def test_who_has_signed_sends_on_as_bytes_and_others_do_not(gate):
    data = send(SENDER) * 3
    assert passing(gate, data, asked(gate, None)) == 0
    peer = asked(gate, SENDER)
    assert passing(gate, data, peer) == 3
    assert passing(gate, data, peer, 2) == 2
    assert passing(gate, send(SENDER) + send(BOSS) + send(SENDER), peer) == 1
    assert passing(gate, send(STRANGER), peer) == 0
    assert passing(gate, send(SENDER, body=b"body")[:-1] + b"Y", peer) == 0


def test_to_topics_without_a_right_nothing_passes_but_for_an_administrator(gate):
    data = send(SENDER) + send(SENDER, "Secret") + send(SENDER)
    assert passing(gate, data, asked(gate, SENDER)) == 1
    assert passing(gate, data[len(send(SENDER)) :], asked(gate, SENDER)) == 0
    assert passing(gate, send(SENDER) + send(SENDER, "Bills"), asked(gate, SENDER)) == 2
    assert passing(gate, send(BOSS, "Secret") * 2, asked(gate, BOSS)) == 2


@pytest.mark.parametrize(
    "left",
    [
        Users(ALL),
        Users(Account("the-sender", b"another secret", topics={"Orders": PUB}), ALL),
        Users(Account("the-sender", b"secret-of-sender"), ALL),
        Users(Account("the-sender", b"secret-of-sender", topics={"Orders": PUB}, is_enabled=False)),
    ],
    ids=["gone", "other secret", "no right", "disabled"],
)  # fmt: skip
def test_users_that_change_count_at_once(left):
    users = Users(OWN, ALL)
    gate = AccessGate(users)
    peer = asked(gate, SENDER)
    assert passing(gate, send(SENDER), peer) == 1
    users.current = left.current
    assert passing(gate, send(SENDER), peer) == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from([SENDER, SENDER, BOSS, STRANGER, Credentials("the-sender", "wrong")]),
            st.sampled_from(["Orders", "Bills", "Secret", "%RETRY%group", ""]),
            st.integers(0, 800),
            st.sampled_from([b"", b"", b"", b"x", b'"']),
            st.sampled_from(CODES),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([SENDER, BOSS]),
)  # fmt: skip
def test_nothing_passes_as_bytes_that_would_be_refused_as_a_command(sends, who):
    gate = AccessGate(Users(OWN, ALL))
    frames = []
    for by, topic, at, garbage, code in sends:
        whole = bytearray(send(by, topic, code=code))
        if garbage:
            whole[8 + at % (len(whole) - 8)] = garbage[0]
        frames.append(bytes(whole))
    peer = asked(gate, who)
    for frame in frames[: passing(gate, b"".join(frames), peer)]:
        size = int.from_bytes(frame[4:8])
        fresh: Any = Asking()
        command = decode_command(0, frame[8 : 8 + size], frame[8 + size :])
        try:
            gate.check(SENDS[command[0]], command, fresh)
        except RequestError as error:
            raise AssertionError(frame) from error


def test_an_intake_takes_what_passes_of_all_three_kinds_and_no_more(gate):
    data = send(SENDER, code=10) + send(SENDER, code=320) + send(STRANGER) + send(SENDER)
    assert passing(gate, data, asked(gate, SENDER)) == 2
    assert passing(gate, data, asked(gate, None)) == 0


def test_what_is_remembered_of_topics_and_of_users_is_bounded(gate):
    data = b"".join(send(BOSS, f"T{number}") for number in range(300))
    peer = asked(gate, BOSS)
    assert passing(gate, data, peer, 999) == 300
    first = gate.signer_of(peer)
    assert first is not None
    assert 0 < len(first.topics) <= 256
    assert gate.signer_of(peer) is first
    for number in range(300):
        peer.ip = f"10.0.{number // 256}.{number % 256}"
        assert passing(gate, send(BOSS), peer) == 1
    peer.ip = "127.0.0.1"
    assert gate.signer_of(peer) is not first


def test_what_a_user_may_do_from_one_address_he_may_not_from_another():
    inside = read_policies([{"policyType": "Custom", "entries": [{
        "resource": "Topic:Orders", "actions": ["Pub"], "sourceIps": ["10.0.0.0/8"], "decision": "Allow",
    }]}])  # fmt: skip
    gate = AccessGate(Users(AuthUser("the-sender", b"secret-of-sender", policies=inside)))
    peer: Any = Asking()
    peer.ip = "10.1.1.1"
    gate.check(SEND, Signer(SENDER).signed(Command(310, fields=FIELDS, body=b"x")), peer)
    assert passing(gate, send(SENDER), peer) == 1
    peer.ip = "192.168.1.1"
    assert passing(gate, send(SENDER), peer) == 0


def test_a_signer_remembered_a_topic_of_any_length():
    gate = AccessGate(Users(ALL))
    peer = asked(gate, BOSS)
    signer = gate.signer_of(peer)
    assert signer is not None
    assert gate.may_send([SEND], b"Orders", signer, peer)
    assert not gate.may_send([SEND], b"t" * 256, signer, peer)
    assert signer.topics == {b"Orders"}
