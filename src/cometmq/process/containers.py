"""Detects a container with a network of its own, in which loopback would make a server useless.

A server without a configured address listens on loopback, so nobody but its own machine reaches it. In a container, that
would be nobody at all: published ports and other containers connect to the container's address. Whoever runs the
container decides who can connect to that, so a server may listen there by default, but only if the network is really the
container's: one that shares its machine's network (`docker run --network host`, `hostNetwork: true`) is no different
from a program without a container. See docs/design/0067-listening-in-containers.md.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

_ROOT = Path("/")
LOOPBACK, ALL_ADDRESSES = "127.0.0.1", "0.0.0.0"  # noqa: S104  Only in a container, and logged.


class Container(NamedTuple):
    """A kind of container, as far as a server in it must know.

    Attributes:
        kind: Name of the software that runs it.
        mark: File or environment variable that shows it.
        is_own_machine_certain: Whether a peer with an address of this container is a program in it. With Podman and in
            Kubernetes, connections of others may come from such an address, too: rootless Podman forwards published ports
            from inside, and so does the sidecar of a service mesh.
    """

    kind: str
    mark: str
    is_own_machine_certain: bool


# Two marks can be there at once; the first one found counts, so those that are less certain come first.
_VARIABLES = (Container("Kubernetes", "KUBERNETES_SERVICE_HOST", is_own_machine_certain=False),)
_FILES = (
    Container("Podman", "/run/.containerenv", is_own_machine_certain=False),
    Container("Docker", "/.dockerenv", is_own_machine_certain=True),
)


def container_with_own_network(
    root: Path = _ROOT, environment: Mapping[str, str] = os.environ
) -> Container | None:
    """Return the container that this process runs in, if its network is not that of its machine; otherwise None.

    Args:
        root: The root directory; tests have their own.
        environment: Environment of the process.
    """
    found = [each for each in _VARIABLES if environment.get(each.mark)]
    found += [each for each in _FILES if os.path.lexists(root / each.mark.lstrip("/"))]
    return found[0] if found and has_own_network(root) else None


def has_own_network(root: Path = _ROOT) -> bool:
    """Return whether this process is in a network namespace other than its machine's; False if that cannot be seen.

    The kernel shows the limits of the whole machine, such as netdev_max_backlog, in its first network namespace only, and
    somaxconn in each one (net/core/sysctl_net_core.c). A bridge shows that this namespace is itself a machine for
    containers, for example an LXC guest with Docker in it.
    """
    try:
        limits = os.listdir(root / "proc/sys/net/core")  # noqa: PTH208  No other files are looked at.
        bridges = list((root / "sys/class/net").glob("*/bridge"))
    except OSError:
        return False
    return "somaxconn" in limits and "netdev_max_backlog" not in limits and not bridges


def listening_host(configured: str | None, container: Container | None) -> str:
    """Return the host to listen on: the configured one, else all addresses in a container with its own network, else loopback."""
    return configured or (ALL_ADDRESSES if container else LOOPBACK)
