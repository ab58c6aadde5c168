"""Minimal HTTP/1.1 server for GET and HEAD requests, with limits on what a client can make it hold.

Each connection serves one request at most and is closed after the answer. The number of connections (`net.door`), the
size of a request's head, the time until it has arrived, and the time until the answer is read are limited. Request
bodies are ignored. `h11` parses the protocol. The pages are for monitoring: no files, no forms, no secrets.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from http import HTTPStatus
from typing import cast

from h11 import NEED_DATA, SERVER, Connection, Data, RemoteProtocolError, Request, Response

from cometmq.model.address import is_ip, is_loopback, without_brackets
from cometmq.model.clock import Clock
from cometmq.model.frozen import dataclass
from cometmq.model.text import printable
from cometmq.net.connections import Bounds, ServedProtocol
from cometmq.net.door import Door

_log = logging.getLogger(__name__)

# A newcomer replaces a connection without a complete request at once: its head is short, and comes again.
BOUNDS = Bounds(count_max=16, unspoken_seconds=0.0, spoken_seconds=0.0)
HEAD_SIZE_MAX = 8 << 10
HEAD_SECONDS_MAX = 5.0
ANSWER_SECONDS_MAX = 30.0
_PLAIN = "text/plain; charset=utf-8"
_GET, _HEAD = b"GET", b"HEAD"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer of an HTTP page.

    Attributes:
        pieces: The body in pieces, in order.
        status: HTTP status code.
        content_type: Media type of the body.
        headers: Additional headers; they replace the usual ones of the same spelling.
    """

    pieces: Sequence[bytes] = ()
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = _PLAIN
    headers: Mapping[str, str] = field(default_factory=dict)


Page = Callable[[], Awaitable[HttpAnswer]]


def words(text: str, status: HTTPStatus = HTTPStatus.OK) -> HttpAnswer:
    """Return an `HttpAnswer` of plain text, with a line end appended."""
    return HttpAnswer((f"{text}\n".encode(),), status)


