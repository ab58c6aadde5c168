"""A few pages for GET over HTTP/1.1, bounded in everything that who asks can send or make us hold.

One request a connection, which is closed behind its answer; whoever asks for more asks anew. What is bounded:
connections, the size of a request's head, the time until it is there, the time until its answer was taken. A request's
body is not read. The protocol is that of `h11`. Pages are those of monitoring: no file, no form, no secret.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from http import HTTPStatus
from ipaddress import ip_address
from typing import cast

from h11 import NEED_DATA, SERVER, Connection, Data, RemoteProtocolError, Request, Response

from cometmq.model.address import without_brackets
from cometmq.model.errors import NetError
from cometmq.model.frozen import dataclass
from cometmq.model.text import printable
from cometmq.net.loop import loop_network
from cometmq.net.network import Accepted, Bound
from cometmq.net.tasks import Tasks

_log = logging.getLogger(__name__)

CONNECTIONS_MAX = 16
HEAD_SIZE_MAX = 8 << 10
HEAD_SECONDS_MAX = 5.0
ANSWER_SECONDS_MAX = 30.0
_PLAIN = "text/plain; charset=utf-8"
_GET, _HEAD = b"GET", b"HEAD"


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """The answer of an HTTP page.

    Attributes:
        pieces: of the body, in their order.
        status: 200, or another of HTTP.
        content_type: of the body.
        headers: further ones.
    """

    pieces: Sequence[bytes] = ()
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = _PLAIN
    headers: Mapping[str, str] = field(default_factory=dict)


Page = Callable[[], Awaitable[HttpAnswer]]


def words(text: str, status: HTTPStatus = HTTPStatus.OK) -> HttpAnswer:
    """A page that is a few words."""
    return HttpAnswer((f"{text}\n".encode(),), status)


class HttpServer:
    """An address where pages are given.

    Attributes:
        port: where it listens; 0 before it does.
        is_local: whether only this machine reaches it.
    """

    def __init__(
        self,
        pages: Mapping[str, Page],
        *,
        connections_max: int = CONNECTIONS_MAX,
        head_seconds_max: float = HEAD_SECONDS_MAX,
        answer_seconds_max: float = ANSWER_SECONDS_MAX,
    ) -> None:
        """`pages` by their path, "/metrics" for one."""
        self.port = 0
        self.is_local = False
        self.pages = pages
        self.head_seconds_max = head_seconds_max
        self.answer_seconds_max = answer_seconds_max
        self.tasks = Tasks("http")
        self._connections_max = connections_max
        self._connections: dict[HttpPeer, None] = {}  # The oldest first.
        self._bound: Bound | None = None

    def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes any that is free.

        Raises:
            NetError: the address cannot be listened on; the message says which and why.
        """
        try:
            self._bound = loop_network().bind(host, port)
        except OSError as error:
            reason = error.strerror or error
            raise NetError(f"cannot listen on {host}:{port}: {reason}") from error
        self.port = self._bound.port
        self.is_local = _is_loopback(host)
        self._bound.listen(self._accepted)

    async def close(self) -> None:
        """Listen no more, and end every connection."""
        if self._bound is not None:
            self._bound.close()
        for peer in list(self._connections):
            peer.abort()
        await self.tasks.close()

    def _accepted(self, accepted: Accepted) -> None:
        if len(self._connections) >= self._connections_max and not self._drop_silent():
            accepted.close()
            _log.warning(
                "%s is turned away: %d connections ask for pages, and that is the most",
                accepted.remote[0], len(self._connections),
            )  # fmt: skip
            return
        peer = HttpPeer(self)
        self._connections[peer] = None
        self.tasks.spawn(self._attach(peer, accepted), "accept")

    def _drop_silent(self) -> bool:
        """End the oldest connection whose request is not here yet, for a newcomer; False if there is none."""
        silent = next((peer for peer in self._connections if not peer.is_asked), None)
        if silent is None:
            return False
        self.forget(silent)
        silent.abort()
        return True

    async def _attach(self, peer: "HttpPeer", accepted: Accepted) -> None:
        try:
            await accepted.attach(peer)
        except (NetError, OSError) as error:
            self.forget(peer)
            accepted.close()
            _log.info("a page is not given: %s", error)

    def forget(self, peer: "HttpPeer") -> None:
        """A connection is gone."""
        self._connections.pop(peer, None)


