"""One accepted connection: an asyncio protocol below, what handlers see of it above.

Bytes of one read wait for the end of the loop's turn (net.turn). There they become commands (wire.connection), go
through the dispatcher with those of others, and their answers leave with one write. A peer that does not read its
answers is not read either: its commands wait until its buffer has drained, so its memory is bounded.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from cometmq.codec.host import encode_host
from cometmq.codec.remoting import Command, RawCommand, decode_command
from cometmq.kernel import PeerEnd
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CodecError, ConnectionLost, RequestTimeout
from cometmq.model.flags import ONEWAY
from cometmq.model.rights import Asker
from cometmq.net.answer import Answer, answer_head, instead_of
from cometmq.net.connections import network_of
from cometmq.net.own_machine import is_own_machine, plain_ip
from cometmq.net.socket_writer import SocketWriter
from cometmq.net.tasks import Tasks
from cometmq.net.turn import COUNT_MAX, SMALL_TURN
from cometmq.wire.connection import Connection

if TYPE_CHECKING:
    from cometmq.net.server import Server

_log = logging.getLogger(__name__)

# A request's header carries a message's properties (at most 32767 bytes, more once escaped);
# nothing legal comes near this.
HEADER_SIZE_MAX = 65_536
# Answers of one read are written together up to this; then the socket gets them, bytes.
GATHER_SIZE_MAX = 1 << 20
# A peer that has not read so many bytes of answers is not read either.
WRITE_BUFFER_MAX = 1 << 20
# Answers on their way that are not counted: most are gone at the end of the loop's turn.
UNREAD_SHARE = 16 << 10
# What a request costs that was decoded and waits, about, bytes.
REQUEST_SIZE = 2048
# Of bytes that wait so many are decoded at once; a batch of 256 small sends has 64 KB.
DECODED_SIZE = 64 << 10


class Peer(PeerEnd, asyncio.Protocol):
    """A client, broker or tool that connected to us.

    What it brings comes first to `PeerEnd.data_received`, which knows those who wait for the answer to each send.

    Attributes:
        address: its "ip:port".
        host: the same as records store it, 8 or 20 bytes.
        ip: its address alone, IPv4 as IPv4.
        is_on_own_machine: whether it sits on this machine, where that is trusted.
        is_encrypted: whether it talks over TLS.
        has_signed: whether a request of it had a good signature.
        signed_by: the user who signed here last. Only the gate (access.gate) may read it: by the time that a
            handler runs, the next request may have changed it. A handler is given its asker.
        is_closed: whether the connection is gone.
        on_close: called once with the peer when the connection is gone.
        network: whose connection it is where connections are counted (`net.connections`).
        partial_size: bytes of a frame that is not whole.
        has_spoken: whether any bytes had come before the server last looked for silent connections.
        silent_since: monotonic time of that look, seconds.
        tasks: background tasks that die with the connection.
    """

    # With so many attributes it had a dictionary of its own otherwise, 3 KB of which each message read some.
    __slots__ = (
        "_backlog", "_dispatcher", "_gathered", "_gathered_size", "_has_unread",
        "_is_gathering", "_is_held", "_is_unwanted", "_joined", "_joined_at", "_server",
        "_transport", "_turn", "_wire", "_writer", "address", "has_signed",
        "has_spoken", "ip", "is_closed", "is_encrypted", "is_on_own_machine",
        "network", "on_close", "partial_size", "signed_by", "silent_since", "tasks",
    )  # fmt: skip

    def __init__(self, server: "Server", name: tuple[str, int], local: str) -> None:
        """Made by the server for each accepted connection.

        Args:
            server: it.
            name: address and port that the connection comes from.
            local: the address that it came to.
        """
        host, port = name
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        super().__init__(server.turn, encode_host(self.address))
        self.ip = plain_ip(host)
        self.is_on_own_machine = server.is_own_machine_trusted and is_own_machine(
            self.ip, plain_ip(local)
        )
        self.network = network_of(self.ip, is_own=self.is_on_own_machine)
        self.is_encrypted = False
        self.signed_by: Asker | None = None
        self.has_signed = False
        self.is_closed = False
        self.on_close: list[Callable[[Peer], None]] = []
        self.partial_size = 0
        self.has_spoken = False
        self.silent_since = server.clock.monotonic()
        self.tasks = Tasks("peer")
        self._server = server
        self._wire: Connection[asyncio.Future[Command]] = Connection(
            header_size_max=HEADER_SIZE_MAX
        )
        self._transport: asyncio.Transport | None = None
        self._writer: SocketWriter | None = None
        self._is_unwanted = False
        self._has_unread = False  # Answers.
        self._gathered: list[bytes | memoryview] = []
        self._gathered_size = 0
        self._is_gathering = False
        self._turn = server.turn
        self._dispatcher = server.dispatcher
        self._is_held = False  # It is not read, until what came is handled.
        self._joined = b""  # From the begin of a frame on, of which the intake has had a share.
        self._joined_at = 0  # Where in it the next frame begins.
        self._backlog: list[RawCommand] = []  # Decoded, of which a share is handled at a time.

    # --- the socket's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection stands."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_MAX)
        self._writer = SocketWriter(self._transport)
        self.is_encrypted = transport.get_extra_info("sslcontext") is not None
        if self._is_unwanted:  # The server closes, or has given its place to another.
            self._writer.abort()

    def read_otherwise(self, data: bytes) -> None:
        """Keep what came for this turn of the loop; who brings more in the same turn is not read until it is done."""
        turn, wire = self._turn, self._wire
        if turn.lone_reads and len(data) <= SMALL_TURN:
            intake = self._dispatcher.intake
            # As `is_within_frame`, on the way of each.
            if wire.buffered or wire.skipped:
                data = wire.join(data)
            if intake is None or self.partial_size:
                commands = self._split(data, 0, COUNT_MAX)
            elif (position := intake.take(data, 0, self, COUNT_MAX)) == len(data):
                turn.lone_reads -= 1  # What an unpipelined producer sends.
                self._dispatcher.handle_taken()
                return
            else:
                commands = self._split(data, position, 0)
            turn.handle_alone(commands or [], self, is_whole=wire.fault is None)
            return
        self.unread += data
        if self.is_in_turn:
            self._is_held, self.sends_alone = True, False
            self._pause_reading()
            turn.arrived(len(data))
        else:
            self.is_in_turn = True
            turn.join(self, len(data))

    def next_requests(self, count: int) -> list[RawCommand] | None:
        """Give the next requests, at most so many; called by the turn, which calls `end_share` when they are handled.

        Some may have gone to the dispatcher's intake instead, which come before those that are given. None: all that it
        brought did, and there is no share to end.
        """
        self.is_in_turn = False
        if self.is_paused or self.is_closed:
            return []
        if self._backlog:
            # Behind others that wait none may be taken, for they come first.
            commands, self._backlog = self._backlog, []
            if len(commands) < count:
                commands += self._new_requests(0) or []
        elif (some := self._new_requests(count)) is None:
            return None
        else:
            commands = some
        if len(commands) > count:
            commands, self._backlog = commands[:count], commands[count:]
        return commands

    def end_share(self) -> bool:
        """Go on reading where all is done; True where something is left for another share."""
        if self.is_closed or self.is_paused:
            return False
        if self._backlog or self.unread or self._joined:
            self.is_in_turn = True
            return True
        if self._wire.fault is not None:
            self._close_faulty()
        elif self._is_held:
            self._is_held = False
            self._read_on()
        return False

    def put_back(self, commands: list[RawCommand]) -> None:
        """Keep requests that were not handled, because it reads no answers at present."""
        self._backlog = commands + self._backlog

    def _new_requests(self, taken_max: int) -> list[RawCommand] | None:
        """Give requests that nobody has looked at, but for so many that the intake may take from the first on."""
        if self._joined:
            data, self._joined = self._joined, b""
            self._turn.gone(len(data) - self._joined_at)
            return self._split(data, self._joined_at, taken_max)
        data = self.unread
        if not data:
            return []
        self.unread = b""
        self._turn.gone(len(data))
        wire = self._wire
        if wire.buffered or wire.skipped:  # As `is_within_frame`, on the way of each.
            data = wire.join(data)
        return self._split(data, 0, taken_max)

    def _split(self, data: bytes, position: int, taken_max: int) -> list[RawCommand] | None:
        """Give the requests that are whole now, from a frame on, but for so many that the intake may take; None: it took all."""
        intake = self._dispatcher.intake
        if data and taken_max and intake is not None:
            before = intake.count
            position = intake.take(data, position, self, taken_max)
            if position == len(data):
                if not (self.partial_size or self._is_held):  # Nearly always.
                    return None
            elif intake.count - before == taken_max:
                self._joined, self._joined_at = data, position
                self._turn.kept(len(data) - position)
                position = len(data)
        self.sends_alone = False
        commands = self._read(data, position) if position < len(data) else []
        buffered = self._wire.buffered
        if buffered != self.partial_size:
            self.partial_size = buffered
            self._server.half_frames.note(self, buffered)
            if self._is_unwanted:
                return []
        return commands

    def _read(self, data: bytes, position: int) -> list[RawCommand]:
        """Decode requests: of many bytes a part, since decoded ones take ten times the memory."""
        wire = self._wire
        is_small = int.from_bytes(data[position : position + 4]) + 4 <= DECODED_SIZE
        if len(data) - position > 2 * DECODED_SIZE and is_small:
            end = (
                position + DECODED_SIZE
            )  # With the next request whole, so that there is an end.
            self.unread = data[end:] + self.unread
            self._turn.kept(len(data) - end)
            data, position = data[position:end], 0
        judge = None if self._server.strangers is None else self._judge
        commands = wire.read(data, position, judge)
        if wire.bad_frames:
            self._refuse_bad_frames()
        if wire.fault is not None:
            self._forget_unread()  # Nothing behind it can be read.
        return commands

    @property
    def is_header_whole(self) -> bool:
        """Whether the header is here of the frame that has begun."""
        return self._wire.is_header_whole

    def _judge(self, kind: int, header: bytes) -> str | None:
        """The reason to refuse a large frame: no known user has signed here yet, and it names none."""
        strangers = self._server.strangers
        if strangers is None or self.has_signed:
            return None
        try:
            fields = decode_command(kind, header, b"")[6]
        except CodecError:
            fields = {}
        return strangers.refusal_of_large(fields, self)

    def _forget_unread(self) -> None:
        self._turn.gone(len(self.unread))
        if self._joined:
            self._turn.gone(len(self._joined) - self._joined_at)
        self.unread = self._joined = b""

    def _close_faulty(self) -> None:
        self._server.count_bad_frame()
        _log.warning("closing %s: %s", self.address, self._wire.fault)
        self.close()

    @property
    def is_read(self) -> bool:
        """Whether we take what it sends: it waits neither for its turn nor for its own reading."""
        return not (self.is_paused or self._is_held)

    def _pause_reading(self) -> None:
        if self._transport is not None and not (self.is_closed or self._is_unwanted):
            self._transport.pause_reading()

    def _read_on(self) -> None:
        is_open = not (self.is_closed or self._is_unwanted)
        if self.is_read and is_open and self._transport is not None:
            self._transport.resume_reading()

    def unread_size(self) -> int:
        """Bytes of answers that it has not read, and of requests that wait for that."""
        unread = 0 if self._writer is None else self._writer.unsent
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
        self.is_paused, self.sends_alone = True, False
        self._pause_reading()

    def resume_writing(self) -> None:
        """Go on when the peer has read: do what waited, then read on."""
        self.is_paused = False
        self._note_unread()
        # Its last share may have ended while it was paused, with nothing left, and it is held since then.
        if not self.is_in_turn and self.end_share():
            self._is_held = True
            self._turn.join(self, 0)
        self._read_on()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Tell everyone who was interested in this peer."""
        self.is_closed, self.sends_alone, self.direct_fd = True, False, -1
        if self._writer is not None:
            self._writer.lost()
        for _, waiter in self._wire.close():
            if not waiter.done():
                waiter.set_exception(ConnectionLost(f"{self.address} closed the connection"))
        self._server.half_frames.note(self, 0)
        self._server.unread_answers.note(self, 0)
        self._forget_unread()
        self._backlog = []
        self._server.forget(self)
        for callback in self.on_close:
            callback(self)
        self.on_close.clear()
        self._server.tasks.spawn(self.tasks.close(), "close-peer")

    # --- the handlers' side

    def gather(self) -> None:
        """Gather what is written from now on, until `flush`."""
        self._is_gathering, self.direct_fd = True, -1

    def write(self, data: bytes | memoryview) -> None:
        """Send bytes of whole frames; during a read they are gathered for one write."""
        if self.is_closed:
            return
        self._gathered.append(data)
        self._gathered_size += len(data)
        if not self._is_gathering or self._gathered_size > GATHER_SIZE_MAX:
            self._send_gathered()

    def write_otherwise(self, data: bytes | memoryview) -> None:
        """See `PeerEnd`: behind what was gathered, and what the socket does not take when it can."""
        writer = self._writer
        if writer is None or self.is_closed:
            return
        if self._gathered:
            self._gathered.append(data)
            data = self._take_gathered()
        self._is_gathering = False
        # Not by the transport, which waits for the end of the turn: that comes behind dispatch.
        if not writer.write_now(data) or self._has_unread:
            self._note_rest(writer)
        else:
            self.direct_fd = writer.fd

    def write_pieces_at_once(self, pieces: list[bytes | memoryview], size: int) -> None:
        """Send some pieces of one frame, of so many bytes in all, as `write_at_once`."""
        writer = self._writer
        if writer is None or self.is_closed:
            return
        if self._gathered:
            self.write_at_once(b"".join(pieces))
        elif not writer.write_pieces_now(pieces, size) or self._has_unread:
            self._note_rest(writer)

    def flush(self) -> None:
        """Send what was gathered; called by the dispatcher when the requests of a turn are handled."""
        self._is_gathering = False
        if self._gathered:
            self.write_at_once(self._take_gathered())

    def _note_rest(self, writer: SocketWriter) -> None:
        """Note what the socket has not taken, where that is much or was."""
        self.direct_fd = -1
        if self._has_unread or writer.unsent > UNREAD_SHARE:
            self._note_unread()

    def _take_gathered(self) -> bytes | memoryview:
        pieces, self._gathered, self._gathered_size = self._gathered, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _send_gathered(self) -> None:
        data, writer = self._take_gathered(), self._writer
        if writer is None or self.is_closed:
            return
        self.direct_fd = -1
        if len(data) > GATHER_SIZE_MAX:
            writer.write_now(data)
        else:  # Of a turn there may be many; the transport writes them together.
            writer.write(data)
        if writer.unsent > UNREAD_SHARE:
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
        self._is_unwanted, self.direct_fd = True, -1
        if self._writer is not None and not self.is_closed:
            self._writer.close()

    def drop(self, why: str) -> None:
        """Close the connection at once, with a line in the log; what it has not read is lost."""
        _log.info("closing %s: %s", self.address, why)
        self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self._is_unwanted, self.direct_fd = True, -1
        if self._writer is not None and not self.is_closed:
            self._writer.abort()
