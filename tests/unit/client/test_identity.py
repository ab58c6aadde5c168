"""Who a client is."""

import random

import pytest

from cometmq.client.connection.instance import ClientInstance
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
