"""Which nameservers a client asks, and which settings it takes."""

import dataclasses
import random
from enum import Enum

import pytest

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.settings import (
    ConsumeFrom,
    PullConsumerSettings,
    PushConsumerSettings,
    SimpleConsumerSettings,
)
from cometmq.client.identity import make_client_id, make_unique_ids, own_ip
from cometmq.client.settings import ClientSettings, ProducerSettings, nameserver_addresses
from cometmq.codec.compression import Compression
from cometmq.model.errors import SettingsError
from tests.support.hand_clock import HandClock

KINDS = (
    ClientSettings,
    ProducerSettings,
    PullConsumerSettings,
    PushConsumerSettings,
    SimpleConsumerSettings,
)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("a:1", ("a:1",)),
        ("a:1;b:2", ("a:1", "b:2")),
        (" a:1 ; b:2; ", ("a:1", "b:2")),
        ("a:1,b:2", ("a:1", "b:2")),
        ("[::1]:9876", ("[::1]:9876",)),
    ],
)
def test_addresses_are_separated_as_java_does_it(text, addresses):
    assert nameserver_addresses(text) == addresses


def test_the_environment_is_asked_before_the_default(monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert nameserver_addresses(None) == ("127.0.0.1:9876",)
    monkeypatch.setenv("NAMESRV_ADDR", "x:1;y:2")
    assert nameserver_addresses(None) == ("x:1", "y:2")
    assert nameserver_addresses("z:3") == ("z:3",)


@pytest.mark.parametrize(
    "text",
    ["localhost", "a:b", ":9876", ";", "http://x:1", "rocketmq://x:1", "a:1;b/c:2", "a b:1"],
)
def test_an_address_without_a_port_is_refused_by_name(text):
    with pytest.raises(SettingsError, match="host:port"):
        nameserver_addresses(text)


def test_a_broadcasting_group_finds_its_file_again():
    settings = PullConsumerSettings(offsets_folder="/o", instance_name="me")
    assert str(settings.offsets_path("10.0.0.1", "g")) == "/o/10.0.0.1@me/g/offsets.json"
    home = PullConsumerSettings().offsets_path("10.0.0.1", "g")
    assert home.parts[-4:] == (".rocketmq_offsets", "10.0.0.1@DEFAULT", "g", "offsets.json")


@pytest.mark.parametrize("kind", KINDS)
def test_every_number_has_bounds(kind):
    for field in dataclasses.fields(kind):
        value = field.default
        if isinstance(value, int) and not isinstance(value, bool | Enum):
            assert {"least", "most"} <= field.metadata.keys(), field.name
            for beyond in (
                field.metadata["least"] - 1,
                field.metadata["most"] + 1,
                "7",
                0.5,
                True,
            ):
                with pytest.raises(SettingsError, match=field.name):
                    kind(**{field.name: beyond})


@pytest.mark.parametrize(
    ("kind", "settings", "words"),
    [
        (PushConsumerSettings, {"concurrency": 0}, "PushConsumerSettings.concurrency is 0; .* from 1 to 10000"),
        (PushConsumerSettings, {"batch_count": -1}, "from 1 to 1024"),
        (PushConsumerSettings, {"order_key": 5, "orderly": True}, "a function, or None"),
        (PushConsumerSettings, {"order_key": str}, "None unless orderly"),
        (PushConsumerSettings, {"order_key": str, "orderly": True, "commit_by_listener": True}, "None unless"),
        (PushConsumerSettings, {"pop_delays_ms": ()}, "a tuple with at least one number"),
        (PushConsumerSettings, {"pop_delays_ms": (10, -1)}, "whose values are each"),
        (PushConsumerSettings, {"consume_from": "CONSUME_FROM_FIRST_OFFSET"}, "ConsumeFrom.FIRST"),
        (PushConsumerSettings, {"orderly": "no"}, "True or False"),
        (PushConsumerSettings, {"allocation": "averagely"}, "a function"),
        (PushConsumerSettings, {"commit_by_listener": True}, "False unless orderly"),
        (PushConsumerSettings, {"auto_commit": False}, "True; a push consumer commits"),
        (PushConsumerSettings, {"orderly": True, "lock_valid_ms": 9}, "more than lock_interval_ms"),
        (PullConsumerSettings, {"consume_timestamp_ms": -1}, "or None"),
        (SimpleConsumerSettings, {"consume_from": ConsumeFrom.TIMESTAMP}, "FIRST or LAST"),
        (ProducerSettings, {"compression": 3}, "Compression.LZ4"),
        (ProducerSettings, {"compression_level": 10}, "from -1 to 9 with ZLIB"),
        (ProducerSettings, {"send_timeout_ms": "x" * 10_000}, "(10000 characters)"),
        (ClientSettings, {"instance_name": "a\nb"}, "printable"),
        (ClientSettings, {"client_ip": "my-host"}, "not an IP address"),
        (ClientSettings, {"trace": True, "trace_topic": "a b"}, "illegal characters"),
        (ClientSettings, {"heartbeat_interval_ms": 120_000}, "to 119000"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_by_name(kind, settings, words):
    with pytest.raises(SettingsError, match=words):
        kind(**settings)


def test_levels_are_those_of_the_algorithm():
    settings = ProducerSettings(compression=Compression.ZSTD, compression_level=19)
    assert settings.compression_level == 19


def test_two_clients_of_one_process_differ():
    chance = random.Random(1)
    ids = {make_client_id("10.0.0.1", "", chance) for _ in range(1000)}
    assert len(ids) == 1000
    assert all(each.startswith("10.0.0.1@") for each in ids)
    assert make_client_id("10.0.0.1", "me", chance).startswith("10.0.0.1@me#")


async def test_where_the_loop_has_a_network_of_its_own_its_address_counts():
    assert own_ip("10.1.2.3:9876") == "127.0.0.1"


@pytest.mark.parametrize(("ip", "digits"), [("10.0.0.1", 32), ("fd00::2", 56)])
def test_message_ids_carry_the_address_and_differ_between_clients(ip, digits):
    first, second = (make_unique_ids(ip, HandClock(), random.Random(n)) for n in range(2))
    assert len(first.next_id()) == digits
    assert first.next_id() != second.next_id()


def test_an_ip_that_is_none_is_refused_with_its_setting():
    with pytest.raises(SettingsError, match="client_ip 'my-host'"):
        ClientInstance("127.0.0.1:9876", ClientSettings(client_ip="my-host"))
