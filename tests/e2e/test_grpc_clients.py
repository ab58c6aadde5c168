"""The official Python client of RocketMQ 5 against `cometmq up --grpc`: real processes on both sides."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cometmq import Admin
from tests.support.command_line import Running, run
from tests.support.processes import free_port
from tests.support.programs import run_program, small_cluster

_SCENES = Path(__file__).with_name("grpc_scenes.py")
_SECONDS = 100


class GrpcCluster(Running):
    """`cometmq up --grpc` in a folder, when it says that it is up."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        super().__init__(
            folder, "up", "--data", str(folder / "data"), "--no-dashboard", "--grpc",
            "--grpc-port", "0", "--nameserver-port", "0", "--broker-port", "0", nameserver=None,
        )  # fmt: skip

    def __enter__(self) -> "GrpcCluster":
        try:
            self.wait_for("Ctrl-C stops", path=self.err)
        except BaseException:
            self.__exit__()
            raise
        self.nameserver = self.wait_for(r"nameserver +(\S+)", path=self.err)[1]
        self.grpc = self.wait_for(r"gRPC +(\S+)", path=self.err)[1]
        return self

    def command(self, *arguments: str) -> bytes:
        done = run(*arguments, nameserver=self.nameserver)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def scene(self, name: str) -> list[dict]:
        """Run a scene of the official client in a process of its own; what it said."""
        home = {"HOME": str(self.folder)}  # The client writes its log there.
        done = run_program(sys.executable, _SCENES, name, self.grpc, seconds=_SECONDS, env=home)
        return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[GrpcCluster]:
    with GrpcCluster(tmp_path_factory.mktemp("grpc")) as made:
        for topic in ("greetings", "pushed", "changed"):
            made.command("topic", "create", topic, "--queues", "2")
        for topic, kind in (
            ("steps", "FIFO"),
            ("marches", "FIFO"),
            ("later", "DELAY"),
            ("payments", "TRANSACTION"),
        ):
            made.command("topic", "create", topic, "--attribute", f"message.type={kind}")
        for group in ("walkers", "marchers"):
            made.command("group", "create", group, "--orderly")
        made.command(
            "cluster", "set", "broker-a", "transactionTimeOut=1000",
            "transactionCheckInterval=1000", "recallMessageEnable=true",
        )  # fmt: skip
        yield made


def test_messages_are_sent_received_and_acknowledged(cluster):
    said = cluster.scene("send_and_receive")
    sent, got, again = said[:3], said[3:6], said[6]
    assert sorted(each["body"] for each in got) == ["hello 0", "hello 1", "hello 2"]
    assert {each["id"] for each in got} == {each["sent"] for each in sent}
    for each in got:
        assert (each["tag"], each["keys"], each["attempt"]) == ("blue", ["k1"], 1)
        assert each["properties"] == {"colour": "green"}
        assert not each["corrupted"]
    assert again == {"again": []}


def test_a_push_consumer_gets_each_message_once_and_a_failed_one_again(cluster):
    [said] = cluster.scene("push")
    once = [[str(number), 1] for number in range(20)]
    assert said["seen"] == sorted([*once, ["7", 2]])


def test_messages_of_a_group_are_received_in_order(cluster):
    assert cluster.scene("fifo") == [{"bodies": list("012345")}]


def test_a_timed_message_comes_when_it_is_due_unless_it_was_recalled(cluster):
    said = cluster.scene("delay")
    assert said == [
        {"handle": True}, {"recalled": True}, {"body": "kept", "early": False}, {"again": []},
    ]  # fmt: skip


def test_transactions_are_committed_rolled_back_and_recovered(cluster):
    said = cluster.scene("transactions")
    assert {"asked": "orphaned"} in said
    assert sorted(said[-1]["bodies"]) == ["committed", "orphaned"]


def test_a_handle_is_void_after_a_change_of_its_time(cluster):
    said = cluster.scene("change")
    assert said[:2] == [{"changed": True}, {"body": "once more", "attempt": 2}]
    assert said[2]["code"] == 40013
    assert said[3] == {"again": []}


def test_a_missing_topic_is_named(cluster):
    [said] = cluster.scene("wrong")
    assert "missing" in said["refused"]


def test_a_push_consumer_in_order_tries_a_failed_message_again_before_the_next(cluster):
    [said] = cluster.scene("push_in_order")
    of_a = [each for each in said["seen"] if each[0].startswith("a")]
    of_b = [each for each in said["seen"] if each[0].startswith("b")]
    assert of_a == [
        ["a0", True], ["a1", True], ["a2", False], ["a2", True], ["a3", True], ["a4", True],
    ]  # fmt: skip
    assert of_b == [[f"b{number}", True] for number in range(5)]


def test_clients_go_on_after_a_kill_of_their_broker_and_lose_nothing(tmp_path):
    port = free_port()
    with small_cluster(tmp_path, grpcServerPort=port) as (names, broker):
        with Admin(names.address) as admin:
            admin.topics.create("pushed", queues=2)
        scene = subprocess.Popen(
            [sys.executable, str(_SCENES), "push_over_a_kill", f"127.0.0.1:{port}"],
            stdout=subprocess.PIPE,
            env={**os.environ, "HOME": str(tmp_path)},
        )
        with scene:
            assert scene.stdout is not None
            assert json.loads(scene.stdout.readline()) == {"ready": True}
            broker.kill()
            broker.start()
            said = json.loads(scene.stdout.readline())
    assert said == {"sent": 200, "lost": []}
