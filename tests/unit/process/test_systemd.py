"""systemd is notified at the socket that it names, of either kind, and not at all without one."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path

import pytest

from cometmq.process.containers import container_with_own_network
from cometmq.process.systemd import notify, ping_watchdog


@pytest.fixture(params=["path", "abstract"])
def systemd(request, tmp_path, monkeypatch):
    """The socket at which systemd would receive, of both kinds of name."""
    name = f"{tmp_path}/notify" if request.param == "path" else f"@cometmq-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as inlet:
        inlet.settimeout(10)
        inlet.bind(name.replace("@", "\0", 1))
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        yield inlet


def test_a_state_arrives(systemd):
    notify("READY=1")
    notify("STOPPING=1")
    assert [systemd.recv(100), systemd.recv(100)] == [b"READY=1", b"STOPPING=1"]


def test_without_systemd_nothing_is_sent(monkeypatch, caplog):
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    notify("READY=1")
    assert caplog.text == ""


def test_a_socket_that_is_gone_is_a_warning(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    notify("READY=1")
    assert "systemd cannot be notified of READY=1" in caplog.text


@pytest.mark.threads
async def test_the_watchdog_is_pinged_twice_in_its_time(systemd, monkeypatch):
    monkeypatch.setenv("WATCHDOG_USEC", "40000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    pinging = asyncio.ensure_future(ping_watchdog())
    pings = [await asyncio.to_thread(systemd.recv, 100) for _ in range(3)]
    pinging.cancel()
    assert pings == [b"WATCHDOG=1"] * 3


@pytest.mark.parametrize(
    ("microseconds", "pid"), [("", ""), ("0", ""), ("x", ""), ("40000", "1")]
)
async def test_without_a_watchdog_of_this_process_nothing_is_pinged(
    systemd, monkeypatch, microseconds, pid
):
    monkeypatch.setenv("WATCHDOG_USEC", microseconds)
    monkeypatch.setenv("WATCHDOG_PID", pid or str(os.getpid()))
    await asyncio.wait_for(ping_watchdog(), 10)
    systemd.setblocking(False)
    with pytest.raises(BlockingIOError):
        systemd.recv(100)


POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1"}
# What /proc/sys/net/core has in the first network namespace of a machine, and in each other one (Linux 6.1).
FIRST = ("netdev_max_backlog", "rmem_max", "somaxconn")
OWN = ("optmem_max", "somaxconn", "txrehash")


def root(
    path: Path, *marks: str, limits: tuple[str, ...] = OWN, interfaces: tuple[str, ...] = ()
) -> Path:
    """A root directory with marks of containers, limits of a network, and interfaces."""
    for name in (
        *marks,
        *(f"proc/sys/net/core/{limit}" for limit in limits),
        *(f"sys/class/net/{interface}" for interface in ("eth0/address", *interfaces)),
    ):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).touch()
    return path


@pytest.mark.parametrize(
    ("marks", "environment", "kind", "is_certain"),
    [
        ([".dockerenv"], {}, "Docker", True),
        (["run/.containerenv"], {}, "Podman", False),
        ([], POD, "Kubernetes", False),
        # The one that is less certain counts: Kubernetes on Docker, Podman that imitates Docker.
        ([".dockerenv"], POD, "Kubernetes", False),
        ([".dockerenv", "run/.containerenv"], {}, "Podman", False),
    ],
)
def test_a_container_is_known_by_its_mark(tmp_path, marks, environment, kind, is_certain):
    found = container_with_own_network(root(tmp_path, *marks), environment)
    assert found is not None
    assert (found.kind, found.is_own_machine_certain) == (kind, is_certain)


@pytest.mark.parametrize("environment", [{}, {"KUBERNETES_SERVICE_HOST": ""}])
def test_a_network_without_a_mark_is_none(tmp_path, environment):
    assert container_with_own_network(root(tmp_path), environment) is None


@pytest.mark.parametrize("environment", [{}, POD])
def test_a_container_in_the_network_of_its_machine_is_none(tmp_path, environment):
    shared = root(tmp_path, ".dockerenv", "run/.containerenv", limits=FIRST)
    assert container_with_own_network(shared, environment) is None


def test_a_container_in_the_network_of_a_guest_with_containers_is_none(tmp_path):
    guest = root(tmp_path, ".dockerenv", interfaces=("docker0/bridge/bridge_id",))
    assert container_with_own_network(guest, {}) is None


@pytest.mark.parametrize("limits", [(), ("optmem_max",)])
def test_where_the_network_cannot_be_seen_it_is_none(tmp_path, limits):
    assert container_with_own_network(root(tmp_path, ".dockerenv", limits=limits), {}) is None
