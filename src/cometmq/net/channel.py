"""One outgoing connection: requests out, answers matched by opaque, the other side's requests in.

Calls on a channel share it: many may wait at once. A caller that gathers many small requests in one
turn of the loop gets them written with one write; whoever makes many plain sends gives them as one piece, and
is given their answers together (`kernel.pipelined_sends`). The answers of one read, however, are given to those
who wait in bunches, one a turn: so what they do next goes out while others are still told, and client
and broker work at once instead of in turns.
"""

import asyncio
import logging
import sys
from collections import deque
from collections.abc import Callable
from typing import Any, cast

from cometmq.codec.remoting import Command, RawCommand
from cometmq.codec.send_text import SendPieces
from cometmq.codec.signer import Signer
from cometmq.kernel import PipelinedSends, encode_requests, pack_pipelined_sends, plain_answers
from cometmq.kernel.rows import PipelinedLimits, SendHead
from cometmq.model.clock import Clock
from cometmq.model.codes import request_name
from cometmq.model.errors import CodecError, ConnectionLost, RequestTimeout
from cometmq.model.flags import ONEWAY, RESPONSE
from cometmq.net.answer import Answer, answer_head, answer_to_error, instead_of
from cometmq.net.loop import beat_later
from cometmq.net.socket_writer import SocketWriter
from cometmq.net.waiters import Call, PipelinedSendsWaiter, Waiter
from cometmq.wire.connection import Connection, Outgoing

_log = logging.getLogger(__name__)

# How late a timeout may be noticed, seconds: one scan serves all requests of a channel. While nothing is
# written the next one is when the first of them is late: a long poll waits for half a minute.
_EXPIRY_SCAN_SECONDS = 0.05

# Answers given in one turn of the loop. A semaphore that callers share looks through all whom it has
# woken since the last turn each time it is released: 256 at once cost them 10.6 us each, 32 cost 7.6.
_BUNCH = 32

# Sends that are written while the caller makes more of them in the same turn of the loop: the broker
# begins with these meanwhile.
_AT_ONCE = 128

# Of an answer or a request of a broker, bytes: properties of 32,767 bytes, each of them escaped, and some names.
HEADER_SIZE_MAX = 256 << 10

# A peer that sends half a frame, or reads nothing of what waits for it, is looked at in these intervals (seconds).
_LOOK_SECONDS = 1.0
# It is given up after so many without progress; earlier where it makes us hold much.
_STUCK_LOOKS = 10
_STUCK_LOOKS_OF_MUCH = 2
_MUCH = 64 << 20
_PROGRESS_MIN = 4096  # Bytes between two looks.

# What a client does on a request from a broker; None for no answer.
RequestHandler = Callable[[Command, "Channel"], Answer | None]


