"""The official Python client of RocketMQ 5 against `cometmq up --grpc`: real processes on both sides."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cometmq import Admin
from cometmq.model.group import GroupConfig
from tests.interop.clients import Result, results_in
from tests.support.command_line import Running, run
from tests.support.processes import free_port
from tests.support.programs import run_program, small_cluster

SCENES = (
    "normal", "fifo", "delay", "recall", "transaction", "change", "void", "push", "push_in_order", "missing",
)  # fmt: skip
TYPES = {
    "fifo": "FIFO", "push_in_order": "FIFO", "delay": "DELAY", "recall": "DELAY", "transaction": "TRANSACTION",
}  # fmt: skip
_SCENES = Path(__file__).with_name("grpc_scenes.py")
_SECONDS = 100


def make_places(admin: Admin) -> None:
    """Make topic and group of each scene but the one whose topic is missing."""
    for scene in set(SCENES) - {"missing"}:
        topic, kind = f"py_{scene}", TYPES.get(scene, "NORMAL")
        admin.topics.create(topic, queues=2, attributes={"message.type": kind})
        admin.groups.create(GroupConfig(topic, orderly=kind == "FIFO"))


def play(address: str, home: Path) -> dict[str, Result]:
    """What the client reports on all scenes, which it plays at once."""
    # The client writes its log to its home.
    done = run_program(
        sys.executable,
        _SCENES,
        address,
        "py",
        *SCENES,
        seconds=_SECONDS,
        env={"HOME": str(home)},
    )
    return results_in(done.stdout)


def play_over_a_kill(address: str, home: Path, kill: Callable[[], object]) -> None:
    """Let the client send and consume, kill something meanwhile, and check that nothing is lost."""
    scene = subprocess.Popen(
        [sys.executable, str(_SCENES), address, "py", "over_a_kill"],
        stdout=subprocess.PIPE,
        env={**os.environ, "HOME": str(home)},
    )
    with scene:
        assert scene.stdout is not None
        assert scene.stdout.readline() == b"ready\n"
        kill()
        assert scene.stdout.read() == b"ok over_a_kill\n"


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


@pytest.fixture(scope="module")
def reports(tmp_path_factory) -> Iterator[dict[str, Result]]:
    """What the client reports on its scenes; run once, all at a time."""
    folder = tmp_path_factory.mktemp("grpc")
    with GrpcCluster(folder) as cluster:
        with Admin(cluster.nameserver) as admin:
            make_places(admin)
        cluster.command(
            "cluster", "set", "broker-a", "transactionTimeOut=1000",
            "transactionCheckInterval=1000", "recallMessageEnable=true",
        )  # fmt: skip
        yield play(cluster.grpc, folder)


@pytest.mark.parametrize("scene", SCENES)
def test_the_python_client_finds_what_it_expects(reports, scene):
    result = reports.get(scene)
    assert result is not None, f"{scene} did not report"
    assert result.passed, result.detail


def test_clients_go_on_after_a_kill_of_their_broker_and_lose_nothing(tmp_path):
    port = free_port()
    with small_cluster(tmp_path, grpcServerPort=port) as (names, broker):
        with Admin(names.address) as admin:
            admin.topics.create("py_over_a_kill", queues=2)

        def kill() -> None:
            broker.kill()
            broker.start()

        play_over_a_kill(f"127.0.0.1:{port}", tmp_path, kill)
