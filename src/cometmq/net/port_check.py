"""Checks before a start whether the ports of a program are free; each is only bound for a moment."""

import contextlib
import errno
import socket
from collections.abc import Sequence

from cometmq.model.address import PortClaim
from cometmq.model.text import error_text


def port_problems(claims: Sequence[PortClaim]) -> list[tuple[PortClaim, str]]:
    """Bind all ports at once and release them; return those that cannot be bound, each with a sentence that names it.

    Two claims of one port fail like a port that another program has.
    """
    problems = []
    with contextlib.ExitStack() as bound:
        for claim in claims:
            try:
                _bind(bound, claim)
            except OSError as error:
                problems.append((claim, f"{claim.key}={claim.port}: {_why(claim, error)}"))
    return problems


def _bind(bound: contextlib.ExitStack, claim: PortClaim) -> None:
    """Listen on a port as `net.tcp_network` and `net.door` do, until `bound` ends."""
    family, kind, protocol, _, address = socket.getaddrinfo(
        claim.host, claim.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    taken = bound.enter_context(socket.socket(family, kind, protocol))
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    taken.bind(address)
    taken.listen(1)


def _why(claim: PortClaim, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"the port is taken on {claim.host}; stop the program that listens there, which may be this one, or write "
            "another port"
        )
    if error.errno == errno.EADDRNOTAVAIL:
        return f"{claim.host} is not an address of this machine; write one that it has"
    if error.errno == errno.EACCES:
        return "only root may listen on this port; write a port above 1023"
    return f"{claim.host} cannot be listened on: {error_text(error)}"
