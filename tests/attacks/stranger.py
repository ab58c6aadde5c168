"""A peer that does as it likes: raw frames on plain sockets, nothing of our client in it."""

import json
import socket
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

from cometmq.model.credentials import Credentials
from cometmq.model.flags import RESPONSE
from tests.support.auth_users import signed
from tests.support.frames import json_frame, parts_of, read_frame


class Answered(NamedTuple):
    """An answer: its code, its remark, its fields, its body, the request's number; or a request of the server's."""

    code: int
    remark: str
    fields: dict[str, str]
    body: bytes
    opaque: int
    is_answer: bool = True


class Stranger:
    """One connection of a bad peer; `source` is the address of this machine that it comes from."""

    def __init__(self, address: str, *, seconds: float = 60, source: str = "") -> None:
        host, port = address.rsplit(":", 1)
        self.socket = socket.create_connection(
            (host, int(port)), timeout=seconds, source_address=(source, 0) if source else None
        )
        self._opaque = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(
        self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b""
    ) -> int:
        """Send a request and do not wait; its number."""
        self._opaque += 1
        self.socket.sendall(json_frame(code, fields, body, opaque=self._opaque))
        return self._opaque

    def read(self) -> Answered:
        """The next answer, whosever it is, or the next request."""
        _, header, body = parts_of(read_frame(self.socket))
        values: dict[str, Any] = json.loads(header)
        return Answered(
            values["code"],
            values.get("remark") or "",
            values.get("extFields") or {},
            body,
            values["opaque"],
            values["flag"] & RESPONSE != 0,
        )

    def ask(
        self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b""
    ) -> Answered:
        """Send a request and wait for its answer; requests of the broker's meanwhile are passed over."""
        opaque = self.send(code, fields, body)
        while not (answer := self.read()).is_answer or answer.opaque != opaque:
            pass
        return answer

    def ask_as(
        self,
        who: Credentials | None,
        code: int,
        fields: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> Answered:
        """Send a request as a user signs it, None: unsigned, and wait for its answer."""
        return self.ask(code, signed(who, code, fields, body), body)
