"""The listeners of a broker, with what a good peer says at each: one set of attacks is for all of them."""

import contextlib
import re
import socket
from collections.abc import Callable
from dataclasses import dataclass

from cometmq.codec.replication import MAGIC, REPORT
from cometmq.model.codes import RequestCode
from tests.support.frames import json_frame
from tests.support.processes import Program

CONNECTIONS_MAX = 300
# Of a broker that has all of them.
LISTENING = {"connectionsMax": CONNECTIONS_MAX, "haAllowedAddresses": "127.0.0.0/8"}


@dataclass(frozen=True)
class Listener:
    """One of them.

    Attributes:
        most: how many connections it holds.
        port: its port.
        hello: what a good peer says.
        answer: how what it is answered begins.
    """

    most: int
    port: Callable[[Program], int]
    hello: Callable[[], bytes]
    answer: bytes

    def address(self, program: Program) -> str:
        return f"127.0.0.1:{self.port(program)}"

    def is_served(self, program: Program) -> bool:
        """Whether a good peer that comes now is answered."""
        with (
            contextlib.suppress(ConnectionError),
            socket.create_connection(("127.0.0.1", self.port(program)), 20) as peer,
        ):
            peer.sendall(self.hello())
            return peer.recv(100).startswith(self.answer)
        return False


def _page_port(program: Program) -> int:
    found = re.findall(r"metrics at http://127\.0\.0\.1:(\d+)/", program.log.read_text())
    return int(found[-1])


LISTENERS = {
    "remoting": Listener(
        CONNECTIONS_MAX,
        lambda program: program.port,
        lambda: json_frame(RequestCode.GET_BROKER_RUNTIME_INFO),
        b"\0",
    ),
    "pages": Listener(
        16, _page_port, lambda: b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200"
    ),
    "replication": Listener(
        64, lambda program: program.port + 1, lambda: REPORT.pack(0) * 2, MAGIC
    ),
}
