"""Where servers listen in a container, as somebody on another machine finds them; the container is a network namespace.

The marks of Kubernetes and Podman are made here; `test_deploy_image.py` has Docker's, in a root file system of its own.
"""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from cometmq.model.codes import RequestCode, ResponseCode
from tests.attacks.stranger import Stranger
from tests.support import processes
from tests.support.other_machine import OtherMachine
from tests.support.processes import Program, answers

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
# A /run with Podman's mark, for this program alone.
PODMAN = (
    "unshare",
    "--mount",
    "sh",
    "-euc",
    'mount -t tmpfs none /run; touch /run/.containerenv; exec "$@"',
    "sh",
)
ELSEWHERE = "203.0.113.7"  # Kept for documents (RFC 5737): no interface has it.
SHUT = "listening on loopback only, 127.0.0.1: other machines cannot connect, even through a published port"


@pytest.fixture(scope="module")
def inside():
    """The network of a container, with a cable to this machine."""
    with OtherMachine() as other:
        yield other


@contextmanager
def running(
    program: Program,
    inside: OtherMachine,
    *,
    env: Mapping[str, str],
    before: tuple[str, ...] = (),
) -> Iterator[str]:
    """Run a program in the container, until it has booted; what its log says."""
    program.command = inside.command([*before, *program.command])
    program.env |= env
    # Whether it is reached from here is the question, so only its log says that it runs.
    program.came_up = program.has_booted  # type: ignore[method-assign]
    with program:
        yield program.log.read_text()


def broker(folder: Path, **settings: object) -> Program:
    """A broker that finds its address itself."""
    return processes.broker(folder, "", settings={"bindAddress": None, **settings})


def nameserver(folder: Path) -> Program:
    """A nameserver that finds its address itself."""
    return processes.nameserver(folder, bindAddress=None)


def test_a_broker_in_kubernetes_is_reached_and_registers_its_address(tmp_path, inside):
    program = broker(tmp_path)
    with running(program, inside, env=POD) as said:
        assert (
            "this is a Kubernetes container (KUBERNETES_SERVICE_HOST) with a network of its own"
            in said
        )
        assert "LISTENING ON 0.0.0.0" in said
        # There is no way to other networks here, by which it could learn its address.
        assert f"[broker-a, {inside.there}:{program.port}] boot success" in said
        address = f"{inside.there}:{program.port}"
        fields = {"topic": "greetings", "queueId": "0"}
        with Stranger(address) as peer:
            assert (
                peer.ask(RequestCode.GET_MAX_OFFSET, fields).code != ResponseCode.NO_PERMISSION
            )
            assert (
                peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO).code == ResponseCode.NO_PERMISSION
            )
        # A sidecar would come from there, too.
        assert inside.call(lambda: administrates(address)) is False
        assert inside.call(lambda: administrates(f"127.0.0.1:{program.port}")) is False


def administrates(address: str) -> bool:
    with Stranger(address) as peer:
        return peer.ask(RequestCode.GET_BROKER_RUNTIME_INFO).code == 0


def test_a_nameserver_in_kubernetes_is_reached(tmp_path, inside):
    program = nameserver(tmp_path)
    with running(program, inside, env=POD) as said:
        assert (
            "This is a Kubernetes container (KUBERNETES_SERVICE_HOST) with a network of its own"
            in said
        )
        assert (
            f"Listening on 0.0.0.0:{program.port} for every machine that can reach it" in said
        )
        with Stranger(f"{inside.there}:{program.port}") as peer:
            assert peer.ask(RequestCode.GET_BROKER_CLUSTER_INFO).code == 0
            assert peer.ask(RequestCode.GET_NAMESRV_CONFIG).code == ResponseCode.NO_PERMISSION


def test_the_broker_conf_of_docker_files_is_reached_through_a_published_port(tmp_path, inside):
    program = broker(tmp_path, brokerIP1="127.0.0.1")
    with running(program, inside, env={}, before=PODMAN) as said:
        assert "this is a Podman container (/run/.containerenv)" in said
        assert f"[broker-a, 127.0.0.1:{program.port}] boot success" in said
        assert answers(program.port, inside.there)


@pytest.mark.parametrize("kind", ["broker", "nameserver"])
def test_who_binds_an_address_has_that_one(tmp_path, inside, kind):
    """As the programs of all other tests do, which may themselves run in a container."""
    program = (
        processes.broker(tmp_path, "") if kind == "broker" else processes.nameserver(tmp_path)
    )
    assert "bindAddress=127.0.0.1\n" in Path(program.command[-1]).read_text()
    with running(program, inside, env=POD) as said:
        assert "container" not in said
        assert not answers(program.port, inside.there)
        assert inside.call(lambda: answers(program.port))


def test_in_the_network_of_a_machine_with_containers_nothing_is_opened(tmp_path):
    with OtherMachine() as machine:
        subprocess.run(
            machine.command(["ip", "link", "add", "docker0", "type", "bridge"]), check=True
        )
        program = broker(tmp_path)
        with running(program, machine, env=POD) as said:
            assert SHUT in said
            assert not answers(program.port, machine.there)


@pytest.mark.parametrize("kind", ["broker", "nameserver"])
def test_in_the_network_of_this_machine_nothing_is_opened(tmp_path, kind):
    """`docker run --network host`: the mark is there, and the network is not the container's."""
    if not Path("/proc/sys/net/core/netdev_max_backlog").exists():
        pytest.skip("this machine is itself a container with a network of its own")
    program = broker(tmp_path) if kind == "broker" else nameserver(tmp_path)
    program.env |= POD
    with OtherMachine() as other, program:
        assert other.call(lambda: answers(program.port, other.here)) is False
        assert SHUT.lower().partition(",")[0] in program.log.read_text().lower()
        assert "write bindAddress=0.0.0.0 to listen on all addresses" in program.log.read_text()
