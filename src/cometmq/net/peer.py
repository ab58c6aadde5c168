"""One accepted connection: an asyncio protocol below, what handlers see of it above.

Bytes of one read become commands (wire.connection), go through the dispatcher in one pass, and
their answers leave with one write; those of a large read in slices (net.turns). A peer that does not read its answers is not read either: its
commands wait until its buffer has drained, so its memory is bounded.

Next: cometmq.net.dispatcher
"""

import asyncio
import logging
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from cometmq.codec.host import encode_host
from cometmq.codec.remoting import Command, RawCommand
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import ConnectionLost, RequestTimeout
from cometmq.model.flags import ONEWAY
from cometmq.net.answer import Answer, answer_head, instead_of
from cometmq.net.connections import network_of
from cometmq.net.own_machine import is_own_machine, plain_ip
from cometmq.net.tasks import Tasks
from cometmq.net.turns import LARGE_READ
from cometmq.wire.connection import Connection

if TYPE_CHECKING:
    from cometmq.net.server import Server

_log = logging.getLogger(__name__)

# A request's header carries a message's properties (at most 32767 bytes, more once escaped);
# nothing legal comes near this (architecture decision 10).
HEADER_SIZE_MAX = 65_536
# Answers of one read are written together up to this; then the socket gets them, bytes.
GATHER_SIZE_MAX = 1 << 20
# A peer that has not read so many bytes of answers is not read either.
WRITE_BUFFER_MAX = 1 << 20
# Answers on their way that are not counted: most are gone at the end of the loop's turn.
UNREAD_SHARE = 16 << 10
# What a request costs that was decoded and waits, about, bytes.
REQUEST_SIZE = 2048
# What it costs to get a byte from the socket, before anything is done with it, seconds.
READ_SECONDS = 1e-9
# Requests of a large read that are handled together at least, however long they take.
SLICE_MIN = 16
# No request is believed to take less, seconds.
PACE_MIN = 1e-6


