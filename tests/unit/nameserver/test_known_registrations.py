"""Registrations that repeat what the nameserver knows are not decoded again; large ones are decoded in a thread."""

from __future__ import annotations

import zlib
from types import GeneratorType
from typing import Any

import pytest

from cometmq.codec.bodies import register
from cometmq.codec.bodies.register import RegisterBrokerBody, encode_registration
from cometmq.codec.fields import encode_fields
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode
from cometmq.model.settings import SettingsInForce
from cometmq.nameserver.handlers import registration
from cometmq.nameserver.handlers.registration import RegistrationHandlers
from cometmq.nameserver.kv import KvConfig
from cometmq.nameserver.routes import RouteTable
from cometmq.nameserver.settings import NameServerSettings
from cometmq.steps.on_loop import LoopWorld
from tests.support.hand_clock import HandClock
from tests.unit.nameserver.brokers import Wire, header, topics


class Nameserver:
    """The handlers of a nameserver, and how many bodies they decoded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.table = RouteTable(HandClock())
        self.decoded = 0
        self.peer = Peer()
        decode = register.decode_registration

        def counted(*args, **kwargs):
            self.decoded += 1
            return decode(*args, **kwargs)

        monkeypatch.setattr(registration, "decode_registration", counted)
        settings = SettingsInForce(NameServerSettings())
        kv = KvConfig(None, LoopWorld())
        self.handlers = RegistrationHandlers(self.table, kv, settings)

    def register(self, body: bytes, **fields):
        fields = encode_fields(header(**fields))
        command = Command(RequestCode.REGISTER_BROKER, fields=fields, body=body)
        peer: Any = self.peer
        return self.handlers.handle_register(command, peer)


class Peer(Wire):
    def __init__(self) -> None:
        super().__init__()
        self.on_close: list[object] = []
        self.is_closed = False


@pytest.fixture
async def nameserver(monkeypatch):
    return Nameserver(monkeypatch)


def body(*names: str, **more) -> bytes:
    return encode_registration(topics(*names, **more))


def test_each_broker_is_decoded_once_until_its_registration_changes(nameserver):
    for _ in range(3):
        for name in ("broker-a", "broker-b"):
            nameserver.register(body("A", "B"), address=f"{name}:1", name=name)
    assert nameserver.decoded == 2
    nameserver.register(body("A", "B", "C", counter=2), address="broker-a:1", name="broker-a")
    assert nameserver.decoded == 3
    assert set(nameserver.table.topics["C"]) == {"broker-a"}


def test_a_known_registration_brings_back_a_topic_that_was_deleted_here(nameserver):
    nameserver.register(body("A", "B"))
    nameserver.table.delete_topic("A")
    nameserver.register(body("A", "B"))
    assert (nameserver.decoded, set(nameserver.table.topics)) == (1, {"A", "B"})


def test_the_same_body_of_another_role_is_another_registration(nameserver):
    nameserver.register(body("A", "B"), broker_id=1, enable_acting_master=False)
    nameserver.register(body("A", "B"), broker_id=1, enable_acting_master=True)
    assert nameserver.decoded == 2


def test_static_topics_are_not_kept(nameserver):
    told = topics("A", "B")
    mapped = RegisterBrokerBody(told.table, (), {"A": {"bname": "broker-a", "topic": "A"}})
    for _ in range(2):
        nameserver.register(encode_registration(mapped))
    assert nameserver.decoded == 2


def test_what_is_kept_is_bounded_and_the_least_recent_leaves(nameserver, monkeypatch):
    monkeypatch.setattr(registration, "_KNOWN_BYTES_MAX", 10_000)
    for _ in range(2):
        for number in range(12):  # Two topics each take more than a kilobyte.
            name = f"broker-{number}"
            nameserver.register(body("A", "B"), address=f"{name}:1", name=name)
    assert nameserver.decoded == 24
    nameserver.register(body("A", "B"), address="broker-11:1", name="broker-11")
    assert nameserver.decoded == 24


@pytest.mark.parametrize("compressed", [True, False])
def test_a_compressed_body_is_not_inflated_on_the_loop_though_its_header_hides_it(nameserver, compressed):  # fmt: skip
    """Brokers of 5.3.3 compress the body and claim that they do not; 60 KiB may become 24 MiB."""
    bomb = zlib.compress(bytes(24 << 20))
    assert len(bomb) < registration._READ_AT_ONCE_MAX
    outcome = nameserver.register(bomb, compressed=compressed)
    assert isinstance(outcome, GeneratorType)
    assert nameserver.decoded == 0
    outcome.close()
