"""A master, its slave and a nameserver as programs: what the slave has, answers and gives back."""

import json
import os
import time
from pathlib import Path

import pytest

from cometmq import Admin, Message, MessageQueue, Producer, PullConsumer, PullConsumerSettings
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import CometError
from cometmq.model.exit_status import ExitStatus
from cometmq.model.group import GroupConfig
from tests.support import processes
from tests.support.command_line import Running, run
from tests.support.frames import ask
from tests.support.members import end_of, log_of
from tests.support.processes import Program, wait_until

TOPIC, GROUP = "orders", "reports"
QUEUE = MessageQueue(TOPIC, "broker-a", 0)
COUNT = 300


@pytest.fixture
def names(tmp_path):
    with processes.nameserver(tmp_path) as program:
        yield program.address


@pytest.fixture
def master(tmp_path, names):
    with processes.broker(tmp_path / "master", names) as program:
        yield program


def slave_of(folder: Path, names: str, **settings: object) -> Program:
    role = {"brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": "true", **settings}
    return processes.broker(folder / "slave", names, settings=role)


def fill(names: str) -> None:
    with Admin(names) as admin:
        admin.topics.create(TOPIC, queues=1)
        admin.groups.create(GroupConfig(GROUP))
    with Producer(names) as producer:
        for number in range(COUNT):
            producer.send(Message(TOPIC, b"%d" % number))


def replicas(names: str, *, status: ExitStatus) -> list[dict[str, object]]:
    done = run("cluster", "replicas", "--json", nameserver=names)
    assert done.returncode == status, done.stderr
    lines = json.loads(done.stdout)
    assert isinstance(lines, list)
    return lines


def replicas_alone(names: str) -> list[dict[str, object]]:
    """The master's line, once it is the only one."""
    done = run("cluster", "replicas", "--json", nameserver=names)
    lines = json.loads(done.stdout)
    assert isinstance(lines, list)
    return lines if len(lines) == 1 else []


def change(master: Program, **values: object) -> None:
    body = "".join(f"{key}={value}\n" for key, value in values.items())
    header, _ = ask(master.address, RequestCode.UPDATE_BROKER_CONFIG, body=body.encode())
    assert header["code"] == 0, header


def rates(master: Program) -> list[int]:
    """The bytes that each slave was sent in the last whole second, as its master says."""
    said = json.loads(ask(master.address, RequestCode.GET_BROKER_HA_STATUS)[1])
    return [slave["transferredByteInSecond"] for slave in said["haConnectionInfo"]]


def table(folder: Path, file: str, name: str) -> dict[str, object]:
    path = folder / "slave" / "store" / "config" / file
    return json.loads(path.read_text())[name] if path.exists() else {}


def wait_for_copy(folder: Path) -> None:
    wait_until(
        lambda: log_of(folder / "slave") == log_of(folder / "master") != b"",
        seconds=20,
        what="the same log at both",
    )
    wait_until(
        lambda: TOPIC in table(folder, "topics.json", "topicConfigTable"),
        seconds=20,
        what="the topic at the slave",
    )
    wait_until(
        lambda: GROUP in table(folder, "subscriptionGroup.json", "subscriptionGroupTable"),
        seconds=20,
        what="the group at the slave",
    )


def is_answered(consumer: PullConsumer) -> bool:
    """Whether the client has found out who answers now."""
    try:
        consumer.fetch(QUEUE, 0, max_count=1)
    except CometError:
        return False
    return True


def test_a_slave_has_what_its_master_has_and_refuses_what_is_its_masters(
    tmp_path, names, master
):
    fill(names)
    with slave_of(tmp_path, names) as slave:
        wait_for_copy(tmp_path)
        status = json.loads(ask(master.address, RequestCode.GET_BROKER_HA_STATUS)[1])
        assert status["inSyncSlaveNums"] == 1
        copied = json.loads(ask(slave.address, RequestCode.GET_BROKER_HA_STATUS)[1])
        assert copied["haClientRuntimeInfo"]["active"]
        shown = {line["id"]: line for line in replicas(names, status=ExitStatus.WELL)}
        assert shown[1]["state"] == "copying"
        assert (shown[1]["offset"], shown[1]["gap"]) == (shown[0]["offset"], 0)
        with Running(tmp_path, "cluster", "replicas", "--watch", nameserver=names) as watching:
            watching.wait_for(r"copying[\s\S]*copying")
            assert watching.end() == 0
        refusals = {
            RequestCode.SEND_MESSAGE: ResponseCode.SERVICE_NOT_AVAILABLE,
            RequestCode.END_TRANSACTION: ResponseCode.SLAVE_NOT_AVAILABLE,
            RequestCode.UPDATE_AND_CREATE_TOPIC: ResponseCode.SYSTEM_ERROR,
            RequestCode.POP_MESSAGE: ResponseCode.SERVICE_NOT_AVAILABLE,
        }
        said = {code: ask(slave.address, code)[0]["code"] for code in refusals}
        assert said == refusals
        slave.kill()
        # The nameserver hears of its end by the connection.
        (alone,) = wait_until(
            lambda: replicas_alone(names), seconds=20, what="the slave out of the list"
        )
        assert alone["state"] == "master", "an asynchronous one waits for nobody"


