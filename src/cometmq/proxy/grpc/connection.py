"""A connection of a client: between its socket, its HTTP/2 engine and its calls.

Answers that are ready after a read are usually written together. Frames are handled for about 3 ms at a time, so that
other connections get their share. While the socket accepts no more, nothing is read from the client either. While only
the flow control of HTTP/2 holds answers back, they wait in the engine, and services see that in `is_paused`.
"""

import asyncio
import logging
from typing import TYPE_CHECKING, cast

from cometmq.net.connections import OpenConnection, ServedProtocol
from cometmq.net.socket_writer import SocketWriter
from cometmq.proxy.grpc.calls import CallRefused, GrpcStatus, Streaming, Unary
from cometmq.proxy.grpc.headers import (
    NotGrpc,
    RequestHead,
    http_head,
    read_head,
    trailers,
    trailers_only,
)
from cometmq.proxy.grpc.server_call import GrpcCall
from cometmq.wire.h2.engine import BodyPart, Ended, Event, H2Engine, H2Error, Opened

if TYPE_CHECKING:
    from cometmq.proxy.grpc.server import GrpcServer

_log = logging.getLogger(__name__)

# Seconds for the frames of one connection at a time.
BUDGET_SECONDS = 0.003
# Bytes that are written at a time, and that the transport may hold.
OUTPUT_SIZE = 256 << 10
WRITE_BUFFER_MAX = 256 << 10
# Seconds for the client to read the end of its connection.
LAST_READ_SECONDS = 1.0


