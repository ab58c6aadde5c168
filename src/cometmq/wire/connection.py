"""One connection without its socket: bytes in, commands out, and who still waits for an answer.

Either side uses it: requests and answers share the stream in both directions, and each side counts
its own opaques. Whole frames of one read come out together, because a read is a batch.
A frame that cannot be read is reported beside them and skipped; only a length that cannot be true
ends the connection, since nothing behind it can be found.
"""

import re
import struct
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

from cometmq.codec.header_json import LANGUAGES, decode_json_command
from cometmq.codec.remoting import (
    FRAME_SIZE_MAX,
    JSON,
    Command,
    RawCommand,
    check_frame_size,
    decode_command,
    encode_command,
)
from cometmq.codec.send_text import END, SendPieces
from cometmq.kernel import encode_requests, read_commands, rows
from cometmq.kernel.reference import FRAME_HEAD, FRAME_HEAD_SIZE
from cometmq.model.errors import CodecError
from cometmq.model.flags import ONEWAY

Waiter = TypeVar("Waiter")
# What `kernel.encode_requests` makes a frame of: a frame, or the pieces of a send.
Outgoing = rows.Outgoing
# Asked of a frame that is large, before it is kept, with the kind and the bytes of its header: why it is not, or None.
Judge = Callable[[int, bytes], str | None]

# A frame with a body up to this is none too large: its header has 32767 bytes of properties, six
# times as many where each is escaped, and some names.
# What is kept of a frame before somebody is asked whether it may be larger (`Judge`), bytes.
LARGE_FRAME_SIZE = 64 << 10
_BODY_SURE_MAX = FRAME_SIZE_MAX // 2

_FRAME_NUMBERS = 4  # Of an item that is a frame; a command has more.

# Of what is kept of a frame, bytes: smaller pieces are put together, so that each costs little.
_PIECE_SIZE = 64 << 10
_HEADER_SIZE_MASK = 0xFFFFFF

_OPAQUE_MASK = 0x7FFFFFFF
_JSON_OPAQUE = re.compile(rb'"opaque"\s*:\s*(-?\d{1,10})')
_BINARY_OPAQUE = struct.Struct(">i")
_BINARY_OPAQUE_AT = 5  # code 2, language 1, version 2 (docs/format/remoting.md)


class BadFrame(NamedTuple):
    """A frame that was skipped: why, and its opaque where that could still be found."""

    error: CodecError
    opaque: int | None


