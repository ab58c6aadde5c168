"""A slave is made the master while the old one hangs, and the old one comes back: one of them has the name."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cometmq import Message, Producer
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.exit_status import ExitStatus
from tests.support import processes
from tests.support.command_line import run
from tests.support.frames import ask
from tests.support.members import log_of, send_to
from tests.support.other_machine import OtherMachine
from tests.support.processes import Program, wait_until
from tests.support.programs import halted, small_cluster

TOPIC = "orders"
# A nameserver keeps a silent broker for 120 s; less than half of that is another rule.
SECONDS_MAX = 50
# The old master registers each 30 s and looks each 3 s: so long it gets the chance to take the name back.
WATCHED_SECONDS = 8.0


def settings_of(role: str, **more: object) -> dict[str, object]:
    return {"brokerRole": role, "brokerId": 1 if role == "SLAVE" else 0, **more}


def master_in_routes(nameserver: str) -> str | None:
    """The address that the topic's route has for id 0."""
    header, body = ask(nameserver, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": TOPIC})
    if header["code"] != 0:
        return None
    # Java writes ids without quotes; {0:"..."} is found by text.
    (data,) = json.loads(
        body.replace(b"{0:", b'{"0":').replace(b",1:", b',"1":').replace(b"{1:", b'{"1":')
    )["brokerDatas"]
    return data["brokerAddrs"].get("0")


def copied(folder: Path) -> bool:
    config = folder / "slave" / "store" / "config"
    # In the opposite order of writing.
    mark, topics = config / "slaveMark.json", config / "topics.json"
    if not mark.exists() or not json.loads(mark.read_text())["logEnd"]:
        return False
    if TOPIC not in topics.read_text():
        return False
    return log_of(folder / "master") == log_of(folder / "slave") != b""


def promoted(folder: Path, names: str, slave: Program, **more: object) -> Program:
    """Make the stopped slave the master, as an operator does."""
    return processes.broker(
        folder / "slave",
        names,
        port=slave.port,
        settings=settings_of("ASYNC_MASTER", **more),
        host=slave.host,
    )


def fill(names: str) -> None:
    """The first send makes the topic: administrators are taken from a broker's own machine only."""
    with Producer(names) as producer:
        for number in range(20):
            producer.send(Message(TOPIC, b"%d" % number))


def test_a_promoted_slave_has_the_name_in_seconds_and_the_old_master_that_wakes_up_takes_nothing(
    tmp_path,
):
    with (
        processes.nameserver(tmp_path) as nameserver,
        processes.broker(tmp_path / "master", nameserver.address) as old,
    ):
        names = nameserver.address
        slave = processes.broker(tmp_path / "slave", names, settings=settings_of("SLAVE"))
        with slave:
            fill(names)
            wait_until(lambda: copied(tmp_path), seconds=30, what="the copy")
            with halted(old):
                slave.stop()
                new = promoted(tmp_path, names, slave)
                new.start()
                try:
                    wait_until(
                        lambda: master_in_routes(names) == new.address,
                        seconds=SECONDS_MAX,
                        what="the route",
                    )
                    with Producer(names) as producer:
                        producer.send(Message(TOPIC, b"to the new one"))
                except BaseException:
                    new.stop()
                    raise
            with new:
                is_left_alone(names, old, new)


def is_left_alone(names: str, old: Program, new: Program) -> None:
    """The old master runs again: it does not get the name, and takes no message."""

    def refused() -> str:
        code, remark = send_to(old.address)
        return remark if code == ResponseCode.SERVICE_NOT_AVAILABLE else ""

    remark = wait_until(refused, seconds=SECONDS_MAX, what="the refusal of the old master")
    assert new.address in remark
    assert "two masters of broker-a" in old.log.read_text()
    until = time.monotonic() + WATCHED_SECONDS
    while time.monotonic() < until:
        assert master_in_routes(names) == new.address
        assert send_to(old.address)[0] == ResponseCode.SERVICE_NOT_AVAILABLE
        time.sleep(0.2)
    assert send_to(new.address)[0] == 0
    is_found(names, old, new)


def is_found(names: str, old: Program, new: Program) -> None:
    """Operators are told of both."""
    done = run("doctor", "--json", nameserver=names)
    assert done.returncode == ExitStatus.FOUND
    texts = [each["text"] for each in json.loads(done.stdout) if each["check"] == "replica"]
    assert (
        f"two brokers run as the master of broker-a: {new.address} and {old.address}" in texts
    )
    done = run("cluster", "replicas", "--json", nameserver=names)
    assert done.returncode == ExitStatus.FOUND
    states = {each["address"]: each["state"] for each in json.loads(done.stdout)}
    assert states[old.address] == "rival"


@contextmanager
def pair_of_two_hosts(
    folder: Path,
) -> Iterator[tuple[str, Program, Program, dict[str, object]]]:
    """The nameserver's address, a master on another host, its slave here that has all, and settings of this host."""
    with OtherMachine() as other:
        nameserver = processes.nameserver(folder, bindAddress=other.here)
        nameserver.host = other.here
        there: dict[str, object] = {"bindAddress": other.there, "brokerIP1": other.there}
        here: dict[str, object] = {"bindAddress": other.here, "brokerIP1": other.here}
        with nameserver:
            names = nameserver.address
            old = processes.broker(
                folder / "master",
                names,
                settings=settings_of("ASYNC_MASTER", **there),
                host=other.there,
            )
            slave = processes.broker(
                folder / "slave", names, settings=settings_of("SLAVE", **here), host=other.here
            )
            other.call(old.start)
            with old, slave:
                fill(names)
                wait_until(lambda: copied(folder), seconds=30, what="the copy")
                yield names, old, slave, here


def test_on_another_host_the_promoted_slave_has_the_name_once_the_old_master_does_not_answer(
    tmp_path,
):
    with pair_of_two_hosts(tmp_path) as (names, old, slave, here):
        with halted(old):
            slave.stop()
            new = promoted(tmp_path, names, slave, **here)
            new.start()
        with new:
            assert master_in_routes(names) == new.address
            is_left_alone(names, old, new)


def test_a_living_master_on_another_host_keeps_its_name_and_the_promoted_slave_takes_nothing(
    tmp_path,
):
    """Both run and answer: the one in the routes goes on, and the other one says so and refuses."""
    with pair_of_two_hosts(tmp_path) as (names, old, slave, here):
        slave.stop()
        new = promoted(tmp_path, names, slave, **here)
        new.is_ready = new.has_booted
        with new:
            is_left_alone(names, new, old)
            new.stop()
            assert send_to(old.address)[0] == 0


def test_two_that_run_as_masters_of_one_name_on_one_host_do_not_take_turns(tmp_path):
    """Both have the same epoch: the one that registered last has the name, and keeps it."""
    with small_cluster(tmp_path) as (nameserver, old):
        names = nameserver.address
        fill(names)
        with processes.broker(tmp_path / "two", names) as new:
            fill(names)
            is_left_alone(names, old, new)