class GrpcConnection(ServedProtocol):
    """A client's connection to a `GrpcServer`.

    Attributes:
        address: "ip:port" of the client.
        engine: Its HTTP/2 engine.
        remote: IP address and port of the client.
        local: IP address and port that it connected to.
        held: Bytes of incomplete requests.
        unsent: Bytes of answers that still waited after the last write.
    """

    def __init__(self, server: "GrpcServer", opened: OpenConnection, engine: H2Engine) -> None:
        self.has_read = False
        self.engine = engine
        self.remote = opened.ip, opened.accepted.remote[1]
        self.local = opened.accepted.local_ip, 0
        self.held = self.unsent = 0
        self.address = opened.address
        self._server = server
        self._clock = server.clock
        self._calls: dict[int, GrpcCall] = {}
        self._new: list[GrpcCall] = []
        self._transport: asyncio.Transport | None = None
        self._writer: SocketWriter | None = None
        self._is_working = self._is_flush_due = self._is_reading_paused = False
        self._is_closing = self._is_leaving = self._is_ending = False
        self._full_since: float | None = None  # When the socket became full; None if it is not.
        self._read_at = self._idle_since = self._clock.monotonic()

    @property
    def is_busy(self) -> bool:
        """Whether calls are open."""
        return bool(self._calls)

    # --- callbacks of asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the HTTP/2 settings, or close the transport if the connection was closed or aborted meanwhile."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop has its own class.
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_MAX)
        self._writer = SocketWriter(self._transport)
        name = transport.get_extra_info("sockname")
        if name is not None:
            self.local = self.local[0], name[1]
        if self._is_closing:
            self._writer.abort()
        else:
            self.flush()

    def data_received(self, data: bytes) -> None:
        """Handle frames of the client, now or after those received earlier; ignore them if the connection is ending."""
        self.has_read = True
        if self._is_closing or self._is_ending:
            return
        self._read_at = self._clock.monotonic()
        self.engine.receive(data)
        if not self._is_working:
            self._work()

    def eof_received(self) -> bool:
        """Return False, so that the connection is closed: HTTP/2 needs both directions."""
        return False

    def pause_writing(self) -> None:
        """Stop writing and reading, because the client reads too slowly."""
        self._full_since = self._clock.monotonic()
        self._pause_or_resume()

    def resume_writing(self) -> None:
        """Write what waits, and read again, because the client has read most of what was written."""
        self._full_since = None
        self._pause_or_resume()
        self.flush()

    def connection_lost(self, _exc: Exception | None) -> None:
        """End all calls of the connection, because it is gone."""
        self._is_closing = True
        if self._writer is not None:
            self._writer.lost()
        for call in list(self._calls.values()):
            call.close()
        self._note_unsent(0)
        self._server.forget(self)

    # --- reading

    def _work(self) -> None:
        """Handle received frames for about 3 ms and send the answers; the next iteration of the loop continues."""
        self._is_working = True
        now = self._clock.monotonic()
        ends = now + BUDGET_SECONDS
        while self.engine.waiting and now < ends:
            for event in self.engine.events(now):
                self._handle(event, now)
            now = self._clock.monotonic()
        for call in self._new:
            if not call.is_closed:
                self._server.deadlines.add(call)
        self._new.clear()
        self._is_working = bool(self.engine.waiting)
        if self._is_working:
            asyncio.get_running_loop().call_soon(self._work)
        self._pause_or_resume()
        self.flush()

    def _pause_or_resume(self) -> None:
        is_paused = self._is_working or self._full_since is not None
        if is_paused != self._is_reading_paused and self._transport is not None:
            if self._transport.is_closing():
                return
            self._is_reading_paused = is_paused
            (self._transport.pause_reading if is_paused else self._transport.resume_reading)()

    def _handle(self, event: Event, now: float) -> None:
        if isinstance(event, Opened):
            self._open(event, now)
            return
        call = self._calls.get(event.stream)
        if call is None:
            return
        if isinstance(event, BodyPart):
            before = call.held
            call.received(event.data, now)
            if call.held != before and not call.is_closed:
                self._hold(call, call.held - before)
        elif isinstance(event, Ended):
            call.ended()
        else:
            call.close()

    def _open(self, event: Opened, now: float) -> None:
        try:
            head, service = self._admitted(event)
        except NotGrpc as error:
            self.engine.send_head(event.stream, http_head(error))
            self.engine.send(event.stream, f"{error}\n".encode())
            fields = trailers(GrpcStatus.UNKNOWN, str(error))
            self.engine.send_head(event.stream, fields, is_last=True)
        except CallRefused as error:
            fields = trailers_only(error.status, str(error))
            self.engine.send_head(event.stream, fields, is_last=True)
        else:
            call = GrpcCall(self, event.stream, head, service, now)
            self._calls[event.stream] = call
            self._server.calls += 1
            self._new.append(call)
            call.start()

    def _admitted(self, event: Opened) -> tuple[RequestHead, Unary | Streaming]:
        if event.fields is None:
            raise CallRefused(
                GrpcStatus.RESOURCE_EXHAUSTED, "the headers of the call have more than 16 KiB"
            )
        head = read_head(event.fields)
        service = self._server.services.get(head.path)
        if service is None:
            raise CallRefused(GrpcStatus.UNIMPLEMENTED, f"there is no method {head.path[:200]}")
        if head.timeout is not None and head.timeout <= 0:
            raise CallRefused(
                GrpcStatus.DEADLINE_EXCEEDED, "the deadline of the call has passed"
            )
        limits = self._server.limits
        if self.engine.unsent > limits.unsent_of_connection:
            raise CallRefused(
                GrpcStatus.RESOURCE_EXHAUSTED,
                "too many answers wait that the client has not read",
            )
        if self._server.calls >= limits.calls:
            raise CallRefused(
                GrpcStatus.RESOURCE_EXHAUSTED,
                f"{limits.calls} calls are open at this server already; try again later",
            )
        return head, service

    # --- memory of requests

    def _hold(self, call: GrpcCall, size: int) -> None:
        self.held += size
        self._server.held += size
        if (
            self.held > self._server.limits.held_of_connection
            or self._server.held > self._server.limits.held
        ):
            call.finish(
                GrpcStatus.RESOURCE_EXHAUSTED,
                "too many bytes of incomplete requests wait in the server; send fewer or smaller ones at a time",
            )

    def release(self, call: GrpcCall) -> None:
        """Stop counting the bytes of a call's request as held."""
        self.held -= call.held
        self._server.held -= call.held
        call.held = 0

    # --- for calls

    def is_paused(self, stream: int) -> bool:
        """Return whether further answers on a stream should wait, because the client does not read fast enough."""
        return (
            self._full_since is not None
            or self.engine.unsent > self._server.limits.unsent_of_connection
            or self.engine.is_blocked(stream)
        )

    def sent(self) -> None:
        """Have the output of a call written soon, together with that of other calls."""
        if not (self._is_working or self._is_flush_due):
            self._is_flush_due = True
            asyncio.get_running_loop().call_soon(self.flush)

    def reset(self, call: GrpcCall) -> None:
        """End a call with RST_STREAM (CANCEL), without the rest of its response."""
        call.close()
        self.engine.reset(call.stream, H2Error.CANCEL)
        self.sent()

    def forget_call(self, call: GrpcCall) -> None:
        """Remove a call that is over: give back its place and held bytes, drop its deadline; after the last call the connection is idle."""
        del self._calls[call.stream]
        self._server.calls -= 1
        self.release(call)
        self._server.deadlines.discard(call)
        if not self._calls:
            self._idle_since = self._clock.monotonic()

    # --- writing

    def flush(self) -> None:
        """Write the output of the engine, unless the socket is full; end the connection if faulty or done."""
        self._is_flush_due = False
        writer = self._writer
        is_over = self._is_closing or self._is_ending
        if writer is None or self._full_since is not None or is_over:
            return
        data = self.engine.output(OUTPUT_SIZE)
        if data:
            writer.write_now(data)
        self._note_unsent(self.engine.unsent + writer.unsent)
        if self.engine.has_output and self._full_since is None:
            self.sent()
        elif self.engine.fault:
            self._server.refuse(self.address, self.engine.fault)
            self._end()
        elif self._is_leaving and not self._calls and not self.engine.unsent:
            self._end()

    def _note_unsent(self, size: int) -> None:
        self._server.unsent += size - self.unsent
        self.unsent = size
        if self._server.unsent > self._server.limits.unsent:
            self._server.shed()

    def _end(self) -> None:
        """End all calls, and close the connection 1 s later, so that the client can read the last frames.

        If the socket were closed while frames of the client arrive, the client's kernel would drop those last frames.
        """
        self._is_ending = True
        for call in list(self._calls.values()):
            call.close()
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()
        asyncio.get_running_loop().call_later(LAST_READ_SECONDS, self.close)

    def close(self) -> None:
        """Close the connection once the data already given to the socket is sent."""
        self._is_closing = True
        if self._writer is not None:
            self._writer.close()

    def abort(self) -> None:
        """Close the connection immediately."""
        self._is_closing = True
        if self._writer is not None:
            self._writer.abort()

    # --- time

    def leave(self, *, is_final: bool) -> None:
        """Send GOAWAY, so that the client makes new calls elsewhere; if final, close once the open calls are over."""
        self.engine.go_away(is_final=is_final)
        self._is_leaving = self._is_leaving or is_final
        self.flush()

    def check(self, now: float) -> None:
        """End slow requests, unread responses, an idle or unread connection; ping a silent one that has open calls."""
        limits = self._server.limits
        if self._full_since is not None and now - self._full_since >= limits.stalled_seconds:
            _log.info(
                "closing %s: it has read nothing for %.0f s",
                self.address,
                limits.stalled_seconds,
            )
            self.abort()
            return
        for call in list(self._calls.values()):
            if (
                call.waits_since is not None
                and now - call.waits_since >= limits.request_seconds(call.held)
            ):
                call.finish(
                    GrpcStatus.DEADLINE_EXCEEDED,
                    f"the request was not complete after {now - call.waits_since:.0f} s",
                )
        for stream in self.engine.stalled(now, limits.stalled_seconds):
            stalled = self._calls.get(stream)
            if stalled is not None:
                stalled.close()
            self.engine.reset(stream, H2Error.CANCEL)
        if self._calls:
            if now - self._read_at >= limits.ping_seconds:
                self.engine.ping()
        elif now - self._idle_since >= limits.idle_seconds and not self.engine.unsent:
            self.leave(is_final=True)
        self.flush()