class Peer(asyncio.Protocol):
    """A client, broker or tool that connected to us.

    Attributes:
        address: its "ip:port".
        host: the same as records store it, 8 or 20 bytes.
        ip: its address alone, IPv4 as IPv4.
        is_on_own_machine: whether it sits on this machine.
        is_paused: whether it reads slower than we answer.
        is_closed: whether the connection is gone.
        on_close: called once with the peer when the connection is gone.
        network: whose connection it is where connections are counted (`net.connections`).
        partial_size: bytes of a frame that is not whole.
        has_read: whether bytes came since the server last looked for silent connections.
        has_spoken: whether any had come before that look.
        silent_since: monotonic time of that look, seconds.
        tasks: background tasks that die with the connection.
    """

    def __init__(self, server: "Server", name: tuple[str, int], local: str) -> None:
        """Made by the server for each accepted connection.

        Args:
            server: it.
            name: address and port that the connection comes from.
            local: the address that it came to.
        """
        host, port = name
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.host = encode_host(self.address)
        self.ip = plain_ip(host)
        self.is_on_own_machine = is_own_machine(self.ip, plain_ip(local))
        self.network = network_of(self.ip, is_own=self.is_on_own_machine)
        self.is_paused = False
        self.is_closed = False
        self.on_close: list[Callable[[Peer], None]] = []
        self.partial_size = 0
        self.has_read = False
        self.has_spoken = False
        self.silent_since = server.clock.monotonic()
        self.tasks = Tasks("peer")
        self._server = server
        self._dispatcher = server.dispatcher
        self._wire: Connection[asyncio.Future[Command]] = Connection(
            header_size_max=HEADER_SIZE_MAX
        )
        self._transport: asyncio.Transport | None = None
        self._fd = -1
        self._is_unwanted = False
        self._has_unread = False  # Answers.
        self._gathered: list[bytes | memoryview] = []
        self._gathered_size = 0
        self._is_gathering = False
        self._turns = server.turns
        self._clock = server.clock
        self._is_waiting = False  # For a turn; it is not read meanwhile.
        self._unread = b""  # Of a read that waits as it came.
        self._backlog: list[RawCommand] = []
        self._slice, self._pace = SLICE_MIN, PACE_MIN

    # --- the socket's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_MAX)
        if self._is_unwanted:  # The server closes, or has given its place to another.
            self._transport.abort()
            return
        self._fd = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes) -> None:
        """Handle all commands that this read completes; where it is large, as many as its turn allows."""
        self.has_read = True
        size, turns = len(data), self._turns
        is_large = size > LARGE_READ
        if (is_large or turns.is_crowded) and turns.put_off(self, size):
            self._unread = data
            self._wait_for_turn()
            return
        if is_large:
            self._receive_large(data)
            return
        commands = self._decode(data)
        if commands:
            self._is_gathering = True
            self._backlog = self._dispatcher.handle(commands, self)
        if self._wire.fault is not None:
            self._close_faulty()

    def _receive_large(self, data: bytes) -> None:
        """Work on a large read as long as its turn allows."""
        turns = self._turns
        began, ends = self._clock.monotonic(), turns.share()
        self._backlog = self._decode(data)
        if not self.go_on(ends):
            self._wait_for_turn()
            turns.wait(self)
        turns.spend(self._clock.monotonic() - began + len(data) * READ_SECONDS)

    def _decode(self, data: bytes) -> list[RawCommand]:
        wire = self._wire
        commands = wire.receive_data(data)
        if wire.bad_frames:
            self._refuse_bad_frames()
        if wire.buffered != self.partial_size:
            self.partial_size = wire.buffered
            self._server.half_frames.note(self, wire.buffered)
            if self._is_unwanted:
                return []
        return commands

    def _close_faulty(self) -> None:
        self._server.count_bad_frame()
        _log.warning("closing %s: %s", self.address, self._wire.fault)
        self.close()

    def _wait_for_turn(self) -> None:
        """Read no more until the server's `Turns` calls `go_on`."""
        self._is_waiting = True
        if self._transport is not None and not self.is_closed:
            self._transport.pause_reading()

    def go_on(self, ends: float) -> bool:
        """Work on what waits here until about `ends`, monotonic seconds; False where something is left for a later turn."""
        self._is_waiting = False
        if self._unread:
            data, self._unread = self._unread, b""
            self._turns.taken(len(data))
            self._backlog = self._decode(data)
        now = self._clock.monotonic()
        while self._backlog and not self.is_paused and not self.is_closed:
            # Twice as many as last time at most: what one request takes is guessed from the last ones.
            count = min(int((ends - now) / self._pace), 2 * self._slice)
            self._slice = count = max(count, SLICE_MIN)
            part, rest = self._backlog[:count], self._backlog[count:]
            self._is_gathering = True
            self._backlog = self._dispatcher.handle(part, self) + rest
            began, now = now, self._clock.monotonic()
            self._pace = max((now - began) / len(part), PACE_MIN)
            if now >= ends and self._backlog and not self.is_paused:
                self._is_waiting = True
                return False
        if not self._backlog:
            if self._wire.fault is not None:
                self._close_faulty()
            self._read_on()
        return True

    @property
    def is_read(self) -> bool:
        """Whether we take what it sends: it waits neither for its turn nor for its own reading."""
        return not (self.is_paused or self._is_waiting)

    def _read_on(self) -> None:
        if self.is_read and not self.is_closed and self._transport is not None:
            self._transport.resume_reading()

    def unread_size(self) -> int:
        """Bytes of answers that it has not read, and of requests that wait for that."""
        unread = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return unread + REQUEST_SIZE * len(self._backlog)

    def _note_unread(self) -> None:
        size = self.unread_size()
        self._has_unread = size > 0
        self._server.unread_answers.note(self, size)

    def _refuse_bad_frames(self) -> None:
        for error, opaque in self._wire.bad_frames:
            self._server.count_bad_frame()
            if opaque is not None:
                refused = Command(0, opaque=opaque)
                self.answer(
                    refused, Answer(ResponseCode.SYSTEM_ERROR, f"unreadable frame: {error}")
                )
        self._wire.bad_frames.clear()

    def pause_writing(self) -> None:
        """The peer reads too slowly: stop reading from it."""
        self.is_paused = True
        if self._transport is not None and not self.is_closed:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        """It caught up: do what waited, then read on."""
        self.is_paused = False
        self._note_unread()
        if self._backlog and not self._is_waiting:
            self._wait_for_turn()
            self._turns.wait(self)
        self._read_on()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Tell everyone who was interested in this peer."""
        self.is_closed = True
        self._fd = -1
        for waiter in self._wire.close():
            if not waiter.done():
                waiter.set_exception(ConnectionLost(f"{self.address} closed the connection"))
        self._server.half_frames.note(self, 0)
        self._server.unread_answers.note(self, 0)
        self._turns.taken(len(self._unread))
        self._unread, self._backlog = b"", []
        self._server.forget(self)
        for callback in self.on_close:
            callback(self)
        self.on_close.clear()
        self._server.tasks.spawn(self.tasks.close(), "close-peer")

    # --- the handlers' side

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes of whole frames; during a read they are gathered for one write."""
        if self.is_closed:
            return
        self._gathered.append(data)
        self._gathered_size += len(data)
        if not self._is_gathering or self._gathered_size > GATHER_SIZE_MAX:
            self._send_gathered()

    def write_at_once(self, data: bytes) -> None:
        """The same for somebody who has waited: not at the end of the loop's turn, but now."""
        if not self.is_closed:
            self._gathered.append(data)
            self._gathered_size += len(data)
            self.flush()

    def flush(self) -> None:
        """Send what was gathered; called by the dispatcher at the end of a read."""
        self._is_gathering = False
        if not self._gathered:
            return
        transport = self._transport
        if self._fd >= 0 and transport is not None and not transport.get_write_buffer_size():
            if self._has_unread:  # Not any more.
                self._note_unread()
            self._send_at_once()
        if self._gathered:
            self._send_gathered()

    def _send_at_once(self) -> None:
        """Give the socket what it takes: the transport would wait for the end of the loop's turn.

        That comes behind dispatch, and the sender waits. What the socket does not take is left for the
        transport, which also knows what to do about a peer that is gone.
        """
        data = self._gathered[0] if len(self._gathered) == 1 else b"".join(self._gathered)
        try:
            sent = os.write(self._fd, data)
        except OSError:
            return
        self._gathered = [memoryview(data)[sent:]] if sent < len(data) else []
        self._gathered_size = len(data) - sent

    def _send_gathered(self) -> None:
        pieces, self._gathered, self._gathered_size = self._gathered, [], 0
        if self._transport is None or self.is_closed:
            return
        transport = self._transport
        transport.write(pieces[0] if len(pieces) == 1 else b"".join(pieces))
        if transport.get_write_buffer_size() > UNREAD_SHARE:
            self._note_unread()

    def answer(self, command: Command | RawCommand, answer: Answer) -> None:
        """Answer a request, now or later; where the answer is no frame, an error says so."""
        if command[1] & ONEWAY:
            return
        body = answer.body
        pieces = body if isinstance(body, list) else [body] if body else []
        size = sum(map(len, pieces))
        try:
            head = answer_head(command, answer, size)
        except Exception as error:  # noqa: BLE001  Others wait on this connection, and in this read.
            head, pieces, size = answer_head(command, instead_of(error, command), 0), [], 0
        if self.is_closed:
            return
        self._gathered.append(head)
        self._gathered += pieces
        self._gathered_size += len(head) + size
        if not self._is_gathering or self._gathered_size > GATHER_SIZE_MAX:
            self._send_gathered()

    def notify(self, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        """Send the peer a request that it does not answer."""
        self.write(self._wire.oneway(Command(int(code), fields=fields, body=body)))

    async def call(
        self, code: int, fields: dict[str, str], body: bytes = b"", *, timeout_ms: int = 10_000
    ) -> Command:
        """Ask the peer something and wait for its answer.

        Raises:
            RequestTimeout: no answer in time.
            ConnectionLost: the peer went away.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[Command] = loop.create_future()
        deadline = self._server.clock.monotonic() + timeout_ms / 1000
        self.write(
            self._wire.request(
                Command(int(code), fields=fields, body=body), waiter, deadline=deadline
            )
        )
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await waiter
        except TimeoutError:
            self._wire.expire(deadline)
            raise RequestTimeout(
                f"{self.address} did not answer request {code} within {timeout_ms} ms"
            ) from None

    def take_answer(self, command: RawCommand) -> None:
        """An answer of the peer to one of our requests."""
        waiter = self._wire.take(command[2])
        if waiter is not None and not waiter.done():
            waiter.set_result(Command(*command))

    def close(self) -> None:
        """Close the connection; what is already written still goes out."""
        self._fd = -1
        self._is_unwanted = True
        if self._transport is not None and not self.is_closed:
            self._transport.close()

    def drop(self, why: str) -> None:
        """Close the connection at once, with a line in the log; what it has not read is lost."""
        _log.info("closing %s: %s", self.address, why)
        self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self._fd = -1
        self._is_unwanted = True
        if self._transport is not None and not self.is_closed:
            self._transport.abort()
