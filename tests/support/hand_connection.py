"""A connection of a door without a socket."""

from types import SimpleNamespace
from typing import Any

from cometmq.net.connections import OpenConnection


def connection_from(ip: str = "127.0.0.1", port: int = 4321) -> OpenConnection:
    """A connection that has just come from there to this machine."""
    accepted: Any = SimpleNamespace(remote=(ip, port), local_ip="127.0.0.1", number=5)
    return OpenConnection(accepted)
