"""One gRPC call of a connection: its request as it arrives, and its response."""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from cometmq.model.text import error_text
from cometmq.proxy.grpc.calls import (
    CallRefused,
    CallStream,
    GrpcStatus,
    Streaming,
    Unary,
)
from cometmq.proxy.grpc.headers import RESPONSE_HEAD, RequestHead, trailers, trailers_only
from cometmq.proxy.grpc.messages import MessageReader, prefixed

if TYPE_CHECKING:
    from cometmq.proxy.grpc.connection import GrpcConnection

_log = logging.getLogger(__name__)


class GrpcCall:
    """A call, as its service and its connection see it.

    Attributes:
        method: Name of the method, the last part of the path: "SendMessage".
        metadata: Headers of the request by their lower-case names; only `KEPT_NAMES` of `proxy.grpc.headers`.
        deadline: Time at which the client gives up, monotonic seconds of the server's clock; None if it never does. The
            server ends the call with DEADLINE_EXCEEDED then.
        on_close: Callbacks without arguments, each called once when the call is over for whatever reason: finished,
            reset by the client, its deadline passed, its connection lost. Empty afterwards.
        is_closed: Whether the call is over; answers are dropped then.
        stream: Number of its HTTP/2 stream.
        held: Bytes of its request that were received and not handled yet.
        waits_since: Since when the rest of a request or message is awaited, monotonic seconds; None if nothing is.
    """

    __slots__ = (
        "_connection", "_is_headed", "_reader", "_receiver", "_request", "_service", "deadline",
        "held", "is_closed", "metadata", "method", "on_close", "stream", "waits_since",
    )  # fmt: skip

    def __init__(
        self,
        connection: "GrpcConnection",
        stream: int,
        head: RequestHead,
        service: Unary | Streaming,
        now: float,
    ) -> None:
        self.stream = stream
        self.method = head.path.rpartition("/")[2]
        self.metadata: Mapping[str, str] = head.metadata
        self.deadline = None if head.timeout is None else now + head.timeout
        self.on_close: list[Callable[[], object]] = []
        self.is_closed = False
        self.held = 0
        self.waits_since: float | None = now
        self._connection = connection
        self._service = service
        self._reader = MessageReader(head.encoding)
        self._receiver: CallStream | None = None
        self._request: bytes | None = None
        self._is_headed = False

    # --- for the service

    @property
    def remote(self) -> tuple[str, int]:
        """IP address and port of the client."""
        return self._connection.remote

    @property
    def local(self) -> tuple[str, int]:
        """IP address and port that the client connected to."""
        return self._connection.local

    @property
    def is_paused(self) -> bool:
        """Whether no further answer should be sent now: the call is over, or the client does not read fast enough."""
        return self.is_closed or self._connection.is_paused(self.stream)

    def answer(self, message: bytes) -> None:
        """Send a message of the response; a method with a single response calls this once, then `finish`."""
        if self.is_closed:
            return
        if not self._is_headed:
            self._is_headed = True
            self._connection.engine.send_head(self.stream, RESPONSE_HEAD)
        self._connection.engine.send(self.stream, prefixed(message))
        self._connection.sent()

    def finish(self, status: int = GrpcStatus.OK, text: str = "") -> None:
        """End the call with a status of gRPC (`GrpcStatus`) and a text for the client's developer."""
        if self.is_closed:
            return
        fields = (trailers if self._is_headed else trailers_only)(status, text)
        self._connection.engine.send_head(self.stream, fields, is_last=True)
        self._connection.sent()
        self.close()

    # --- for the connection

    def start(self) -> None:
        """Open the call at its service if that is a streaming one; any other is called when the request is complete."""
        if isinstance(self._service, Streaming):
            self.waits_since = None
            self._run(self._open)

    def received(self, data: bytes, now: float) -> None:
        """Handle a piece of the request."""
        self._run(self._read, data)
        if not self.is_closed:
            self.held = self._reader.size + (0 if self._request is None else len(self._request))
            if self._receiver is not None:
                began = now if self.waits_since is None else self.waits_since
                self.waits_since = began if self.held else None

    def ended(self) -> None:
        """Handle the end of the request."""
        self.waits_since = None
        self._run(self._complete)

    def expire(self) -> None:
        """End the call with DEADLINE_EXCEEDED, or by a reset of its stream if flow control holds its answers back."""
        if self._connection.engine.is_blocked(self.stream):
            self._connection.reset(self)
        else:
            self.finish(GrpcStatus.DEADLINE_EXCEEDED, "the deadline of the call has passed")

    def close(self) -> None:
        """Mark the call as over and call its callbacks, unless that was done; later answers are dropped."""
        if self.is_closed:
            return
        self.is_closed = True
        self._connection.forget_call(self)
        self._reader.clear()
        self._request = None
        callbacks, self.on_close = self.on_close, []
        if self._receiver is not None:
            callbacks.append(self._receiver.closed)
        for callback in callbacks:
            try:
                callback()
            except Exception:  # noqa: BLE001  The other callbacks must run.
                _log.exception("the end of a call of %s could not be handled", self.method)

    def _run(self, step: Callable[..., None], *arguments: bytes) -> None:
        """Run a step of the service; an exception ends only this call, with a status."""
        try:
            step(*arguments)
        except CallRefused as error:
            self.finish(error.status, str(error))
        except Exception as error:  # noqa: BLE001  A fault ends one call alone.
            _log.exception("a call of %s failed", self.method)
            self.finish(GrpcStatus.INTERNAL, error_text(error))

    def _open(self) -> None:
        assert isinstance(self._service, Streaming)
        receiver = self._service.open(self)
        if self.is_closed:
            receiver.closed()
        else:
            self._receiver = receiver

    def _read(self, data: bytes) -> None:
        for message in self._reader.read(data):
            if self.is_closed:
                return
            if self._receiver is not None:
                self._receiver.received(message)
            elif self._request is not None:
                raise CallRefused(
                    GrpcStatus.INTERNAL, f"{self.method} takes one message, and more were sent"
                )
            else:
                self._request = message

    def _complete(self) -> None:
        if self._reader.size:
            raise CallRefused(GrpcStatus.INTERNAL, "the request ends within a message")
        if self._receiver is not None:
            self._receiver.half_closed()
            return
        request, self._request = self._request, None
        if request is None:
            raise CallRefused(GrpcStatus.INTERNAL, "the request has no message")
        self._connection.release(self)
        assert isinstance(self._service, Unary)
        self._service.handle(self, request)