class HttpServer(Door):
    """An HTTP server of monitoring pages (GET and HEAD only) on one address.

    Attributes:
        port: Port that it listens on; 0 before `start`.
        is_local: Whether the host passed to `start` is "localhost" or a loopback IP; False before.
    """

    def __init__(
        self,
        pages: Mapping[str, Page],
        clock: Clock,
        *,
        bounds: Bounds = BOUNDS,
        head_seconds_max: float = HEAD_SECONDS_MAX,
        answer_seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> None:
        """Serve `pages`, which are keyed by their path, for example "/metrics"."""
        super().__init__(lambda _: HttpPeer(self), clock, name="metrics port", bounds=bounds)
        self.port = 0
        self.is_local = False
        self.pages = pages
        self.head_seconds_max = head_seconds_max
        self.answer_seconds_max = answer_seconds_max

    async def start(self, host: str, port: int) -> int:
        """Listen on an address and return the port, a free one if `port` is 0; raise NetError as `Door.start` does."""
        self.is_local = is_loopback(host)
        self.port = await super().start(host, port)
        return self.port


class HttpPeer(ServedProtocol):
    """A client's connection to an `HttpServer`: reads the head of one request, writes the answer and closes."""

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._http = Connection(SERVER, max_incomplete_event_size=HEAD_SIZE_MAX)
        self._head_room = HEAD_SIZE_MAX + 1
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self._is_asked = False
        self.has_read = False

    @property
    def is_busy(self) -> bool:
        """Whether the request's head is complete or was found invalid."""
        return self._is_asked

    # --- callbacks of asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit for the head of the HTTP request."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop has its own class.
        self._abort_after(self._server.head_seconds_max)

    def data_received(self, data: bytes) -> None:
        """Parse a part of the request's head; once it is complete or invalid, begin to answer and ignore the rest."""
        self.has_read = True
        if self._is_asked:
            return
        self._http.receive_data(data[: self._head_room])
        self._head_room -= len(data)
        asked: Request | RemoteProtocolError
        try:
            event = self._http.next_event()
            if event is NEED_DATA:
                return
            assert isinstance(event, Request)
            asked = event
        except RemoteProtocolError as error:
            asked = error
        self._is_asked = True
        assert self._transport is not None
        self._transport.pause_reading()
        self._abort_after(self._server.answer_seconds_max)
        self._server.tasks.spawn(self._answer(asked), "answer")

    def eof_received(self) -> bool:
        """Return True, which keeps a half-closed connection open for the answer, if the head is complete or invalid."""
        return self._is_asked

    def pause_writing(self) -> None:
        """Pause writing the answer, because the client reads too slowly."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """Resume writing, because the client has read."""
        self._may_write.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Cancel the timer and remove the connection from the server, because it is closed."""
        if self._timer is not None:
            self._timer.cancel()
        self._may_write.set()
        self._server.forget(self)

    def abort(self) -> None:
        """Close the connection immediately, if it has a transport."""
        if self._transport is not None:
            self._transport.abort()

    def _abort_after(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_later(seconds, self.abort)

    # --- the answer

    async def _answer(self, asked: Request | RemoteProtocolError) -> None:
        answer = await self._page(asked)
        head = {
            "Content-Type": answer.content_type,
            "Content-Length": str(sum(len(piece) for piece in answer.pieces)),
            "Connection": "close",
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            **answer.headers,
        }
        status = answer.status
        await self._write(
            Response(status_code=status, headers=[*head.items()], reason=status.phrase)
        )
        is_head = isinstance(asked, Request) and asked.method == _HEAD
        for piece in () if is_head else answer.pieces:
            await self._write(Data(data=piece))
        if self._transport is not None:
            self._transport.close()

    async def _write(self, event: Response | Data) -> None:
        await self._may_write.wait()
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(self._http.send(event) or b"")

    async def _page(self, asked: Request | RemoteProtocolError) -> HttpAnswer:
        if isinstance(asked, RemoteProtocolError):
            status = HTTPStatus(asked.error_status_hint)
            if status == HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE:
                return words(
                    f"the head of the request has more than {HEAD_SIZE_MAX} bytes", status
                )
            return words("this is not a valid HTTP/1.1 request", status)
        if not asked.target.startswith(b"/"):
            return words("this is not a valid HTTP/1.1 request", HTTPStatus.BAD_REQUEST)
        if asked.method not in (_GET, _HEAD):
            refusal = words("only GET and HEAD are supported", HTTPStatus.METHOD_NOT_ALLOWED)
            return replace(refusal, headers={"Allow": "GET, HEAD"})
        if self._server.is_local and _is_strange(asked):
            return words(
                "this address serves only this machine, so the Host header must be localhost or an IP address, not an "
                "internet host (protection against pages of other sites)",
                HTTPStatus.MISDIRECTED_REQUEST,
            )
        return await self._found(asked.target.partition(b"?")[0].decode("latin-1"))

    async def _found(self, path: str) -> HttpAnswer:
        page = self._server.pages.get(path)
        if page is None:
            known = ", ".join(self._server.pages)
            return words(
                f"there is no page {printable(path[:80])}; the pages are {known}",
                HTTPStatus.NOT_FOUND,
            )
        try:
            return await page()
        except Exception:  # noqa: BLE001  A failing page must not affect others.
            _log.exception("the page %s cannot be created", path)
            return words(
                "the page cannot be created; the log of the program has the reason",
                HTTPStatus.INTERNAL_SERVER_ERROR,
            )


def _is_strange(asked: Request) -> bool:
    """Return whether the Host header has a name with a dot (no IP or `.localhost`), as in a DNS rebinding attack."""
    host = next((value for name, value in asked.headers if name == b"host"), b"")
    name = host.decode("latin-1").lower()
    if name.rpartition(":")[2].isdecimal():
        name = name.rpartition(":")[0]
    name = without_brackets(name).rstrip(".")
    return "." in name and not (name.endswith(".localhost") or is_ip(name))
