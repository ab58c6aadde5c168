"""One connection without its socket: bytes in, commands out, and the requests that wait for an answer.

Both sides use it: requests and answers share the stream in both directions, and each side counts its own opaques. All
complete frames of one read are returned together, because a read is a batch. A frame that cannot be decoded is reported
and skipped. Only an illegal length makes the stream unusable (`fault`), because later frames cannot be found.
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
# Input of `kernel.encode_requests`: a frame, or the pieces of a send.
Outgoing = rows.Outgoing
# (header kind, header bytes) -> why a large frame is refused, or None to accept it; called before it is buffered.
Judge = Callable[[int, bytes], str | None]

# A body up to _BODY_SURE_MAX never makes a frame too large: the header has 32,767 bytes of properties, six times as
# many if each is escaped, and some names. LARGE_FRAME_SIZE is the number of bytes buffered before `Judge` decides.
LARGE_FRAME_SIZE = 64 << 10
_BODY_SURE_MAX = FRAME_SIZE_MAX // 2

_FRAME_NUMBERS = 4  # Length of an item that is a frame; a command is longer.

# Buffered pieces smaller than this are joined, which limits their overhead.
_PIECE_SIZE = 64 << 10
_HEADER_SIZE_MASK = 0xFFFFFF

_OPAQUE_MASK = 0x7FFFFFFF
_JSON_OPAQUE = re.compile(rb'"opaque"\s*:\s*(-?\d{1,10})')
_JSON_FLAG = re.compile(rb'"flag"\s*:\s*(-?\d{1,10})')
_BINARY_NUMBER = struct.Struct(">i")
_BINARY_OPAQUE_AT = 5  # code 2, language 1, version 2 (docs/format/remoting.md)
_BINARY_FLAG_AT = 9


class BadFrame(NamedTuple):
    """A skipped frame.

    Attributes:
        error: Why it was skipped.
        opaque: The opaque in its header, or None if that could not be found.
        flag: Its flag, whose bits ONEWAY and RESPONSE say whether its sender waits for an answer; None if not found.
    """

    error: CodecError
    opaque: int | None
    flag: int | None


class Connection(Generic[Waiter]):
    """Frames of one byte stream, and this side's requests that wait for an answer.

    Attributes:
        buffered: Number of buffered bytes of an incomplete frame.
        skipped: Number of bytes still to come of a frame that was refused.
        bad_frames: Frames skipped since the caller last cleared the list.
        fault: Why the stream can no longer be read; None if it can.
        awaited: Deadline and waiter of our unanswered requests, by opaque. Readers of many answers pop from it
            directly.
    """

    __slots__ = (
        "_frame_size_max", "_header_size_max", "_needed", "_opaque", "_partial", "awaited", "bad_frames", "buffered",
        "fault", "skipped",
    )  # fmt: skip

    def __init__(
        self, *, frame_size_max: int = FRAME_SIZE_MAX, header_size_max: int = FRAME_SIZE_MAX
    ) -> None:
        """Set limits in bytes: a larger frame sets `fault`, and a frame with a larger header is skipped."""
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
        """Number of this side's unanswered requests."""
        return len(self.awaited)

    @property
    def is_within_frame(self) -> bool:
        """Whether a frame has been received in part."""
        return bool(self.buffered or self.skipped)

    @property
    def is_header_whole(self) -> bool:
        """Whether the header of the buffered incomplete frame has arrived; True if none is buffered."""
        if not self.buffered:
            return True
        if self.buffered < FRAME_HEAD_SIZE:
            return False
        _, kind_and_size = FRAME_HEAD.unpack_from(self._partial[0])
        return bool(self.buffered >= FRAME_HEAD_SIZE + (kind_and_size & _HEADER_SIZE_MASK))

    def receive_data(self, data: bytes) -> list[RawCommand]:
        """Process the bytes of one read and return the complete valid commands, in order.

        Afterwards `bad_frames` lists the skipped frames, and `fault` is set if the stream is lost.
        """
        data = self.join(data)
        return self.read(data, 0) if data else []

    def join(self, data: bytes) -> bytes:
        """Add the bytes of one read; return the bytes to parse, from a frame's start; b"" if more are needed first."""
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
        """Return the commands in the result of `join`, and buffer an incomplete rest, unless its header is refused.

        `judge` may refuse an incomplete frame over 64 KiB by its header. It is passed to each read and not stored, as
        that would create a reference cycle. Adds refused and invalid frames to `bad_frames`, and sets `fault` if the
        stream is lost.
        """
        commands: list[RawCommand] = []
        size = len(data)
        try:
            while position < size:
                items, position, are_commands = read_commands(
                    data, position, self._frame_size_max, self._header_size_max, LANGUAGES
                )
                if are_commands and position == size and not commands:
                    return items  # The case of most reads.
                if not items:
                    break
                self._decode(data, items, commands)
        except CodecError as error:
            # Its traceback would refer to this stack frame, and so to this connection: a reference cycle.
            self.fault = error.with_traceback(None)
            return commands
        if position < size:
            self._keep_rest(data, position, judge)
        return commands

    def _decode(self, data: bytes, items: list[Any], commands: list[RawCommand]) -> None:
        """Append the commands in the kernel's results, decoding frames; add those that are invalid to `bad_frames`."""
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
                self.bad_frames.append(_bad_frame(error, kind, header))

    def _keep_rest(self, data: bytes, start: int, judge: Judge | None) -> None:
        """Buffer the start of a frame; skip the frame once its header is known to be too large or refused by `judge`."""
        have = len(data) - start
        if have < FRAME_HEAD_SIZE:
            self._needed = FRAME_HEAD_SIZE
        else:
            # With 8 bytes, its length has been checked already; otherwise that happens when they have arrived.
            length, kind_and_size = FRAME_HEAD.unpack_from(data, start)
            kind, header_size = kind_and_size >> 24, kind_and_size & _HEADER_SIZE_MASK
            self._needed = 4 + length
            enough = FRAME_HEAD_SIZE + self._header_size_max
            if header_size > self._header_size_max and self._needed > enough:
                if have >= enough:
                    header = data[start + FRAME_HEAD_SIZE : start + enough]
                    error = _header_error(0, header_size, length - 4, self._header_size_max)
                    self.bad_frames.append(_bad_frame(error, kind, header))
                    self.skipped = self._needed - have
                    return
                self._needed = enough
            elif self._needed > LARGE_FRAME_SIZE and judge is not None:
                header_end = FRAME_HEAD_SIZE + header_size
                header = data[start + FRAME_HEAD_SIZE : start + header_end]
                if have < header_end:
                    self._needed = header_end
                elif (why := judge(kind, header)) is not None:
                    self.bad_frames.append(_bad_frame(CodecError(why), kind, header))
                    self.skipped = self._needed - have
                    return
        self._keep(data[start:])

    def _keep(self, data: bytes) -> None:
        """Buffer more of a frame, in pieces: a single growing buffer would be copied and fragment the memory."""
        if self._partial and len(self._partial[-1]) < _PIECE_SIZE:
            self._partial[-1] += data
        else:
            self._partial.append(bytearray(data))
        self.buffered += len(data)

    def next_opaque(self) -> int:
        """Return the next opaque that none of our waiting requests uses; the next call returns another."""
        self._opaque = self._opaque + 1 & _OPAQUE_MASK
        while self._opaque in self.awaited:
            self._opaque = self._opaque + 1 & _OPAQUE_MASK
        return self._opaque

    @property
    def following_opaque(self) -> int:
        """The opaque after the last one used; after a wraparound, a waiting request may be using it."""
        return self._opaque + 1 & _OPAQUE_MASK

    def used_opaques(self, count: int) -> None:
        """Record that the caller used `count` opaques from `following_opaque` on and registered their waiters."""
        self._opaque = self._opaque + count & _OPAQUE_MASK

    def request(self, command: Command, waiter: Waiter, *, deadline: float) -> bytes:
        """Encode a request (CodecError if it is too large) and register its waiter, which `take` returns for the answer.

        Args:
            command: The request; its opaque is replaced.
            waiter: Any object for the caller.
            deadline: Time on the caller's monotonic clock, seconds.
        """
        opaque = self.next_opaque()
        # By hand: _replace takes 1 us, of the 15 us that a gathered send may take.
        frame = encode_command((command[0], command[1], opaque, *command[3:]))
        self.awaited[opaque] = (deadline, waiter)
        return frame

    def send(
        self, pieces: SendPieces, body: bytes, waiter: Waiter, deadline: float
    ) -> Outgoing:
        """Return a send with a new opaque, as input for `kernel.encode_requests`, and register its waiter.

        `pieces` is its header as text (`codec.send_text`). Raises CodecError if the frame would be too large.
        """
        opaque = self.next_opaque()
        front, queue_id, middle, back = pieces
        if body.__class__ is not bytes:
            # Fails here rather than when all sends of this batch are encoded together.
            body = bytes(body)
        send = front, queue_id, middle, back, opaque, END, body
        if len(body) > _BODY_SURE_MAX:
            check_frame_size(len(encode_requests([send])))
        self.awaited[opaque] = (deadline, waiter)
        return send

    def send_oneway(self, pieces: SendPieces, body: bytes) -> Outgoing:
        """Return a send without a waiter, as input for `kernel.encode_requests`; raise CodecError if it is too large.

        Its `pieces` must mark it as one-way.
        """
        front, queue_id, middle, back = pieces
        send = front, queue_id, middle, back, self.next_opaque(), END, body
        check_frame_size(len(encode_requests([send])))
        return send

    def oneway(self, command: Command) -> bytes:
        """Encode a command as a one-way request (no answer) with a new opaque; raise CodecError if it is too large."""
        opaque = self.next_opaque()
        return encode_command(command._replace(opaque=opaque, flag=command.flag | ONEWAY))

    def take(self, opaque: int) -> Waiter | None:
        """Remove and return the waiter for an answer; None if the answer is late or unknown."""
        found = self.awaited.pop(opaque, None)
        return None if found is None else found[1]

    @property
    def first_deadline(self) -> float:
        """Earliest deadline of all waiters, of which there must be one."""
        return min(deadline for deadline, _ in self.awaited.values())

    def expire(self, now: float) -> list[tuple[int, Waiter]]:
        """Remove and return the waiters whose deadline has passed, with their opaques; a later answer finds none."""
        late = [opaque for opaque, (deadline, _) in self.awaited.items() if deadline <= now]
        return [(opaque, self.awaited.pop(opaque)[1]) for opaque in late]

    def close(self) -> list[tuple[int, Waiter]]:
        """Drop buffered bytes, and remove and return all waiters, with their opaques; no socket is closed."""
        left = [(opaque, waiter) for opaque, (_, waiter) in self.awaited.items()]
        self.awaited.clear()
        self._partial.clear()
        self.buffered = 0
        return left


def _header_error(start: int, body_start: int, end: int, limit: int) -> CodecError:
    size, frame_size = body_start - start, end - start + FRAME_HEAD_SIZE
    if size > limit:
        return CodecError(f"the header has {size} bytes; at most {limit} are allowed")
    return CodecError(f"the header has {size} bytes, but its frame only {frame_size}")


def _bad_frame(error: CodecError, kind: int, header: bytes) -> BadFrame:
    # Lets a server answer the sender of a broken request, and a client fail the request to which a broken answer belongs.
    opaque = _salvage(_JSON_OPAQUE, _BINARY_OPAQUE_AT, kind, header)
    return BadFrame(error, opaque, _salvage(_JSON_FLAG, _BINARY_FLAG_AT, kind, header))


def _salvage(pattern: re.Pattern[bytes], at: int, kind: int, header: bytes) -> int | None:
    """Return a number in a broken header: in JSON by `pattern`, else by position; None if missing or too large."""
    if kind == JSON:
        found = pattern.search(header)
        return int(found[1]) if found and abs(int(found[1])) <= _OPAQUE_MASK else None
    if len(header) >= at + _BINARY_NUMBER.size:
        number: int = _BINARY_NUMBER.unpack_from(header, at)[0]
        return number
    return None
