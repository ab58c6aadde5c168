"""`cometmq up --brokers N` and `--members N`: processes, which start, end, come back and are fewer as their pages say."""

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.support.command_line import Running, run
from tests.support.processes import broker_port, free_port, wait_until

# Around the ports of three brokers, 10 apart.
BESIDE = [distance + 10 * index for index in range(3) for distance in (-2, -1, 0, 1)]
PORTS = ("--nameserver-port", "0", "--broker-port", "0")


class Cluster(Running):
    """`cometmq up` in a folder, when it says that it is up."""

    def __init__(
        self, folder: Path, brokers: int, *ports: str, option: str = "--brokers"
    ) -> None:
        self.data = folder / "data"
        super().__init__(
            folder, "up", "--data", str(self.data), "--no-dashboard",
            option, str(brokers), *(ports or PORTS), nameserver=None,
        )  # fmt: skip

    def __enter__(self) -> "Cluster":
        try:
            # A busy machine takes its time to start so many processes.
            self.wait_for("Ctrl-C stops", path=self.err, seconds=90)
        except BaseException:
            self.__exit__()
            raise
        self.nameserver = self.said(r"nameserver +(\S+)")
        return self

    def said(self, pattern: str) -> str:
        return self.wait_for(pattern, path=self.err)[1]

    def run(self, *arguments: str) -> bytes:
        done = run(*arguments, nameserver=self.nameserver)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def send(self, broker: str, body: str) -> None:
        self.run("send", "orders", body, "--broker", broker, "--queue", "0")

    def bodies(self, count: int) -> set[str]:
        found = self.run(
            "tail", "orders", "--from", "earliest", "--limit", str(count), "--json"
        )
        return {orjson.loads(line)["body"] for line in found.splitlines()}

    def pid(self, letter: str) -> int:
        """The process of a broker, as it wrote it into its store."""
        store = self.data / ("store" if letter == "a" else f"store-{letter}")
        return int((store / "abort").read_text())


