"""S4, S6 and S12 at a Java broker of 5.3.3, where they succeed: the same deeds that our servers withstand prove something."""

import contextlib

import pytest

from tests.attacks import holes
from tests.interop import reference
from tests.support.load import send_all
from tests.support.processes import broker_port

CANARY = b"canary-in-the-log-91d0"
pytestmark = [pytest.mark.java, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def java(tmp_path_factory):
    """A master that waits for a slave; its address and that of its HA port."""
    folder = tmp_path_factory.mktemp("java")
    names = reference.nameserver(folder / "nameserver").start()
    port = broker_port()
    settings = {"brokerRole": "SYNC_MASTER", "inSyncReplicas": "2"}
    broker = reference.broker(folder / "broker", names.address, port=port, settings=settings)
    try:
        broker.start()
        reference.wait_registered(names.address)
        yield broker.address, f"127.0.0.1:{port + 1}"
    finally:
        with contextlib.suppress(AssertionError):
            broker.kill()
        names.kill()


def test_s4_succeeds_at_java(java):
    assert holes.settings_without_login(java[0]) == [0, 0]


def test_s6_succeeds_at_java(java):
    address, ha_address = java
    # SLAVE_NOT_AVAILABLE or FLUSH_SLAVE_TIMEOUT, but it is in the log.
    assert send_all(address, "Secret", [CANARY]) in ([11], [12])
    assert CANARY in holes.bytes_of_the_log(ha_address, CANARY)
    assert holes.send_with_a_fake_slave(address, ha_address, "Secret") == 0


def test_s12_succeeds_at_java(java):
    assert holes.insides_in_errors(java[0])
