"""Limits on the frames of an HTTP/2 client and on their order, checked by their headers before an engine handles them.

Known attacks send cheap frames that cost the server much: resets of requests just begun (CVE-2023-44487), endless
CONTINUATION (CVE-2024-27316), PING, SETTINGS and empty frames (CVE-2019-9512, 9515, 9518), or streams that depend on each
other in long chains (CVE-2019-9513). A rate may be exceeded for a moment: a client that gives up all its waiting calls at
once is no attacker.

Libraries differ in what they do with frames that come out of their order or have a wrong size, and with those that a
server has no use for. So the former are refused here, and the latter reach no library.
"""

from collections import deque
from struct import Struct

from cometmq.wire.h2.engine import FRAME_SIZE_MAX, H2Error, H2Fault

PREFACE_SIZE = 24
_HEAD_SIZE = 9
_TYPE_AT = 3
# Size (in two parts), type, flags and stream.
_HEAD = Struct(">HBBBI")
_STREAM_MASK = 2**31 - 1
_RESERVED = 0x80  # The bit in front of a stream or of a size.
# Types and flags of frames (RFC 9113, section 6).
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)  # fmt: skip
_ACK = _END_STREAM = 0x1
_END_HEADERS = 0x4
_SIZES = {PRIORITY: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
_SETTING_SIZE = 6
_PADDED = 0x8
_WITH_PRIORITY = 0x20
_CHANGED = frozenset((PRIORITY, GOAWAY, WINDOW_UPDATE))
_OF_CONNECTION = frozenset((SETTINGS, PING, GOAWAY))
# A type that no library knows, so that each drops the frame, or refuses it within a header block.
_UNKNOWN = 0xFF
_GOAWAY_SIZE_MIN = 8
# Frames that continue one header block.
CONTINUATIONS_MAX = 8
# Frames handled at a time, to keep the loop responsive.
FRAMES_AT_ONCE = 16
# Seconds of its rate that a kind of frame may come at once.
BURST_SECONDS = 5.0
# Requests that are over and still known, to tell frames that were on their way from frames that break the protocol.
OVER_MAX = 1024


class _FrameRate:
    """A limit on the rate of one kind of frame; the allowance of up to 5 s can be used at once."""

    __slots__ = ("_left", "_rate", "_since", "_what")

    def __init__(self, what: str, rate: float) -> None:
        self._what = what
        self._rate = rate
        self._left = rate * BURST_SECONDS
        self._since = 0.0

    def use(self, now: float) -> None:
        """Count a frame; raise H2Fault if too many have come."""
        if self._left < 1:
            gained = (now - self._since) * self._rate
            self._left = min(self._left + gained, self._rate * BURST_SECONDS)
            self._since = now
            if self._left < 1:
                raise H2Fault(
                    H2Error.ENHANCE_YOUR_CALM,
                    f"it sends {self._what} faster than {self._rate:.0f} a second",
                )
        elif self._left == self._rate * BURST_SECONDS:
            self._since = now
        self._left -= 1


class FrameGuard:
    """The frame headers of one connection: finds where frames end, counts those that are limited, and knows which requests are open.

    Attributes:
        has_more: Whether `cut` has left more than an incomplete frame.
    """

    def __init__(self) -> None:
        self.has_more = False
        self._preface_left = PREFACE_SIZE
        self._is_checked = False  # The header of a frame that is not whole yet.
        self._has_settings = self._is_acknowledged = False
        self._continuations = 0
        self._unfinished = 0  # The stream of a header block that goes on.
        self._newest = 0
        # Whether the client has ended a request, by its stream; also of the last requests that are over, in their order.
        self._is_ended: dict[int, bool] = {}
        self._over: deque[int] = deque()
        self._resets = _FrameRate("RST_STREAM frames", 200)
        self._settings = _FrameRate("SETTINGS frames", 20)
        self._pings = _FrameRate("PING frames", 100)
        self._useless = _FrameRate("empty, PRIORITY or unknown frames", 1000)

    def cut(self, data: bytes, start: int, now: float) -> tuple[bytes, int]:
        """Return the bytes from `start` that an engine may handle next, and where they end in `data`.

        These are bytes of the preface, or at most FRAMES_AT_ONCE whole frames. GOAWAY, PRIORITY and unknown frames are
        returned with a type that no library knows, and HEADERS with a priority depend on no stream.

        Raises:
            H2Fault: A frame there breaks a limit, or the order of frames.
        """
        end = len(data)
        if self._preface_left:
            stop = min(start + self._preface_left, end)
            self._preface_left -= stop - start
            self.has_more = stop < end
            return data[start:stop], stop
        changes = []  # Places in `data`, and the byte that goes there.
        at = start
        self.has_more = False
        for _ in range(FRAMES_AT_ONCE):
            if end - at < _HEAD_SIZE:
                break
            high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
            size = high << 8 | low
            if not self._is_checked:
                self._check(size, kind, flags, stream & _STREAM_MASK, now)
            self._is_checked = end - at < _HEAD_SIZE + size
            if self._is_checked:
                break
            if kind in _CHANGED or kind > CONTINUATION:
                changes += _changes(kind, stream & _STREAM_MASK, data, at)
            elif kind <= HEADERS and flags & (_PADDED | _WITH_PRIORITY):
                inside = at + _HEAD_SIZE
                _check_parts(kind, flags, data[inside] if size else 0, size)
                if kind == HEADERS and flags & _WITH_PRIORITY:
                    inside += bool(flags & _PADDED)
                    _check_dependency(stream & _STREAM_MASK, data, inside)
                    changes += [(place, 0) for place in range(inside, inside + 4)]
            at += _HEAD_SIZE + size
        else:
            self.has_more = at < end
        piece = data[start:at]
        if changes:
            changed = bytearray(piece)
            for place, byte in changes:
                changed[place - start] = byte
            piece = bytes(changed)
        return piece, at

    def _check(self, size: int, kind: int, flags: int, stream: int, now: float) -> None:
        if size > FRAME_SIZE_MAX:
            raise H2Fault(
                H2Error.FRAME_SIZE_ERROR,
                f"a frame has {size} bytes, and at most {FRAME_SIZE_MAX} are allowed",
            )
        if self._unfinished != (stream if kind == CONTINUATION else 0):
            raise H2Fault(
                H2Error.PROTOCOL_ERROR,
                "a header block is interrupted, or goes on without a begin",
            )
        if stream and kind in _OF_CONNECTION:
            raise H2Fault(
                H2Error.PROTOCOL_ERROR,
                f"a frame of the connection (type {kind}) names a stream",
            )
        if size != _SIZES.get(kind, size):
            raise H2Fault(H2Error.FRAME_SIZE_ERROR, f"a frame (type {kind}) has {size} bytes")
        self._count(size, kind, flags, stream, now)
        if not self._has_settings:
            raise H2Fault(H2Error.PROTOCOL_ERROR, "its first frame is not SETTINGS")

    def _count(self, size: int, kind: int, flags: int, stream: int, now: float) -> None:
        """Check the place of a frame among others, and the rate of its kind."""
        if kind in (DATA, HEADERS):
            self._check_request(kind, flags, stream)
            if kind == HEADERS:
                self._continuations = 0
                self._unfinished = 0 if flags & _END_HEADERS else stream
            elif not size and not flags & _END_STREAM:
                self._useless.use(now)
        elif kind == CONTINUATION:
            self._continue_block(flags)
        elif kind == RST_STREAM:
            if stream in self._is_ended:
                self._is_ended[stream] = True
            elif stream > self._newest or not stream & 1:
                raise H2Fault(
                    H2Error.PROTOCOL_ERROR, f"it resets stream {stream}, which has not begun"
                )
            self._resets.use(now)
        elif kind == SETTINGS:
            self._check_settings(size, flags & _ACK)
            self._settings.use(now)
        elif kind == PING:
            if not flags & _ACK:
                self._pings.use(now)
        elif kind == PUSH:
            raise H2Fault(H2Error.PROTOCOL_ERROR, "a client pushes a stream")
        elif kind != WINDOW_UPDATE:
            if kind == GOAWAY and size < _GOAWAY_SIZE_MIN:
                raise H2Fault(H2Error.FRAME_SIZE_ERROR, f"a GOAWAY frame has {size} bytes")
            self._useless.use(now)

    def _continue_block(self, flags: int) -> None:
        if flags & _END_HEADERS:
            self._unfinished = 0
        self._continuations += 1
        if self._continuations > CONTINUATIONS_MAX:
            raise H2Fault(
                H2Error.ENHANCE_YOUR_CALM,
                f"a header block has more than {CONTINUATIONS_MAX} CONTINUATION frames",
            )

    def _check_request(self, kind: int, flags: int, stream: int) -> None:
        """Check that DATA or HEADERS belong to an open request or begin one, whose trailers are its last frame."""
        is_ended = self._is_ended.get(stream)
        if is_ended is None:
            if kind == DATA or stream <= self._newest or not stream & 1:
                raise H2Fault(
                    H2Error.PROTOCOL_ERROR,
                    f"a frame of stream {stream}, which is none of its requests or long over",
                )
            self._newest = stream
        elif is_ended:
            raise H2Fault(
                H2Error.STREAM_CLOSED, f"a frame of stream {stream}, whose request has ended"
            )
        elif kind == HEADERS and not flags & _END_STREAM:
            raise H2Fault(
                H2Error.PROTOCOL_ERROR, f"trailers of stream {stream} do not end their request"
            )
        self._is_ended[stream] = bool(flags & _END_STREAM)

    def _check_settings(self, size: int, is_acknowledgement: int) -> None:
        """Check that the first frame has settings, and that the client acknowledges those of the server once."""
        if size % _SETTING_SIZE or (is_acknowledgement and size):
            raise H2Fault(H2Error.FRAME_SIZE_ERROR, f"a SETTINGS frame has {size} bytes")
        if not is_acknowledgement:
            self._has_settings = True
        elif self._is_acknowledged:
            raise H2Fault(H2Error.PROTOCOL_ERROR, "it acknowledges SETTINGS that were not sent")
        else:
            self._is_acknowledged = True

    def forget(self, stream: int) -> None:
        """Note that a request is over for the server, so that it is known only until some more are."""
        self._over.append(stream)
        if len(self._over) > OVER_MAX:
            self._is_ended.pop(self._over.popleft(), None)

    def count_reset(self, now: float) -> None:
        """Count a stream that the server reset for the client's fault, as a reset by the client; may raise H2Fault."""
        self._resets.use(now)


def _changes(kind: int, stream: int, data: bytes, at: int) -> list[tuple[int, int]]:
    """Check a number that libraries ignore in some cases, and return what to change: places in `data` and their bytes."""
    inside = at + _HEAD_SIZE
    if kind == WINDOW_UPDATE:
        number = int.from_bytes(data[inside : inside + 4])
        if not number & _STREAM_MASK:
            raise H2Fault(H2Error.PROTOCOL_ERROR, "a window grows by nothing")
        # `jh2` does not ignore the reserved bit.
        return [(inside, data[inside] & ~_RESERVED)] if number > _STREAM_MASK else []
    if kind == PRIORITY:
        _check_dependency(stream, data, inside)
    return [(at + _TYPE_AT, _UNKNOWN)]


def _check_dependency(stream: int, data: bytes, at: int) -> None:
    """Check the stream on which another one depends by a priority."""
    if not stream:
        raise H2Fault(H2Error.PROTOCOL_ERROR, "a priority names no stream")
    if int.from_bytes(data[at : at + 4]) & _STREAM_MASK == stream:
        raise H2Fault(H2Error.PROTOCOL_ERROR, f"stream {stream} depends on itself")


def _check_parts(kind: int, flags: int, first: int, size: int) -> None:
    """Check that DATA or HEADERS have room for padding, whose size is their first byte, and for a priority."""
    least = 1 + first if flags & _PADDED else 0
    if kind == HEADERS and flags & _WITH_PRIORITY:
        least += _SIZES[PRIORITY]
    if least > size:
        raise H2Fault(
            H2Error.PROTOCOL_ERROR, "a frame is shorter than its padding and priority"
        )