class HttpPeer(asyncio.Protocol):
    """One connection: its request's head comes in, an answer goes out, and it is closed.

    Attributes:
        is_asked: whether the head of its request is here.
    """

    def __init__(self, server: HttpServer) -> None:
        self._server = server
        self._http = Connection(SERVER, max_incomplete_event_size=HEAD_SIZE_MAX)
        self._head_room = HEAD_SIZE_MAX + 1
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._may_write = asyncio.Event()
        self._may_write.set()
        self.is_asked = False
        self._is_aborted = False

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin a connection: its request must be here soon."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is none by its class.
        if self._is_aborted:
            self.abort()
            return
        self._abort_after(self._server.head_seconds_max)

    def data_received(self, data: bytes) -> None:
        """A part of the head; what comes behind it is nothing to us."""
        if self.is_asked:
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
        self.is_asked = True
        assert self._transport is not None
        self._transport.pause_reading()
        self._abort_after(self._server.answer_seconds_max)
        self._server.tasks.spawn(self._answer(asked), "answer")

    def eof_received(self) -> bool:
        """Whoever asks may be done with sending; the answer goes out all the same."""
        return self.is_asked

    def pause_writing(self) -> None:
        """Pause: the peer reads slower than we answer."""
        self._may_write.clear()

    def resume_writing(self) -> None:
        """Go on answering: the peer has read."""
        self._may_write.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Forget a connection that is gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._may_write.set()
        self._server.forget(self)

    def abort(self) -> None:
        """End the connection at once."""
        self._is_aborted = True
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
                return words(f"a request's head may have {HEAD_SIZE_MAX} bytes", status)
            return words("this is no request of HTTP/1.1", status)
        if not asked.target.startswith(b"/"):
            return words("this is no request of HTTP/1.1", HTTPStatus.BAD_REQUEST)
        if asked.method not in (_GET, _HEAD):
            refusal = words("only GET is answered here", HTTPStatus.METHOD_NOT_ALLOWED)
            return replace(refusal, headers={"Allow": "GET, HEAD"})
        if self._server.is_local and _is_strange(asked):
            return words(
                "this address is for this machine; a page of another site asks for it by a name of its own",
                HTTPStatus.MISDIRECTED_REQUEST,
            )
        return await self._found(asked.target.partition(b"?")[0].decode("latin-1"))

    async def _found(self, path: str) -> HttpAnswer:
        page = self._server.pages.get(path)
        if page is None:
            known = ", ".join(self._server.pages)
            return words(
                f"there is no {printable(path[:80])} here, but {known}", HTTPStatus.NOT_FOUND
            )
        try:
            return await page()
        except Exception:  # noqa: BLE001  A page that fails must not end the others.
            _log.exception("the page %s cannot be made", path)
            return words(
                "it cannot be made; the log says why", HTTPStatus.INTERNAL_SERVER_ERROR
            )


def _is_strange(asked: Request) -> bool:
    """Return whether a request names a host of the internet, as a browser's page does whose name was bound to this machine."""
    host = next((value for name, value in asked.headers if name == b"host"), b"")
    name = host.decode("latin-1").lower()
    if name.rpartition(":")[2].isdecimal():
        name = name.rpartition(":")[0]
    name = without_brackets(name).rstrip(".")
    return "." in name and not (name.endswith(".localhost") or _is_ip(name))


def _is_ip(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == "localhost" or (_is_ip(host) and ip_address(host).is_loopback)