class Connection(Generic[Waiter]):
    """Frames of one byte stream, and the requests of our side that wait on it.

    Attributes:
        buffered: bytes of a frame that has not arrived whole.
        skipped: bytes to come of a frame that was refused already.
        bad_frames: frames skipped since the caller last cleared the list.
        fault: why nothing more can be read from this stream, None while all is well.
        awaited: requests of ours without an answer, by opaque: deadline, and who waits. A reader of
            many answers pops from it; `take` is the same for one.
    """

    __slots__ = (
        "_frame_size_max", "_header_size_max", "_needed", "_opaque", "_partial", "awaited", "bad_frames", "buffered",
        "fault", "skipped",
    )  # fmt: skip

    def __init__(
        self, *, frame_size_max: int = FRAME_SIZE_MAX, header_size_max: int = FRAME_SIZE_MAX
    ) -> None:
        """Limits are in bytes; a longer frame ends the connection, a longer header is skipped."""
        self.buffered = 0
        self.bad_frames: list[BadFrame] = []
        self.fault: CodecError | None = None
        self._frame_size_max = frame_size_max
        self._header_size_max = header_size_max
        self._partial: list[bytearray] = []
        self._needed = 0
        self.skipped = 0
        self._opaque = 0
        self.awaited: dict[int, tuple[float, Waiter]] = {}

    @property
    def waiting(self) -> int:
        """Requests of ours without an answer."""
        return len(self.awaited)

    @property
    def is_within_frame(self) -> bool:
        """Whether a frame has begun and not ended."""
        return bool(self.buffered or self.skipped)

    @property
    def is_header_whole(self) -> bool:
        """Whether the header is here of the frame that has begun; True where none has."""
        if not self.buffered:
            return True
        if self.buffered < FRAME_HEAD_SIZE:
            return False
        _, kind_and_size = FRAME_HEAD.unpack_from(self._partial[0])
        return bool(self.buffered >= FRAME_HEAD_SIZE + (kind_and_size & _HEADER_SIZE_MASK))

    def receive_data(self, data: bytes) -> list[RawCommand]:
        """Take the bytes of one read and give the commands that are whole now, in order.

        After it, `bad_frames` tells what was skipped, and `fault` whether the stream is lost.
        """
        data = self.join(data)
        return self.read(data, 0) if data else []

    def join(self, data: bytes) -> bytes:
        """Take the bytes of one read, and give what is to be read now: from the begin of a frame on; nothing while one lacks more."""
        if self.skipped:
            taken = min(self.skipped, len(data))
            self.skipped -= taken
            data = data[taken:]
        if self.buffered:
            self._keep(data)
            if self.buffered < self._needed:
                return b""
            data = b"".join(self._partial)
            self._partial.clear()
            self.buffered = 0
        return data

    def read(self, data: bytes, position: int, judge: Judge | None = None) -> list[RawCommand]:
        """Give the commands of what `join` gave, from a frame on; what is not whole is kept, unless `judge` refuses it.

        `judge` is given with each read and not kept: it is the owner's, who would live on in a circle with this
        connection when both are gone. After it, `bad_frames` tells what was skipped, and `fault` whether the stream is lost.
        """
        commands: list[RawCommand] = []
        size = len(data)
        try:
            while position < size:
                items, position, are_commands = read_commands(
                    data, position, self._frame_size_max, self._header_size_max, LANGUAGES
                )
                if are_commands and position == size and not commands:
                    return items  # Most reads.
                if not items:
                    break
                self._decode(data, items, commands)
        except CodecError as error:
            # Its traceback would hold this frame of the interpreter, and that this connection: a circle.
            self.fault = error.with_traceback(None)
            return commands
        if position < size:
            self._keep_rest(data, position, judge)
        return commands

    def _decode(self, data: bytes, items: list[Any], commands: list[RawCommand]) -> None:
        """Add what the kernel gave: commands, and frames that are still to be decoded."""
        header_size_max = self._header_size_max
        append = commands.append
        for item in items:
            if len(item) != _FRAME_NUMBERS:
                append(item)
                continue
            kind, start, body_start, end = item
            try:
                if body_start > end or body_start - start > header_size_max:
                    raise _header_error(start, body_start, end, header_size_max)
                if kind == JSON:
                    append(decode_json_command(data[start:body_start], data[body_start:end]))
                else:
                    append(decode_command(kind, data[start:body_start], data[body_start:end]))
            except CodecError as error:
                header = data[start : min(body_start, end)]
                self.bad_frames.append(BadFrame(error, _salvage_opaque(kind, header)))

    def _keep_rest(self, data: bytes, start: int, judge: Judge | None) -> None:
        """Keep the begin of a frame; of one with a header that is none, no more than shows whose it is."""
        have = len(data) - start
        if have < FRAME_HEAD_SIZE:
            self._needed = FRAME_HEAD_SIZE
        else:
            # With 8 bytes its length was judged already; with fewer it is judged when they are there.
            length, kind_and_size = FRAME_HEAD.unpack_from(data, start)
            kind, header_size = kind_and_size >> 24, kind_and_size & _HEADER_SIZE_MASK
            self._needed = 4 + length
            enough = FRAME_HEAD_SIZE + self._header_size_max
            if header_size > self._header_size_max and self._needed > enough:
                if have >= enough:
                    header = data[start + FRAME_HEAD_SIZE : start + enough]
                    error = _header_error(0, header_size, length - 4, self._header_size_max)
                    self.bad_frames.append(BadFrame(error, _salvage_opaque(kind, header)))
                    self.skipped = self._needed - have
                    return
                self._needed = enough
            elif self._needed > LARGE_FRAME_SIZE and judge is not None:
                header_end = FRAME_HEAD_SIZE + header_size
                header = data[start + FRAME_HEAD_SIZE : start + header_end]
                if have < header_end:
                    self._needed = header_end
                elif (why := judge(kind, header)) is not None:
                    refused = BadFrame(CodecError(why), _salvage_opaque(kind, header))
                    self.bad_frames.append(refused)
                    self.skipped = self._needed - have
                    return
        self._keep(data[start:])

    def _keep(self, data: bytes) -> None:
        """Keep more of it: in pieces, since one that grew would be copied, and leave holes in memory."""
        if self._partial and len(self._partial[-1]) < _PIECE_SIZE:
            self._partial[-1] += data
        else:
            self._partial.append(bytearray(data))
        self.buffered += len(data)

    def next_opaque(self) -> int:
        """A number no waiting request of ours uses."""
        self._opaque = self._opaque + 1 & _OPAQUE_MASK
        while self._opaque in self.awaited:
            self._opaque = self._opaque + 1 & _OPAQUE_MASK
        return self._opaque

    @property
    def following_opaque(self) -> int:
        """The number behind the last; a request of ours may be using it, where they have gone round."""
        return self._opaque + 1 & _OPAQUE_MASK

    def used_opaques(self, count: int) -> None:
        """Note that so many requests have taken the numbers from `following_opaque` on, and entered who waits for them."""
        self._opaque = self._opaque + count & _OPAQUE_MASK

    def request(self, command: Command, waiter: Waiter, *, deadline: float) -> bytes:
        """The bytes of a request; `waiter` comes back from `take` when its answer is here.

        Args:
            command: its opaque is replaced by one of this connection.
            waiter: whatever the caller wants back.
            deadline: on the caller's monotonic clock, seconds.
        """
        opaque = self.next_opaque()
        # By hand: _replace takes 1 us, of the 15 that a gathered send may take.
        frame = encode_command((command[0], command[1], opaque, *command[3:]))
        self.awaited[opaque] = (deadline, waiter)
        return frame

    def send(
        self, pieces: SendPieces, body: bytes, waiter: Waiter, deadline: float
    ) -> Outgoing:
        """A send with an opaque of this connection, for `kernel.encode_requests`.

        Args:
            pieces: its header as text (`codec.send_text`).
            body: behind the header.
            waiter: as in `request`.
            deadline: as in `request`.

        Raises:
            CodecError: the frame would be too large.
        """
        opaque = self.next_opaque()
        front, queue_id, middle, back = pieces
        if body.__class__ is not bytes:
            body = bytes(body)  # Found here and not when all of this turn leave together.
        send = front, queue_id, middle, back, opaque, END, body
        if len(body) > _BODY_SURE_MAX:
            check_frame_size(len(encode_requests([send])))
        self.awaited[opaque] = (deadline, waiter)
        return send

    def send_oneway(self, pieces: SendPieces, body: bytes) -> Outgoing:
        """Encode a send that nobody answers; its header says so."""
        front, queue_id, middle, back = pieces
        send = front, queue_id, middle, back, self.next_opaque(), END, body
        check_frame_size(len(encode_requests([send])))
        return send

    def oneway(self, command: Command) -> bytes:
        """The bytes of a request that nobody answers."""
        opaque = self.next_opaque()
        return encode_command(command._replace(opaque=opaque, flag=command.flag | ONEWAY))

    def take(self, opaque: int) -> Waiter | None:
        """Take the waiter for the answer with this opaque; None for a late or unknown answer."""
        found = self.awaited.pop(opaque, None)
        return None if found is None else found[1]

    @property
    def first_deadline(self) -> float:
        """The earliest deadline of those who wait; somebody must be waiting."""
        return min(deadline for deadline, _ in self.awaited.values())

    def expire(self, now: float) -> list[tuple[int, Waiter]]:
        """Take the waiters whose deadline has passed, with their opaques; their answers are dropped when they come."""
        late = [opaque for opaque, (deadline, _) in self.awaited.items() if deadline <= now]
        return [(opaque, self.awaited.pop(opaque)[1]) for opaque in late]

    def close(self) -> list[tuple[int, Waiter]]:
        """Everyone who still waits, with the opaque; nothing will come any more."""
        left = [(opaque, waiter) for opaque, (_, waiter) in self.awaited.items()]
        self.awaited.clear()
        self._partial.clear()
        self.buffered = 0
        return left


def _header_error(start: int, body_start: int, end: int, limit: int) -> CodecError:
    size, frame_size = body_start - start, end - start + FRAME_HEAD_SIZE
    if size > limit:
        return CodecError(f"a header of {size} bytes; {limit} is the most")
    return CodecError(f"a header of {size} bytes in a frame of {frame_size}")


def _salvage_opaque(kind: int, header: bytes) -> int | None:
    # So that the sender of a broken header can be told; without an opaque nobody waits for us.
    if kind == JSON:
        found = _JSON_OPAQUE.search(header)
        return int(found[1]) if found and abs(int(found[1])) <= _OPAQUE_MASK else None
    if len(header) >= _BINARY_OPAQUE_AT + 4:
        opaque: int = _BINARY_OPAQUE.unpack_from(header, _BINARY_OPAQUE_AT)[0]
        return opaque
    return None