def is_running(pid: int) -> bool:
    """Whether a process runs that is no child of ours; one that has ended may still wait for its new parent."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("two"), 2) as made:
        made.run("topic", "create", "orders", "--queues", "2")
        yield made


def test_two_brokers_are_one_cluster_of_two_processes(cluster):
    brokers = orjson.loads(cluster.run("cluster", "list", "--json"))
    assert {(each["cluster"], each["broker"], each["state"]) for each in brokers} == {
        ("DefaultCluster", "broker-a", "up"),
        ("DefaultCluster", "broker-b", "up"),
    }
    # The addresses of the welcome are those of the routes.
    said = {cluster.said(rf"{each['broker']} +(\S+)") for each in brokers}
    assert said == {each["address"] for each in brokers}
    pids = {cluster.process.pid, cluster.pid("a"), cluster.pid("b")}
    assert len(pids) == 3


def test_a_topic_is_created_on_both_and_its_messages_go_to_both(cluster):
    [topic] = orjson.loads(cluster.run("topic", "list", "--json"))
    assert (topic["topic"], topic["queues"]) == ("orders", 4)
    assert topic["brokers"] == ["broker-a", "broker-b"]
    for broker in topic["brokers"]:
        cluster.send(broker, f"at {broker}")
    assert cluster.bodies(2) == {"at broker-a", "at broker-b"}


def test_a_killed_broker_is_reported_and_its_messages_are_back_when_it_is(tmp_path):
    with Cluster(tmp_path, 2) as first:
        first.run("topic", "create", "orders", "--queues", "1")
        for broker in ("broker-a", "broker-b"):
            first.send(broker, f"kept by {broker}")
        os.kill(first.pid("b"), signal.SIGKILL)
        first.said(r"(broker-b was killed by SIGKILL)")
        command = first.said(r"\n  (cometmq broker --broker-name broker-b .*)\n")
        assert "broker-b" in first.said(r"its log, (\S+):\n(?:    .*\n)*    .*boot success")
        first.send("broker-a", "while b is away")
        # The printed command, in another terminal; its port is free again.
        again = subprocess.Popen(
            [sys.executable, "-m", "cometmq.cli", *shlex.split(command)[1:]],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_until(
                lambda: run(
                    "send", "orders", "back", "--broker", "broker-b", "--queue", "0",
                    nameserver=first.nameserver,
                ).returncode == 0,
                seconds=30, what="broker-b is back",
            )  # fmt: skip
        finally:
            again.terminate()
            assert again.wait(30) == 0
        assert first.end() == 3
        text = first.err.read_text()
        assert (
            f"error: broker-b was killed by SIGKILL; the messages are in {first.data}" in text
        )
        assert "Traceback" not in text
    everything = {"kept by broker-a", "kept by broker-b", "while b is away", "back"}
    with Cluster(tmp_path, 2) as second:
        assert second.bodies(4) == everything
        assert second.end(signal.SIGTERM) == 0
        assert "Stopped cleanly" in second.err.read_text()
    for store in ("store", "store-b"):  # Stopped in order, and free.
        assert not (second.data / store / "abort").exists()
    check_fewer(tmp_path)


def check_fewer(folder: Path) -> None:
    """With one broker broker-a has its messages, and it is said whose are not served."""
    with Cluster(folder, 1) as one:
        warned = re.sub(r"\s+", " ", one.said(r"(broker-b does not run[^.]*\.)"))
        assert f"the messages in {one.data}/store-b are not served; --brokers 2" in warned
        assert one.bodies(2) == {"kept by broker-a", "while b is away"}
        assert one.end() == 0


def members(cluster: Cluster) -> dict[str, dict[str, object]]:
    """The members of a group, by id."""
    done = run("cluster", "replicas", "--json", nameserver=cluster.nameserver)
    return {line["member"]: line for line in orjson.loads(done.stdout)}


def states(cluster: Cluster) -> list[str]:
    return sorted(str(line["state"]) for line in members(cluster).values())


def is_whole(cluster: Cluster) -> bool:
    return states(cluster) == ["copying", "copying", "master"]


def test_three_members_are_a_group_that_survives_its_leader(tmp_path):
    ports = (
        "--nameserver-port", str(free_port()), "--broker-port", str(free_port(beside=BESIDE)),
    )  # fmt: skip
    with Cluster(tmp_path, 3, *ports, option="--members") as up:
        wait_until(lambda: is_whole(up), seconds=60, what="three members")
        for name, line in members(up).items():
            assert up.said(rf"{name} +(\S+)") == line["address"]
        up.run("topic", "create", "orders", "--queues", "1")
        up.send("broker-a", "before")
        [leader] = [name for name, each in members(up).items() if each["role"] == "leader"]
        os.kill(int((up.data / f"store-{leader}" / "abort").read_text()), signal.SIGKILL)
        up.said(rf"({leader} was killed by SIGKILL; the other brokers continue)")
        up.said("(the group has one copy less)")
        wait_until(lambda: "master" in states(up), seconds=60, what="another leader")
        up.send("broker-a", "after")
        command = up.said(r"\n  (cometmq broker --broker-name broker-a .*)\n")
        # The printed command, in another terminal.
        again = subprocess.Popen(
            [sys.executable, "-m", "cometmq.cli", *shlex.split(command)[1:]],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            wait_until(lambda: is_whole(up), seconds=60, what="three members again")
        finally:
            again.terminate()
            assert again.wait(30) == 0
        assert up.end() == 3
    with Cluster(tmp_path, 1) as one:
        warned = re.sub(r"\s+", " ", one.said(r"(the group that elects[^.]*\.)"))
        assert f"the messages in {one.data}/store-n0 are not served; --members 3" in warned
        assert one.end() == 0
    with Cluster(tmp_path, 3, *ports, option="--members") as second:
        warned = re.sub(r"\s+", " ", second.said(r"(broker-a does not run[^.]*\.)"))
        assert "--brokers 1 serves them, in place of --members" in warned
        assert second.bodies(2) == {"before", "after"}
        assert second.end(signal.SIGTERM) == 0
        assert "Stopped cleanly" in second.err.read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--members", "3", "--brokers", "2"), b"--members makes one group of brokers"),
        (("--members", "3", "--grpc"), b"--grpc serves one broker"),
        (("--members", "3", "--broker-port", "0"), b"use a --broker-port above 0"),
        (("--members", "3", "--broker-port", "65520"), b"need ports up to 65540"),
        (("--members", "2"), b"Invalid value"),
    ],
)
def test_members_that_cannot_be_are_refused(tmp_path, arguments, says):
    data = tmp_path / "data"
    done = run("up", "--data", str(data), *arguments, nameserver=None)
    assert done.returncode == 2
    assert says in done.stderr
    assert not data.exists()


def test_brokers_end_with_the_process_that_started_them(tmp_path):
    with Cluster(tmp_path, 2) as killed:
        pids = [killed.pid("a"), killed.pid("b")]
        killed.process.kill()
        wait_until(lambda: not any(map(is_running, pids)), seconds=30, what="their end")
        for store in ("store", "store-b"):
            assert not (killed.data / store / "abort").exists()


def test_the_last_broker_that_ends_ends_the_command(tmp_path):
    with Cluster(tmp_path, 2) as up:
        for letter in "ab":
            os.kill(up.pid(letter), signal.SIGKILL)
        assert up.process.wait(30) == 3
        assert "broker-a was killed by SIGKILL, broker-b was killed" in up.err.read_text()


def test_a_broker_that_cannot_start_is_named_with_its_reason_and_nothing_remains(tmp_path):
    port = broker_port()
    with socket.create_server(("127.0.0.1", port + 10)):
        done = run(
            "up", "--data", str(tmp_path / "data"), "--no-dashboard", "--brokers", "2",
            "--nameserver-port", str(free_port()), "--broker-port", str(port), nameserver=None,
        )  # fmt: skip
    assert done.returncode == 3
    assert re.search(
        rb"error: broker-b ended with status 3 during its start: The broker cannot start: cannot "
        rb"listen on 127\.0\.0\.1:%d.*data/broker-b\.log" % (port + 10), done.stderr
    )  # fmt: skip
    assert not (tmp_path / "data" / "store" / "abort").exists()


def test_ports_beyond_the_last_one_are_refused(tmp_path):
    done = run(
        "up", "--data", str(tmp_path / "data"), "--brokers", "3", "--broker-port", "65520",
        nameserver=None,
    )  # fmt: skip
    assert done.returncode == 2
    assert b"3 brokers from port 65520 on need ports up to 65540" in done.stderr
    assert not (tmp_path / "data").exists()
