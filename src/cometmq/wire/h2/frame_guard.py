"""Limits on the frames of an HTTP/2 client, checked by their headers before an engine handles them.

Known attacks send cheap frames that cost the server much: resets of requests just begun (CVE-2023-44487), endless
CONTINUATION (CVE-2024-27316), PING, SETTINGS and empty frames (CVE-2019-9512, 9515, 9518). A rate may be exceeded for a
moment: a client that gives up all its waiting calls at once is no attacker.
"""

from cometmq.wire.h2.engine import FRAME_SIZE_MAX, H2Error, H2Fault

PREFACE_SIZE = 24
_HEAD_SIZE = 9
# Types and flags of frames (RFC 9113, section 6).
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)  # fmt: skip
_ACK = _END_STREAM = 0x1
# Frames that continue one header block.
CONTINUATIONS_MAX = 8
# Frames handled at a time, to keep the loop responsive.
FRAMES_AT_ONCE = 16
# Seconds of its rate that a kind of frame may come at once.
BURST_SECONDS = 5.0


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
    """The frame headers of one connection: finds where frames end and counts those that are limited."""

    def __init__(self) -> None:
        self._skip = PREFACE_SIZE  # Bytes until the next frame header.
        self._head = b""  # Of a header, the part received.
        self._continuations = 0
        self._resets = _FrameRate("RST_STREAM frames", 200)
        self._settings = _FrameRate("SETTINGS frames", 20)
        self._pings = _FrameRate("PING frames", 100)
        self._useless = _FrameRate("empty, PRIORITY or unknown frames", 1000)

    def cut(self, data: bytes, start: int, now: float) -> int:
        """Return how far `data` may be handled next: at most FRAMES_AT_ONCE frames further than `start`.

        Raises:
            H2Fault: A frame header there breaks a limit.
        """
        end = len(data)
        for _ in range(FRAMES_AT_ONCE):
            if self._skip > end - start:
                self._skip -= end - start
                return end
            start += self._skip
            head = self._head + data[start : start + _HEAD_SIZE - len(self._head)]
            start += len(head) - len(self._head)
            self._head, self._skip = head, 0
            if len(head) < _HEAD_SIZE:
                return end
            self._head = b""
            self._skip = int.from_bytes(head[:3])
            self._check(self._skip, head[3], head[4], now)
        # The body of the last frame goes with its header.
        step = min(self._skip, end - start)
        self._skip -= step
        return start + step

    def _check(self, size: int, kind: int, flags: int, now: float) -> None:
        if size > FRAME_SIZE_MAX:
            raise H2Fault(
                H2Error.FRAME_SIZE_ERROR,
                f"a frame has {size} bytes, and at most {FRAME_SIZE_MAX} are allowed",
            )
        if kind == DATA:
            if size or flags & _END_STREAM:
                return
            self._useless.use(now)
        elif kind == HEADERS:
            self._continuations = 0
        elif kind == RST_STREAM:
            self._resets.use(now)
        elif kind == CONTINUATION:
            self._continuations += 1
            if self._continuations > CONTINUATIONS_MAX:
                raise H2Fault(
                    H2Error.ENHANCE_YOUR_CALM,
                    f"a header block has more than {CONTINUATIONS_MAX} CONTINUATION frames",
                )
        elif kind == SETTINGS:
            self._settings.use(now)
        elif kind == PING:
            if not flags & _ACK:
                self._pings.use(now)
        elif kind != WINDOW_UPDATE:
            self._useless.use(now)

    def count_reset(self, now: float) -> None:
        """Count a stream that the server reset for the client's fault, as a reset by the client; may raise H2Fault."""
        self._resets.use(now)