def test_a_consumer_goes_on_at_the_slave_and_its_offsets_come_back_to_the_master(
    tmp_path, names, master
):
    fill(names)
    settings = PullConsumerSettings(route_interval_ms=500)
    with (
        slave_of(tmp_path, names),
        PullConsumer(names, group=GROUP, settings=settings) as consumer,
    ):
        wait_for_copy(tmp_path)
        first = consumer.fetch(QUEUE, 0, max_count=32)
        consumer.commit(QUEUE, first.next_offset)
        master.kill()
        got = [message.body for message in first.messages]
        offset = first.next_offset
        wait_until(lambda: is_answered(consumer), seconds=20, what="the slave in the route")
        while len(got) < COUNT:
            pull = consumer.fetch(QUEUE, offset, max_count=32)
            got += [message.body for message in pull.messages]
            offset = pull.next_offset
        assert got == [b"%d" % number for number in range(COUNT)]
        shown = run("tail", TOPIC, "--from=earliest", f"--limit={COUNT}", nameserver=names)
        assert shown.returncode == ExitStatus.WELL, shown.stderr
        assert len(shown.stdout.splitlines()) == COUNT
        consumer.commit(QUEUE, offset)
        with processes.broker(tmp_path / "master", names, port=master.port) as again:
            wait_until(
                lambda: (
                    ask(
                        again.address,
                        RequestCode.QUERY_CONSUMER_OFFSET,
                        {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"},
                    )[0]
                    .get("extFields", {})
                    .get("offset")
                    == str(COUNT)
                ),
                seconds=20,
                what="the offset at the master",
            )


def test_tail_goes_on_at_the_slave_and_when_the_master_is_back(tmp_path, names, master):
    """One command all the while: the master dies under it, its slave is read, and the master comes back."""
    fill(names)
    with slave_of(tmp_path, names), Running(tmp_path, "tail", TOPIC, nameserver=names) as tail:
        tail.wait_for("Ctrl-C", path=tail.err)
        with Producer(names) as producer:
            producer.send(Message(TOPIC, b"before"))
        tail.wait_for("before\n")
        wait_until(
            lambda: log_of(tmp_path / "slave") == log_of(tmp_path / "master"),
            seconds=20,
            what="the message at the slave",
        )
        master.kill()
        tail.wait_for("Broker broker-a cannot be read", path=tail.err)
        tail.wait_for("Broker broker-a can be read again", path=tail.err)
        with processes.broker(tmp_path / "master", names, port=master.port):
            with Producer(names) as producer:
                producer.send(Message(TOPIC, b"after"))
            tail.wait_for("after\n")
        assert [line.split()[-1] for line in tail.out.read_text().splitlines()] == [
            "before",
            "after",
        ]
        assert tail.end() == 0
        assert "Traceback" not in tail.err.read_text()


def test_tail_waits_where_the_slave_must_not_be_read(tmp_path, names, master):
    fill(names)
    with slave_of(tmp_path, names, slaveReadEnable="false"):
        wait_for_copy(tmp_path)
        with Running(tmp_path, "tail", TOPIC, nameserver=names) as tail:
            tail.wait_for("Ctrl-C", path=tail.err)
            master.kill()
            tail.wait_for("Broker broker-a cannot be read", path=tail.err)
            wait_until(
                lambda: not processes.is_known_to(names, master.address),
                seconds=20,
                what="the master out of the routes",
            )
            with processes.broker(tmp_path / "master", names, port=master.port):
                with Producer(names) as producer:
                    producer.send(Message(TOPIC, b"after"))
                tail.wait_for("after\n")
            assert tail.end() == 0


def test_a_slave_is_made_the_master_by_hand(tmp_path, names, master):
    fill(names)
    with slave_of(tmp_path, names):
        wait_for_copy(tmp_path)
        master.kill()
    with (
        processes.broker(tmp_path / "slave", names),
        Producer(names) as producer,
        PullConsumer(names, group=GROUP) as consumer,
    ):
        producer.send(Message(TOPIC, b"new"))
        assert consumer.max_offset(QUEUE) == COUNT + 1
        pull = consumer.fetch(QUEUE, COUNT - 1)
        assert [message.body for message in pull.messages] == [b"299", b"new"]


def test_a_slave_with_an_empty_disk_gets_so_many_bytes_a_second_and_all_of_them(
    tmp_path, names, master
):
    """First next to nothing, then 2 MiB a second, which is set while it copies."""
    rate = 2 << 20
    fill(names)
    with Producer(names) as producer:
        for _ in range(8):
            producer.send(Message(TOPIC, os.urandom(1_000_000)))  # Which nothing compresses.
    change(master, haFlowControlEnable="true", maxHaTransferByteInSecond=1)
    with slave_of(tmp_path, names) as slave:
        wait_until(lambda: rates(master), seconds=20, what="the slave's connection")
        assert end_of(slave.address) == 0
        began = time.monotonic()
        change(master, maxHaTransferByteInSecond=rate)

        def is_copied() -> bool:
            assert all(seen <= rate for seen in rates(master)), "in no second more"
            return end_of(slave.address) == end_of(master.address)

        wait_until(is_copied, seconds=60, what="the whole log at the slave")
        assert time.monotonic() - began >= 8_000_000 / rate - 0.3
        wait_for_copy(tmp_path)
