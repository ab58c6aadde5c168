"""An outgoing connection: sends requests, matches answers by opaque, and handles the peer's requests.

Callers share a channel and may wait concurrently. Small requests made in one iteration of the loop mostly leave with
one write. Pipelined sends (`kernel.pipelined_sends`) are encoded as one block and their answers mostly delivered
together. Other answers are delivered in batches, mostly one per loop iteration. Follow-up requests of the first
callers can therefore leave before the last callers are notified, so that client and broker work concurrently.
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

# Maximum delay in noticing a timeout, in seconds, as one scan serves all requests of a channel. While nothing is
# written, the next scan is at the earliest deadline, since a long poll waits half a minute.
_EXPIRY_SCAN_SECONDS = 0.05

# Answers delivered per loop iteration. Releasing a shared semaphore scans all waiters woken since the last iteration:
# with 256 at once this cost 10.6 us per answer, with 32 it cost 7.6 us.
_BUNCH = 32

# Sends written before the iteration ends, so that the broker starts on them while the caller makes more.
_AT_ONCE = 128

# Maximum header of a broker's frame in bytes: 32,767 bytes of properties, all escaped, and some names.
HEADER_SIZE_MAX = 256 << 10

# Interval in seconds of the checks for a peer that sent a part of a frame or does not read.
_LOOK_SECONDS = 1.0
# Checks without progress before the connection is closed; fewer if much unsent data is held for the peer.
_STUCK_LOOKS = 10
_STUCK_LOOKS_OF_MUCH = 2
_MUCH = 64 << 20
_PROGRESS_MIN = 4096  # Bytes between two checks that count as progress.

# Handles a request from a broker; returns None to send no answer.
RequestHandler = Callable[[Command, "Channel"], Answer | None]


class Channel(asyncio.Protocol):
    """An outgoing connection to a nameserver or broker, which many callers share.

    Attributes:
        address: "host:port" as requested by the caller.
        is_closed: Whether the connection is gone. A channel is never reopened; the next `Channels.get` makes a new one.
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
        """Create a channel without connecting it (`Channels.get` does); `signer` signs the requests of callers."""
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
        self._unread: deque[bytes] = deque()  # Reads not yet joined to `_data`.
        self._data, self._position = b"", 0  # The current read, processed up to here.
        self._arrived: list[RawCommand] = []  # Decoded, not yet delivered.
        self._is_giving = False  # Whether the next batch is scheduled.
        self._has_pipelined = False  # Whether pipelined sends were ever used.
        self._end_expiry: Callable[[], object] | None = None  # Cancels the timer.
        self._is_expiry_far = False
        self._scanned_at = 0  # Value of `_written` at the last scan.
        self._heard = self._written = 0  # Total bytes.
        self._looking: asyncio.TimerHandle | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()
        self._gone = asyncio.Event()

    # --- callbacks of asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the writer for the new connection."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=1 << 20)
        self._writer = SocketWriter(self._transport)

    def data_received(self, data: bytes) -> None:
        """Process a batch of received answers and requests now, unless one is scheduled already, and the rest later."""
        self._heard += len(data)
        self._unread.append(data)
        if not self._is_giving:
            self._give_bunch()

    def _give_bunch(self) -> None:
        self._give(_BUNCH)
        if self._outgoing:
            # Callers resumed by these answers see their requests written already.
            self._write_now()
        if self._looking is None and self._wire.is_within_frame:
            self._look_soon(0, self._heard, 0)
        self._is_giving = bool(
            self._arrived or self._unread or self._position < len(self._data)
        )
        if self._is_giving:
            self._loop.call_soon(self._give_bunch)

    def _give_all(self) -> None:
        """Process all readable answers and requests that have arrived."""
        self._give(sys.maxsize)

    def _give(self, count: int) -> None:
        """Deliver up to `count` answers and requests in the order of arrival."""
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
        """Deliver up to `count` answers of pipelined sends, and return their number.

        If the next bytes are no such answers, decode the rest of their read as other answers and requests, and return 0.
        """
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
            self._fail_unreadable(*bad)
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
                found = awaited.pop(command[2], None)  # None if it is late or unknown.
                if found is not None:
                    found[1].answered(command)
            else:
                self._take_request(command)

    def _look_soon(self, looks: int, heard: int, sent: int) -> None:
        self._looking = self._loop.call_later(_LOOK_SECONDS, self._look, looks, heard, sent)

    def _look(self, looks: int, heard: int, sent: int) -> None:
        """Abort the connection if for 10 s (2 s if much waits) the peer hardly continued a frame or reading our data."""
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
                "the rest of an answer has not arrived"
                if is_reading
                else f"it has not read {unread} bytes that wait for it",
                looks * _LOOK_SECONDS,
            )
            transport.abort()
            return
        self._look_soon(looks, self._heard, now_sent)

    def _fail_unreadable(self, error: CodecError, opaque: int | None, flag: int | None) -> None:
        _log.warning("%s sent an unreadable frame: %s", self.address, error)
        is_answer = flag is None or flag & RESPONSE
        if opaque is None or not is_answer:
            return  # Requests of a server have numbers of its own.
        waiter = self._wire.take(opaque)
        if waiter is not None:
            waiter.failed(error, opaque)

    def _take_request(self, raw: RawCommand) -> None:
        if self._on_request is None:
            return
        if not self._can_write.is_set():
            _log.warning(
                "%s does not read what was sent to it, so its request %s is dropped",
                self.address,
                request_name(raw[0]),
            )
            return
        command = Command(*raw)
        try:
            answer = self._on_request(command, self)
        except Exception as error:  # noqa: BLE001  A failing handler must not end the channel.
            answer = answer_to_error(error, command[0])
        if answer is not None:
            self.answer(command, answer)

    def pause_writing(self) -> None:
        """From now on drop the peer's requests, and let callers of `drain` wait, because the peer reads too slowly."""
        self._can_write.clear()
        if self._looking is None and self._transport is not None:
            self._look_soon(
                0, self._heard, self._written - self._transport.get_write_buffer_size()
            )

    def resume_writing(self) -> None:
        """Let callers of `drain` continue and handle requests of the peer again, because the transport has room."""
        self._can_write.set()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Deliver what arrived, fail all other waiting requests with ConnectionLost, and call `on_close`."""
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

    # --- interface for callers

    def start_call(self, command: Command, *, timeout_ms: float) -> asyncio.Future[Command]:
        """Send a request and return a future for its answer.

        The future fails with RequestTimeout or ConnectionLost, or with CodecError if the answer cannot be decoded.

        Raises:
            ConnectionLost: The channel is already closed.
            CodecError: The frame would be too large.
        """
        answer: asyncio.Future[Command] = self._loop.create_future()
        deadline = self._clock.monotonic() + timeout_ms / 1000
        self.start(command, Call(answer), deadline=deadline)
        return answer

    def start(self, command: Command, waiter: Waiter, *, deadline: float) -> None:
        """Send a request and notify `waiter` of its answer, or of RequestTimeout, ConnectionLost or CodecError.

        Args:
            command: The request; its opaque is replaced.
            waiter: A `Call`, or another waiter that processes the answer itself.
            deadline: Time on the channel's monotonic clock, in seconds.

        Raises:
            ConnectionLost, CodecError: The channel is already closed, or the frame would be too large.
        """
        if self.is_closed:
            raise self._closed()
        if self._signer is not None:
            command = self._signer.signed(command)
        self._outgoing.append(self._wire.request(command, waiter, deadline=deadline))
        if len(self._outgoing) == 1:
            self._first_outgoing()

    def send(self, pieces: SendPieces, body: bytes, waiter: Waiter, deadline: float) -> None:
        """Send a request whose header is already encoded as text; `waiter` and `deadline` are as in `start`.

        Raises:
            ConnectionLost: The channel is already closed.
            CodecError: The frame would be too large.
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
        """Whether `send_pipelined` may be called: the channel is not closed and does not sign requests."""
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
        """Queue consecutive simple sends and return their number; `write_sent` writes them.

        No send waits for the answer of another. Stops, for example, before one that is not simple, exceeds limits or is
        meant for another broker. `sends`, a `PipelinedSendsWaiter`, is notified of the answers; the other arguments are
        those of `kernel.pack_pipelined_sends`.
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
        """Write all queued requests now, to the socket if that is safe, otherwise to the transport, unless closed."""
        self._write_now()
        self._write_outgoing()

    async def call(self, command: Command, *, timeout_ms: float = 3000) -> Command:
        """Send a request and return its answer, whatever its response code.

        Raises:
            RequestTimeout: No answer within `timeout_ms`.
            ConnectionLost: The connection was lost.
            CodecError: The answer cannot be decoded, or the request is too large.
        """
        try:
            return await self.start_call(command, timeout_ms=timeout_ms)
        except RequestTimeout as error:
            raise RequestTimeout(
                f"{error}: {request_name(command.code)} had {timeout_ms / 1000:g} s"
            ) from None

    def oneway(self, command: Command) -> None:
        """Send a request that gets no answer; raise ConnectionLost if the channel is closed, CodecError if too big."""
        if self.is_closed:
            raise self._closed()
        if self._signer is not None:
            command = self._signer.signed(command)
        self._send(self._wire.oneway(command))

    def send_oneway(self, pieces: SendPieces, body: bytes) -> None:
        """Send a request with an encoded header that gets no answer; raise ConnectionLost or CodecError as `send`."""
        if self.is_closed:
            raise self._closed()
        if self._signer is not None:
            pieces = self._signer.signed_pieces(pieces, body)
        self._send(self._wire.send_oneway(pieces, body))

    def _closed(self) -> ConnectionLost:
        return ConnectionLost(f"the connection to {self.address} is closed")

    def answer(self, command: Command, answer: Answer) -> None:
        """Send an answer (an error if it is too large) to the peer, unless the request is one-way or the channel closed."""
        if command.flag & ONEWAY or self.is_closed:
            return
        body = answer.body if isinstance(answer.body, bytes) else b"".join(answer.body)
        try:
            frame = answer_head(command, answer, len(body)) + body
        except CodecError as error:
            frame = answer_head(command, instead_of(error, command[0]), 0)
        self._send(frame)

    async def drain(self) -> None:
        """Wait while much unsent data is buffered; raise ConnectionLost if the connection is gone then."""
        await self._can_write.wait()
        if self.is_closed:
            raise self._closed()

    def _send(self, frame: Outgoing) -> None:
        self._outgoing.append(frame)
        if len(self._outgoing) == 1:
            self._loop.call_soon(self._write_outgoing)

    def _first_outgoing(self) -> None:
        """Write the first queued request now if no other is unanswered; otherwise schedule writing."""
        if self._wire.waiting == 1:
            # No other request is unanswered: the caller sends one at a time and should not wait.
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
        """Write queued requests if direct writes to the socket are safe; the transport sends what the socket refuses."""
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
        """Whether a request still waits for its answer."""
        return bool(self._wire.waiting)

    def close(self) -> None:
        """Close the connection after sending the queued requests, as far as the peer reads them."""
        if self._writer is not None and not self.is_closed:
            self._write_outgoing()
            self._writer.close()

    async def wait_gone(self) -> None:
        """Wait until the connection is gone."""
        await self._gone.wait()

    async def wait_closed(self, *, timeout_ms: float = 2000) -> None:
        """Wait until the connection is closed; abort it after `timeout_ms`."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._gone.wait()
        except TimeoutError:
            if self._transport is not None:
                self._transport.abort()
