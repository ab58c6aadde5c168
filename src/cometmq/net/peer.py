"""An accepted connection: an asyncio protocol on one side, an interface for request handlers on the other.

A connection is in one of six states (`PeerState`); the constants below list the next state for each event. Received
bytes are mostly handled together with those of other connections in the read batch (net.turn), but alone if recent
batches had only one small read. What no fast path accepts is decoded (wire.connection); answers to a read usually
leave with one write. A peer that does not read its answers is not read either, and further requests of it mostly wait
until at most a quarter of the write buffer (1 MiB) is unsent, which limits memory.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from cometmq.codec.host import encode_host
from cometmq.codec.remoting import (
    FRAME_SIZE_MAX,
    Command,
    RawCommand,
    check_frame_size,
    decode_command,
)
from cometmq.kernel import PeerEnd, encode_answer_head
from cometmq.kernel.turn_reads import PeerState
from cometmq.model.codes import ResponseCode, request_name
from cometmq.model.errors import CodecError, ConnectionLost, RequestTimeout
from cometmq.model.flags import ONEWAY, RESPONSE
from cometmq.model.rights import Asker
from cometmq.net.answer import Answer, answer_head, instead_of
from cometmq.net.connections import OpenConnection, ServedProtocol
from cometmq.net.socket_writer import SocketWriter
from cometmq.steps.steps import Done, Steps, called_back
from cometmq.wire.connection import Connection

if TYPE_CHECKING:
    from cometmq.net.server import Server

_log = logging.getLogger(__name__)

# Maximum header: properties of a message have 32767 bytes, or more when escaped; no valid request reaches this.
HEADER_SIZE_MAX = 65_536
# Answers to one read are collected up to this many bytes before they are written.
GATHER_SIZE_MAX = 1 << 20
# Stop reading from a peer that has not read this many bytes of answers.
WRITE_BUFFER_MAX = 1 << 20
# Unread answers up to this many bytes are not counted; most have left by the end of the loop iteration.
UNREAD_SHARE = 16 << 10
# Approximate memory of a decoded, waiting request in bytes.
REQUEST_SIZE = 2048
# Bytes decoded at a time; 256 small sends have 64 KB.
DECODED_SIZE = 64 << 10

QUIET, QUEUED, HELD, PAUSED, CLOSING, CLOSED = map(int, PeerState)
# The next state for each state, in their order (docs/design/0037). Only in the first two states the peer is read.
Event = tuple[int, int, int, int, int, int]
MORE_CAME: Event = QUEUED, HELD, HELD, PAUSED, CLOSING, CLOSED
SOME_LEFT: Event = QUEUED, QUEUED, HELD, PAUSED, CLOSING, CLOSED
ALL_HANDLED: Event = QUIET, QUIET, QUIET, PAUSED, CLOSING, CLOSED
ANSWERS_PILE_UP: Event = PAUSED, PAUSED, PAUSED, PAUSED, CLOSING, CLOSED
ANSWERS_LEFT: Event = QUIET, QUEUED, HELD, HELD, CLOSING, CLOSED
CLOSE: Event = CLOSING, CLOSING, CLOSING, CLOSING, CLOSING, CLOSED
LOST: Event = CLOSED, CLOSED, CLOSED, CLOSED, CLOSED, CLOSED


class Peer(PeerEnd, ServedProtocol):
    """A client, broker or tool that connected to this server.

    `PeerEnd.data_received`, of the base class, gets received bytes first; it calls `read_more` if earlier ones wait.

    Attributes:
        address: "ip:port" of the peer, IPv6 in brackets.
        host: The same as records store it, 8 or 20 bytes.
        ip: Its IP address; an IPv4 address mapped into IPv6 is shown as IPv4.
        is_on_own_machine: Whether it runs on this machine and this machine is trusted.
        is_encrypted: Whether the connection uses TLS.
        has_signed: Whether any of its requests had a valid signature.
        signed_by: Last user whose request was signed, or need not be. Only the gate (access.gate) may read
            this: when a handler runs, the next request may have changed it. Handlers get their asker as an argument.
        on_close: Callbacks that get the peer once when the connection, if it was set up, is gone.
        network: Network that the connection counts towards (`net.connections`).
        partial_size: Number of buffered bytes of an incomplete frame.
        dispatcher: Calls the handlers of its requests.
    """

    # Without slots this many attributes would use a dictionary of 3 KB, parts of which are read for each message.
    __slots__ = (
        "_backlog", "_gathered", "_gathered_size", "_has_unread", "_is_gathering", "_joined",
        "_joined_at", "_server", "_transport", "_turn", "_wire", "_writer", "address",
        "dispatcher", "has_signed", "ip", "is_encrypted", "is_on_own_machine",
        "network", "on_close", "partial_size", "signed_by",
    )  # fmt: skip

    def __init__(self, server: "Server", came: OpenConnection) -> None:
        super().__init__(server.turn, encode_host(came.address))
        self.address, self.ip, self.network = came.address, came.ip, came.network
        self.is_on_own_machine = came.is_on_own_machine
        self.is_encrypted = False
        self.signed_by: Asker | None = None
        self.has_signed = False
        self.on_close: list[Callable[[Peer], None]] = []
        self.partial_size = 0
        self._server = server
        self._wire: Connection[Done] = Connection(header_size_max=HEADER_SIZE_MAX)
        self._transport: asyncio.Transport | None = None
        self._writer: SocketWriter | None = None
        self._has_unread = False  # Whether unread answers are counted.
        self._gathered: list[bytes | memoryview] = []
        self._gathered_size = 0
        self._is_gathering = False
        self._turn = server.turn
        self.dispatcher = server.dispatcher
        self._joined = b""  # Frames of which the intake has had a share.
        self._joined_at = 0  # Position of the next frame in it.
        self._backlog: list[RawCommand] = []  # Decoded requests, handled in shares.

    # --- callbacks of asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Set up the writer; close the connection if the server is closing or has dropped it meanwhile."""
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_MAX)
        self._writer = SocketWriter(self._transport)
        self.is_encrypted = transport.get_extra_info("sslcontext") is not None
        if self.state == CLOSING:  # Server closing, or replaced by a newcomer.
            self._writer.abort()

    # --- its state

    @property
    def is_closed(self) -> bool:
        """Whether the connection is gone."""
        return self.state == CLOSED

    @property
    def is_paused(self) -> bool:
        """Whether the peer is not read, because too many bytes of its answers are unread."""
        return self.state == PAUSED

    @property
    def is_read(self) -> bool:
        """Whether the peer is being read; False while requests or unread answers block it, and once it is closing."""
        return self.state <= QUEUED

    def _on(self, event: Event) -> None:
        before, self.state = self.state, event[self.state]
        if self.state > QUEUED:
            self.sends_alone = False
            if self.state >= CLOSING:
                self.direct_fd = -1
            elif before <= QUEUED and self._transport is not None:
                self._transport.pause_reading()
        elif before > QUEUED and self._transport is not None:
            self._transport.resume_reading()

    # --- reading

    def read_more(self, data: bytes) -> None:
        """Keep bytes received while earlier ones wait, and stop reading until all are handled; drop them if closing."""
        if self.state < CLOSING:
            self.unread += data
            self._on(MORE_CAME)
            self._turn.arrived(len(data))

    def next_requests(self, count: int) -> list[RawCommand] | None:
        """Return the next decoded requests, at most `count`; the caller (`net.turn`) calls `end_share` afterwards.

        The fast path may accept some first. None means that nothing is left, and `end_share` must not be called.
        """
        if self.state >= PAUSED:
            return []
        if self._backlog:
            # The intake must not accept requests that would overtake waiting ones.
            commands, self._backlog = self._backlog, []
            if len(commands) < count:
                commands += self._new_requests(0) or []
        elif (some := self._new_requests(count)) is None:
            self.state = QUIET
            return None
        else:
            commands = some
        if len(commands) > count:
            commands, self._backlog = commands[:count], commands[count:]
        return commands

    def end_share(self) -> bool:
        """If nothing is left, resume reading unless paused, or close if faulty; return whether more can be handled now."""
        if self._backlog or self.unread or self._joined:
            self._on(SOME_LEFT)
            return self.state <= HELD
        if self._wire.fault is None:
            self._on(ALL_HANDLED)
        elif self.state <= HELD:
            self._close_faulty()
        return False

    def put_back(self, commands: list[RawCommand]) -> None:
        """Keep requests for a later batch that were not handled, for example because time ran out."""
        self._backlog = commands + self._backlog

    def _new_requests(self, taken_max: int) -> list[RawCommand] | None:
        """Offer waiting bytes to the fast path and decode others, usually at most 128 KiB; None: nothing is left."""
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
        if wire.buffered or wire.skipped:  # Inlined `is_within_frame`.
            data = wire.join(data)
        return self._split(data, 0, taken_max)

    def _split(self, data: bytes, position: int, taken_max: int) -> list[RawCommand] | None:
        """Offer up to `taken_max` requests to the fast path; if it accepts fewer, decode others; None: nothing left."""
        intake = self.dispatcher.intake
        if data and taken_max and intake is not None:
            before = intake.count
            position = intake.take(data, position, self, taken_max)
            if intake.passed_over:
                data, position = b"".join([*intake.passed_over, data[position:]]), 0
                intake.passed_over.clear()
            if position == len(data):
                if not self.partial_size and self.state == QUEUED:  # Nearly always.
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
            if self.state >= CLOSING:
                return []
        return commands

    def _read(self, data: bytes, position: int) -> list[RawCommand]:
        """Decode requests, mostly only a part of a long read, because decoded small requests take more memory."""
        wire = self._wire
        if (
            len(data) - position > 2 * DECODED_SIZE
            and int.from_bytes(data[position : position + 4]) + 4 <= DECODED_SIZE
        ):
            end = position + DECODED_SIZE  # With the next request, to make progress.
            self.unread = data[end:] + self.unread
            self._turn.kept(len(data) - end)
            data, position = data[position:end], 0
        judge = None if self._server.strangers is None else self._judge
        commands = wire.read(data, position, judge)
        if wire.bad_frames:
            self._refuse_bad_frames()
        if wire.fault is not None:
            self._forget_unread()  # Later bytes cannot be decoded.
        return commands

    @property
    def is_header_whole(self) -> bool:
        """Whether the header of the buffered incomplete frame has arrived; True if none is buffered."""
        return self._wire.is_header_whole

    def _judge(self, kind: int, header: bytes) -> str | None:
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
        self._server.bad_frames += 1
        _log.warning("closing %s: %s", self.address, self._wire.fault)
        self.close()

    def unread_size(self) -> int:
        """Return the bytes of answers that the transport holds, plus 2 KiB for each decoded request that waits."""
        unread = 0 if self._writer is None else self._writer.unsent
        return unread + REQUEST_SIZE * len(self._backlog)

    def _note_unread(self) -> None:
        size = self.unread_size()
        self._has_unread = size > 0
        self._server.unread_answers.note(self, size)

    def _refuse_bad_frames(self) -> None:
        for error, opaque, flag in self._wire.bad_frames:
            self._server.bad_frames += 1
            if opaque is None:
                continue
            if flag is not None and flag & RESPONSE:
                done = self._wire.take(opaque)
                if done is not None:
                    done(None, error)
            else:
                refused = Command(0, flag=flag or 0, opaque=opaque)
                self.answer(
                    refused, Answer(ResponseCode.SYSTEM_ERROR, f"unreadable frame: {error}")
                )
        self._wire.bad_frames.clear()

    def pause_writing(self) -> None:
        """Stop reading from the peer and handling its further requests, because it reads its answers too slowly."""
        self._on(ANSWERS_PILE_UP)

    def resume_writing(self) -> None:
        """Queue waiting requests to be handled, or resume reading, because the peer has read most of its answers."""
        self._note_unread()
        self._on(ANSWERS_LEFT)
        if self.end_share():
            self._turn.join(self)

    def connection_lost(self, _exc: Exception | None) -> None:
        """Drop buffered bytes and requests, fail pending calls with ConnectionLost and notify `on_close`."""
        self._on(LOST)
        if self._writer is not None:
            self._writer.lost()
        for _, done in self._wire.close():
            done(None, ConnectionLost(f"{self.address} closed the connection"))
        self._server.half_frames.note(self, 0)
        self._server.unread_answers.note(self, 0)
        self._forget_unread()
        self._backlog = []
        self._server.forget(self)
        for callback in self.on_close:
            callback(self)
        self.on_close.clear()

    # --- interface for handlers

    def gather(self) -> None:
        """Collect what is written until `flush` or `write_at_once`, but send it whenever it exceeds 1 MiB."""
        self._is_gathering, self.direct_fd = True, -1

    def write(self, data: bytes | memoryview) -> None:
        """Send whole frames, usually collected until `flush` or the next loop iteration; dropped if closing."""
        if self.state >= CLOSING:
            return
        self._gathered.append(data)
        self._gathered_size += len(data)
        self._send_or_gather()

    def _send_or_gather(self) -> None:
        if self._gathered_size > GATHER_SIZE_MAX:
            self._send_gathered()
        elif not self._is_gathering:
            self.gather()
            self._turn.flush_soon(self)

    def write_otherwise(self, data: bytes | memoryview) -> None:
        """Send what was collected and then `data`, at once as far as that is safe; dropped if closing."""
        writer = self._writer
        if writer is None or self.state >= CLOSING:
            return
        if self._gathered:
            self._gathered.append(data)
            data = self._take_gathered()
        self._is_gathering = False
        # The transport would wait for the end of the loop iteration, which comes after dispatch.
        if not writer.write_now(data) or self._has_unread:
            self._note_rest(writer)
        else:
            self.direct_fd = writer.fd

    def write_pieces_at_once(self, pieces: list[bytes | memoryview], size: int) -> None:
        """Send what was collected and then pieces of frames, `size` bytes in total, as far as is safe; dropped if closing."""
        writer = self._writer
        if writer is None or self.state >= CLOSING:
            return
        if self._gathered:
            self.write_at_once(b"".join(pieces))
        elif not writer.write_pieces_now(pieces, size) or self._has_unread:
            self._note_rest(writer)

    def flush(self) -> None:
        """Send what was collected and stop collecting; the dispatcher calls this after handling requests."""
        self._is_gathering = False
        if self._gathered:
            self.write_otherwise(self._take_gathered())

    def _note_rest(self, writer: SocketWriter) -> None:
        self.direct_fd = -1
        if self._has_unread or writer.unsent > UNREAD_SHARE:
            self._note_unread()

    def _take_gathered(self) -> bytes | memoryview:
        pieces, self._gathered, self._gathered_size = self._gathered, [], 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _send_gathered(self) -> None:
        data, writer = self._take_gathered(), self._writer
        if writer is None or self.state >= CLOSING:
            return
        self.direct_fd = -1
        writer.write_now(data)
        if writer.unsent > UNREAD_SHARE:
            self._note_unread()

    def answer(self, command: Command | RawCommand, answer: Answer) -> None:
        """Queue the answer to a request unless that is one-way; an error if encoding fails. Dropped if closing."""
        if command[1] & ONEWAY:
            return
        code, remark, fields, body = answer
        size = 0
        if body:
            size = sum(map(len, body)) if body.__class__ is list else len(body)
        try:
            head = encode_answer_head(code, command[2], remark, fields, size)
            size += len(head)
            if size > FRAME_SIZE_MAX:
                check_frame_size(size)
        except Exception as error:  # noqa: BLE001  Must not affect other requests or connections.
            head, body = answer_head(command, instead_of(error, command[0]), 0), b""
            size = len(head)
        if self.state >= CLOSING:
            return
        self._gathered.append(head)
        if body:
            self._gathered += body if isinstance(body, list) else (body,)
        self._gathered_size = size = self._gathered_size + size
        if size > GATHER_SIZE_MAX or not self._is_gathering:
            self._send_or_gather()

    def notify(self, code: int, fields: dict[str, str], body: bytes = b"") -> None:
        """Send a one-way request to the peer; it is dropped if the connection is closing."""
        self.write(self._wire.oneway(Command(int(code), fields=fields, body=body)))

    def call(
        self, code: int, fields: dict[str, str], body: bytes = b"", *, timeout_ms: int = 10_000
    ) -> Steps[Command]:
        """Return a generator (`Steps`) that sends a request to the peer and returns its answer, whatever its code.

        Raises:
            RequestTimeout: No answer within `timeout_ms`.
            ConnectionLost: The connection was lost, or is closing.
            CodecError: The answer cannot be decoded.
        """
        if self.state >= CLOSING:
            raise ConnectionLost(f"{self.address} closed the connection")
        command = Command(int(code), fields=fields, body=body)
        deadline = self._server.clock.monotonic() + timeout_ms / 1000

        def begin(done: Done) -> None:
            self.write(self._wire.request(command, done, deadline=deadline))

        try:
            answer: Command = yield from called_back(begin, timeout_ms / 1000)
        except TimeoutError:
            self._wire.expire(deadline)
            raise RequestTimeout(
                f"{self.address} did not answer {request_name(code)} within {timeout_ms} ms"
            ) from None
        return answer

    def take_answer(self, command: RawCommand) -> None:
        """Deliver the peer's answer to one of our requests; ignore it if no request waits for it (any more)."""
        done = self._wire.take(command[2])
        if done is not None:
            done(Command(*command), None)

    def close(self) -> None:
        """Close the connection after sending what was already written."""
        self.flush()
        self._on(CLOSE)
        if self._writer is not None and self.state == CLOSING:
            self._writer.close()

    def abort(self) -> None:
        """Close the connection immediately; answers that the socket has not accepted are lost."""
        self._on(CLOSE)
        if self._writer is not None and self.state == CLOSING:
            self._writer.abort()
