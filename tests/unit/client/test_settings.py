"""Which nameservers a client asks."""

import pytest

from cometmq.client.settings import ConsumerSettings, nameserver_addresses
from cometmq.model.errors import SettingsError


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


@pytest.mark.parametrize("text", ["localhost", "a:b", ":9876", ";"])
def test_an_address_without_a_port_is_refused_by_name(text):
    with pytest.raises(SettingsError, match="host:port"):
        nameserver_addresses(text)


def test_a_broadcasting_group_finds_its_file_again():
    settings = ConsumerSettings(offsets_folder="/o", instance_name="me")
    assert str(settings.offsets_path("10.0.0.1", "g")) == "/o/10.0.0.1@me/g/offsets.json"
    home = ConsumerSettings().offsets_path("10.0.0.1", "g")
    assert home.parts[-4:] == (".rocketmq_offsets", "10.0.0.1@DEFAULT", "g", "offsets.json")
