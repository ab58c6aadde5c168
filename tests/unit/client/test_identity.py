"""Who a client is."""

import random
import socket

import pytest

from cometmq.client.hub import Hub
from cometmq.client.identity import make_client_id, make_unique_ids, own_ip
from cometmq.client.settings import ClientSettings
from cometmq.model.errors import SettingsError
from tests.support.hand_clock import HandClock


def test_two_clients_of_one_process_differ():
    chance = random.Random(1)
    ids = {make_client_id("10.0.0.1", "", chance) for _ in range(1000)}
    assert len(ids) == 1000
    assert all(each.startswith("10.0.0.1@") for each in ids)
    assert make_client_id("10.0.0.1", "me", chance).startswith("10.0.0.1@me#")


def test_on_the_way_to_this_machine_the_address_is_loopback():
    assert own_ip("127.0.0.1:9876") == "127.0.0.1"
    if socket.has_ipv6:
        assert own_ip("[::1]:9876") in ("::1", "127.0.0.1")


def test_an_address_that_leads_nowhere_is_no_error():
    assert own_ip("no-such-host.invalid:9876") == "127.0.0.1"


@pytest.mark.parametrize(("ip", "digits"), [("10.0.0.1", 32), ("fd00::2", 56)])
def test_message_ids_carry_the_address_and_differ_between_clients(ip, digits):
    first, second = (make_unique_ids(ip, HandClock(), random.Random(n)) for n in range(2))
    assert len(first.next_id()) == digits
    assert first.next_id() != second.next_id()


def test_an_ip_that_is_none_is_refused_with_its_setting():
    with pytest.raises(SettingsError, match="client_ip 'my-host'"):
        Hub("127.0.0.1:9876", ClientSettings(client_ip="my-host"))
