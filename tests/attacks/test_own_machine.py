"""Administration is taken from this machine, by whatever of its addresses, and from no other one."""

from __future__ import annotations

import pytest

from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.other_machine import OtherMachine

UPDATE_BROKER_CONFIG, BROKER_RUNTIME_INFO, WIPE_WRITE_PERM, NAMESERVER_CONFIG = 25, 28, 205, 319
NO_PERMISSION = 16


@pytest.fixture(scope="module")
def other():
    with OtherMachine() as machine:
        yield machine


def code(address: str, request: int, **fields: str) -> int:
    with Stranger(address) as peer:
        return peer.ask(request, fields).code


def test_with_brokerip1_alone_its_own_machine_administrates(tmp_path, other):
    settings = {"brokerIP1": other.here}
    program = processes.broker(tmp_path, "", settings=settings, host=other.here)
    with program:
        assert code(program.address, BROKER_RUNTIME_INFO) == 0
        assert other.call(lambda: code(program.address, BROKER_RUNTIME_INFO)) == NO_PERMISSION


@pytest.mark.parametrize("bind", ["0.0.0.0", "::"])
def test_a_broker_that_listens_everywhere_is_administrated_from_here(tmp_path, other, bind):
    with processes.broker(tmp_path, "", settings={"bindAddress": bind}) as program:
        outer = f"{other.here}:{program.port}"
        assert code(program.address, BROKER_RUNTIME_INFO) == 0
        assert code(outer, BROKER_RUNTIME_INFO) == 0
        assert other.call(lambda: code(outer, BROKER_RUNTIME_INFO)) == NO_PERMISSION


def test_a_nameserver_that_listens_everywhere_is_administrated_from_here(tmp_path, other):
    with processes.nameserver(tmp_path, bindAddress="::") as program:
        outer = f"{other.here}:{program.port}"
        for address in (program.address, outer):
            assert code(address, WIPE_WRITE_PERM, brokerName="b") == 0
            assert code(address, NAMESERVER_CONFIG) == 0
        assert other.call(lambda: code(outer, WIPE_WRITE_PERM, brokerName="b")) == NO_PERMISSION
        # Its settings are told to nobody else.
        assert other.call(lambda: code(outer, NAMESERVER_CONFIG)) == NO_PERMISSION