class Channel(asyncio.Protocol):
    """A connection to a nameserver or broker.

    Attributes:
        address: "host:port" as it was asked for.
        is_closed: whether it is gone; a closed channel is never reopened (net.channels makes a
            new one).
    """

    def __init__(
        self,
        address: str,
        clock: Clock,
        *,
        on_request: RequestHandler | None = None,
        on_close: "Callable[[Channel], None] | None" = None,
        signer: Signer | None = None,
    ) -> None:
        """Use `Channels.get`, which connects it. All requests that leave it are signed by the `signer`."""
        self.address = address
        self.is_closed = False
        self._clock = clock
        self._on_request = on_request
        self._on_close = on_close
        self._signer = signer
        self._wire: Connection[Waiter] = Connection(header_size_max=HEADER_SIZE_MAX)
        self._transport: asyncio.Transport | None = None
        self._writer: SocketWriter | None = None
        self._loop = asyncio.get_running_loop()
        self._outgoing: list[Outgoing] = []
        self._unread: deque[bytes] = deque()  # Behind the read that is being given.
        self._data, self._position = b"", 0  # This read, and how much of it was given.
        self._arrived: list[RawCommand] = []  # What is left of it, as commands.
        self._is_giving = False  # On the next turn.
        self._has_pipelined = False  # Ever.
        self._end_expiry: Callable[[], object] | None = None  # Takes the timer back.
        self._is_expiry_far = False
        self._scanned_at = 0  # `_written` at the last scan.
        self._heard = self._written = 0  # Bytes, ever.
        self._looking: asyncio.TimerHandle | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._gone = asyncio.Event()

    # --- the socket's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=1 << 20)
        self._writer = SocketWriter(self._transport)

    def data_received(self, data: bytes) -> None:
        """Give answers to those who wait, requests to the handler."""
        self._heard += len(data)
        self._unread.append(data)
        if not self._is_giving:
            self._give_bunch()

    def _give_bunch(self) -> None:
        self._give(_BUNCH)
        if (
            self._outgoing
        ):  # What was asked as an answer was given goes before whoever awaits that goes on.
            self._write_now()
        if self._looking is None and self._wire.is_within_frame:
            self._look_soon(0, self._heard, 0)
        self._is_giving = bool(
            self._arrived or self._unread or self._position < len(self._data)
        )
        if self._is_giving:
            self._loop.call_soon(self._give_bunch)

    def _give_all(self) -> None:
        """Give all answers that have arrived, so that none is taken for lost or late."""
        self._give(sys.maxsize)

    def _give(self, count: int) -> None:
        """Give so many of the answers that have arrived, in their order."""
        while count > 0:
            if self._arrived:
                bunch, self._arrived = self._arrived[:count], self._arrived[count:]
                count -= len(bunch)
                self._give_commands(bunch)
            elif self._position < len(self._data):
                count -= self._give_settled(count)
            elif self._unread:
                self._data, self._position = self._wire.join(self._unread.popleft()), 0
            else:
                return

    def _give_settled(self, count: int) -> int:
        """Give plain answers to pipelined sends, at most so many; how many. Where none comes next, the rest of this read becomes commands."""
        data, position = self._data, self._position
        if self._has_pipelined:
            end, sends, results, size = plain_answers(data, position, self._wire.awaited, count)
            if sends is not None:
                self._position = end
                cast("PipelinedSendsWaiter", sends).settled(results, size)
                return len(results)
        self._data, self._position = b"", 0
        self._arrived = self._wire.read(data, position)
        for bad in self._wire.bad_frames:
            self._fail_unreadable(bad.error, bad.opaque)
        self._wire.bad_frames.clear()
        if self._wire.fault is not None:
            _log.warning("closing the connection to %s: %s", self.address, self._wire.fault)
            self._unread.clear()
            self.close()
        return 0

    def _give_commands(self, commands: list[RawCommand]) -> None:
        awaited = self._wire.awaited
        for command in commands:
            if command[1] & RESPONSE:
                found = awaited.pop(command[2], None)  # None: late, or nobody's.
                if found is not None:
                    found[1].answered(command)
            else:
                self._take_request(command)

    def _look_soon(self, looks: int, heard: int, sent: int) -> None:
        self._looking = self._loop.call_later(_LOOK_SECONDS, self._look, looks, heard, sent)

    def _look(self, looks: int, heard: int, sent: int) -> None:
        """Give up a peer that has sent half a frame, or does not read, and does not get on."""
        self._looking = None
        transport = self._transport
        is_reading = self._can_write.is_set()
        if (
            transport is None
            or self.is_closed
            or (is_reading and not self._wire.is_within_frame)
        ):
            return
        unread = transport.get_write_buffer_size()
        now_sent = self._written - unread
        gets_on = now_sent - sent if not is_reading else self._heard - heard
        looks = 0 if gets_on >= _PROGRESS_MIN else looks + 1
        if looks >= (_STUCK_LOOKS_OF_MUCH if unread > _MUCH else _STUCK_LOOKS):
            _log.warning(
                "closing the connection to %s: %s for %d s",
                self.address,
                "half an answer is here, and no more of it comes"
                if is_reading
                else f"it reads nothing, and {unread} bytes wait for it",
                looks * _LOOK_SECONDS,
            )
            transport.abort()
            return
        self._look_soon(looks, self._heard, now_sent)

    def _fail_unreadable(self, error: CodecError, opaque: int | None) -> None:
        _log.warning("%s sent an unreadable frame: %s", self.address, error)
        waiter = None if opaque is None else self._wire.take(opaque)
        if opaque is not None and waiter is not None:
            waiter.failed(error, opaque)

    def _take_request(self, raw: RawCommand) -> None:
        if self._on_request is None:
            return
        if not self._can_write.is_set():
            _log.warning(
                "%s reads nothing of what waits for it; its request %d is left",
                self.address,
                raw[0],
            )
            return
        command = Command(*raw)
        try:
            answer = self._on_request(command, self)
        except Exception as error:  # noqa: BLE001  A request of the peer must not end its channel.
            answer = answer_to_error(error, command)
        if answer is not None:
            self.answer(command, answer)

    def pause_writing(self) -> None:
        """The peer reads too slowly; senders that use `drain` wait."""
        self._can_write.clear()
        if self._looking is None and self._transport is not None:
            self._look_soon(
                0, self._heard, self._written - self._transport.get_write_buffer_size()
            )

    def resume_writing(self) -> None:
        """Go on sending when the transport has room again."""
        self._can_write.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Whoever waits here learns it now."""
        self.is_closed = True
        if self._writer is not None:
            self._writer.lost()
        self._can_write.set()
        self._gone.set()
        if self._end_expiry is not None:
            self._end_expiry()
        if self._looking is not None:
            self._looking.cancel()
        self._give_all()
        for opaque, waiter in self._wire.close():
            waiter.failed(ConnectionLost(f"{self.address} closed the connection"), opaque)
        if self._on_close is not None:
            self._on_close(self)

    # --- the caller's side

    def start_call(self, command: Command, *, timeout_ms: float) -> asyncio.Future[Command]:
        """Send a request and give the future of its answer; no task is made.

        The future fails with RequestTimeout or ConnectionLost.

        Raises:
            ConnectionLost: the channel is closed already.
        """
        answer: asyncio.Future[Command] = self._loop.create_future()
        deadline = self._clock.monotonic() + timeout_ms / 1000
        self.start(command, Call(answer), deadline=deadline)
        return answer

    def start(self, command: Command, waiter: Waiter, *, deadline: float) -> None:
        """Send a request; `waiter` is told of its answer, or of RequestTimeout or ConnectionLost.

        Args:
            command: its opaque is replaced.
            waiter: a `Call`, or what does its own work when it is told.
            deadline: on the channel's clock, seconds.

        Raises:
            ConnectionLost: the channel is closed already.
        """
        if self.is_closed:
            raise self._closed()
        if self._signer is not None:
            command = self._signer.signed(command)
        self._outgoing.append(self._wire.request(command, waiter, deadline=deadline))
        if len(self._outgoing) == 1:
            self._first_outgoing()

    def send(self, pieces: SendPieces, body: bytes, waiter: Waiter, deadline: float) -> None:
        """Send a request whose header is there as text, and give its answer to a waiter.

        Args:
            pieces: the header (`codec.send_text`).
            body: behind the header.
            waiter: as in `start`.
            deadline: as in `start`.

        Raises:
            ConnectionLost: the channel is closed already.
            CodecError: the frame would be too large.
        """
        if self.is_closed:
            raise self._closed()
        if self._signer is not None:
            pieces = self._signer.signed_pieces(pieces, body)
        outgoing = self._outgoing
        outgoing.append(self._wire.send(pieces, body, waiter, deadline))
        count = len(outgoing)
        if count == 1:
            self._first_outgoing()
        elif count == _AT_ONCE:
            self._write_now()

    @property
    def takes_pipelined(self) -> bool:
        """Whether `send_pipelined` may be called: what is signed is signed one by one."""
        return self._signer is None and not self.is_closed

    def send_pipelined(
        self,
        sends: PipelinedSends,
        waiting: list[tuple[Any, Any]],
        start: int,
        head: SendHead,
        limits: PipelinedLimits,
        deadline: float,
    ) -> int:
        """Send plain messages together, none waiting for the answer of another, as far as they go; `write_sent` writes them.

        `sends`, a `PipelinedSendsWaiter`, is told of their answers; the others are as in `kernel.pack_pipelined_sends`.
        Gives how many there are: the next one is not plain, beyond the limits, or for somebody else.
        """
        wire = self._wire
        sends.first = wire.following_opaque
        frames = pack_pipelined_sends(
            sends, waiting, start, head, limits, wire.awaited, deadline
        )
        count = len(sends.sent)
        if count:
            wire.used_opaques(count)
            self._has_pipelined = True
            self._outgoing.append(frames)
        return count

    def write_sent(self) -> None:
        """Write what was sent on this turn of the loop, and do not wait for its end."""
        self._write_now()
        self._write_outgoing()

    async def call(self, command: Command, *, timeout_ms: float = 3000) -> Command:
        """Send a request and wait for its answer, whatever its code.

        Raises:
            RequestTimeout: no answer within `timeout_ms`.
            ConnectionLost: the connection went away.
            CodecError: the answer cannot be read.
        """
        try:
            return await self.start_call(command, timeout_ms=timeout_ms)
        except RequestTimeout as error:
            raise RequestTimeout(
                f"{error}: {request_name(command.code)} had {timeout_ms / 1000:g} s"
            ) from None

    def oneway(self, command: Command) -> None:
        """Send a request that nobody answers.

        Raises:
            ConnectionLost: the channel is closed.
        """
        if self.is_closed:
            raise self._closed()
        if self._signer is not None:
            command = self._signer.signed(command)
        self._send(self._wire.oneway(command))

    def send_oneway(self, pieces: SendPieces, body: bytes) -> None:
        """Send a request whose header is there as text; nobody answers it.

        Raises:
            ConnectionLost, CodecError: as `send`.
        """
        if self.is_closed:
            raise self._closed()
        if self._signer is not None:
            pieces = self._signer.signed_pieces(pieces, body)
        self._send(self._wire.send_oneway(pieces, body))

    def _closed(self) -> ConnectionLost:
        return ConnectionLost(f"the connection to {self.address} is closed")

    def answer(self, command: Command, answer: Answer) -> None:
        """Answer a request of the other side."""
        if command.flag & ONEWAY or self.is_closed:
            return
        body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        try:
            frame = answer_head(command, answer, len(body)) + body
        except CodecError as error:
            frame = answer_head(command, instead_of(error, command), 0)
        self._send(frame)

    async def drain(self) -> None:
        """Wait while the other side reads slower than we write.

        Raises:
            ConnectionLost: it went away, or was given up since it reads nothing.
        """
        await self._can_write.wait()
        if self.is_closed:
            raise self._closed()

    def _send(self, frame: Outgoing) -> None:
        self._outgoing.append(frame)
        if len(self._outgoing) == 1:
            self._loop.call_soon(self._write_outgoing)

    def _first_outgoing(self) -> None:
        """A request that is the first since the last write."""
        if self._wire.waiting == 1:
            # Nobody else waits for an answer: a caller that sends one at a time. It goes at once, and
            # need not wait for the loop's next turn.
            self.write_sent()
        else:
            self._loop.call_soon(self._write_outgoing)

    def _write_outgoing(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        if self._writer is not None and not self.is_closed and outgoing:
            data = encode_requests(outgoing)
            self._written += len(data)
            self._writer.write(data)
        if (self._end_expiry is None or self._is_expiry_far) and self._wire.waiting:
            self._expire_in(_EXPIRY_SCAN_SECONDS)

    def _write_now(self) -> None:
        """Give the socket what it takes at once: the transport would wait for the end of the turn."""
        writer = self._writer
        if writer is None or not writer.is_direct or not self._outgoing:
            return
        outgoing, self._outgoing = self._outgoing, []
        data = encode_requests(outgoing)
        self._written += len(data)
        writer.write_now(data)

    def _expire_in(self, seconds: float) -> None:
        if self._end_expiry is not None:
            self._end_expiry()
        self._is_expiry_far = seconds > _EXPIRY_SCAN_SECONDS
        self._end_expiry = beat_later(seconds, self._expire)

    def _expire(self) -> None:
        self._end_expiry = None
        self._give_all()
        now = self._clock.monotonic()
        for opaque, waiter in self._wire.expire(now):
            waiter.failed(RequestTimeout(f"{self.address} did not answer in time"), opaque)
        is_quiet = self._written == self._scanned_at and not self._outgoing
        self._scanned_at = self._written
        if self._wire.waiting and not self.is_closed:
            left = self._wire.first_deadline - now if is_quiet else 0.0
            self._expire_in(max(left, _EXPIRY_SCAN_SECONDS))

    @property
    def is_waiting(self) -> bool:
        """Whether a request on it has no answer yet."""
        return bool(self._wire.waiting)

    def close(self) -> None:
        """Close the connection; what was written still goes out."""
        if self._writer is not None and not self.is_closed:
            self._write_outgoing()
            self._writer.close()

    async def wait_gone(self) -> None:
        """Wait until the socket is gone, whoever closes it."""
        await self._gone.wait()

    async def wait_closed(self, *, timeout_ms: float = 2000) -> None:
        """Wait until the socket is gone, or abort it when that takes longer than `timeout_ms`."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._gone.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()
