"""A container is one with a network of its own, by what the kernel shows; who shares the machine's is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from cometmq.process.containers import container_with_own_network

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
