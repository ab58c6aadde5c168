"""Copies that are no good: `cometmq cluster replicas` ends with 1, and `cometmq doctor` says why and what to do."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from cometmq import Admin, Message, Producer
from cometmq.model.errors import BrokerNotFound
from cometmq.model.exit_status import ExitStatus
from tests.support import processes
from tests.support.command_line import run
from tests.support.processes import Program, wait_until
from tests.support.programs import halted

TOPIC = "orders"


@pytest.fixture
def names(tmp_path):
    with processes.nameserver(tmp_path) as program:
        yield program.address


def member(folder: Path, names: str, role: str, **settings: object) -> Program:
    number = 0 if role != "SLAVE" else 1
    return processes.broker(
        folder, names, settings={"brokerRole": role, "brokerId": number, **settings}
    )


def fill(names: str, *, size: int = 100, count: int = 20) -> None:
    with Producer(names) as producer:
        for _ in range(count):
            producer.send(Message(TOPIC, os.urandom(size)))


def lines(names: str) -> dict[str, dict[str, object]]:
    """The lines of `cluster replicas` by address, once its status says that one is no good."""
    done = run("cluster", "replicas", "--json", nameserver=names)
    return (
        {line["address"]: line for line in json.loads(done.stdout)}
        if done.returncode == ExitStatus.FOUND
        else {}
    )


def finding(names: str, address: str, state: str, error: str) -> dict[str, str]:
    """The doctor's finding about a copy, whose line has this state and error."""

    def is_shown() -> bool:
        line: Mapping[str, object] = lines(names).get(address, {})
        return line.get("state") == state and error in str(line.get("error"))

    wait_until(is_shown, seconds=40, what=f"{state}: {error} of {address}")
    done = run("doctor", "--json", nameserver=names)
    assert done.returncode == ExitStatus.FOUND
    [found] = [
        each
        for each in json.loads(done.stdout)
        if each["check"] == "replica" and error in each["text"]
    ]
    assert found["severity"] == "bad"
    assert found["advice"]
    return found


def test_a_copy_without_tables_is_a_finding(tmp_path, names):
    """It copies the log; no nameserver of its own names a master, so it has no topics and groups."""
    with (
        processes.nameserver(tmp_path / "other") as other,
        member(tmp_path / "m", names, "ASYNC_MASTER", haAllowedAddresses="127.0.0.1") as master,
        member(
            tmp_path / "s",
            other.address,
            "SLAVE",
            haMasterAddress=f"127.0.0.1:{master.port + 1}",
        ) as slave,
    ):
        fill(names)
        both = f"{names};{other.address}"
        found = finding(both, slave.address, "copying", "no nameserver has a master")
        assert "not replicated" in found["text"]


def test_a_copy_that_never_arrives_is_a_finding(tmp_path, names):
    rate = {"haFlowControlEnable": "true", "maxHaTransferByteInSecond": 20_000}
    with member(
        tmp_path / "m", names, "ASYNC_MASTER", haMaxGapNotInSync=1 << 20, **rate
    ) as master:
        fill(names, size=400_000, count=10)
        with member(tmp_path / "s", names, "SLAVE") as slave:
            found = finding(names, slave.address, "late", "it lacks")
            assert "bytes" in found["text"]
            assert "maxHaTransferByteInSecond" in found["advice"]
        assert master.address


def test_two_slaves_of_one_id_are_a_finding_with_both_addresses(tmp_path, names):
    with (
        member(tmp_path / "m", names, "ASYNC_MASTER") as master,
        member(tmp_path / "one", names, "SLAVE") as one,
        member(tmp_path / "two", names, "SLAVE") as two,
    ):
        fill(names)
        found = finding(names, one.address, "rival", "two brokers run with brokerId=1")
        assert one.address in found["text"]
        assert two.address in found["text"]
        wait_until(
            lambda: "two slaves have brokerId=1" in master.log.read_text(),
            seconds=20,
            what="the line at the master",
        )
        # Only a slave that the nameserver lists can become the master.
        with Admin(names) as admin:
            owner = admin.brokers.cluster().brokers["broker-a"].addresses[1]
            [listed] = [each for each in (one, two) if each.address == owner]
            assert admin.brokers.promotion("broker-a").address == owner
            with (
                halted(listed),
                pytest.raises(BrokerNotFound, match="broker-a: no slave answers"),
            ):
                admin.brokers.promotion("broker-a")


def test_a_slave_that_is_there_before_its_master_has_it_within_seconds(tmp_path, names):
    with member(tmp_path / "s", names, "SLAVE") as slave:
        wait_until(
            lambda: "not copied from the master" in slave.log.read_text(),
            seconds=20,
            what="the line that there is no master",
        )
        with member(tmp_path / "m", names, "SYNC_MASTER"):
            wait_until(
                lambda: "are copied from the master" in slave.log.read_text(),
                seconds=15,  # It registers each 30 s.
                what="the copy",
            )
            with Producer(names) as producer:
                assert producer.send(Message(TOPIC, b"at both")).status == "SEND_OK"
