"""Acknowledgements of popped messages: from requests to bits of check points and the frames that answer them.

Clients mostly acknowledge each message with its own request. Of messages popped from one queue together, receipt handles
differ only in the last word, so the check point is looked up once for consecutive requests with the same one.

Compiled twin: `_acks`.
"""

from collections.abc import Callable

from cometmq.kernel.layouts import FRAME_HEAD
from cometmq.kernel.rows import RawCommand
from cometmq.model.codes import RequestCode
from cometmq.model.flags import ONEWAY

ACK_MESSAGE = int(RequestCode.ACK_MESSAGE)
PLACES_MAX = 64  # Java's check points have 32 bits.
DIGITS_MAX = 18  # The most that fit into 64 bits.
_NAMES = ("extraInfo", "topic", "consumerGroup", "queueId", "offset")
_MISSING = "\xa0"  # Not ASCII.

# From the handle without its last word, topic, group and queue, as the client wrote them, to the queue offsets of the check
# point; None if there is none. A check point with more than PLACES_MAX or larger offsets is not simple.
Find = Callable[[str, str, str, str], tuple[int, ...] | None]


def plain_acks(
    commands: list[RawCommand], find: Find, before: bytes, end: bytes
) -> tuple[list[int], bytes, list[RawCommand]]:
    """Compute marks and answers of simple acknowledgements: in ASCII, of a message that belongs to a known check point.

    Args:
        commands: ACK_MESSAGE requests in order of arrival.
        find: Called for the first of consecutive requests with the same check point; after None for the next one, too.
        before: Header of an answer before its opaque.
        end: Header after the opaque.

    Returns:
        For each time that `find` returned a check point, a bit set of the acknowledged offsets (lowest bit for the
            first); the frames of the answers, none for one-way requests; and the requests that are not simple.
    """
    run = _AckRun(find, before, end)
    others = [each for each in commands if not run.take(each[1], each[2], each[6])]
    return run.marks, b"".join(run.answers), others


def take_acks(
    data: bytes, position: int, count_max: int, find: Find, before: bytes, end: bytes
) -> tuple[int, int, list[int], bytes]:
    """Process up to `count_max` acknowledgements in received frames, up to an unusual frame; this version processes none.

    The compiled twin in `_acks` does it.

    Returns:
        The position after them, their number, and bit sets and answers as from `plain_acks`.
    """
    return position, 0, [], b""


class _AckRun:
    """Consecutive acknowledgements with the same check point, and the results of earlier ones."""

    def __init__(self, find: Find, before: bytes, end: bytes) -> None:
        self.marks: list[int] = []
        self.answers: list[bytes] = []
        self._find = find
        self._before, self._end = before, end
        self._named: tuple[str, str, str, str] | None = None
        self._offsets: tuple[int, ...] = ()

    def take(self, flag: int, opaque: int, fields: dict[str, str]) -> bool:
        """Set a message's bit and, unless one-way, add an answer; False if it is unusual or in no known check point."""
        texts = [fields.get(name, _MISSING) for name in _NAMES]
        if not (_are_plain(texts) and _is_32_bits(flag) and _is_32_bits(opaque)):
            return False
        handle, topic, group, queue, offset = texts
        named = (handle.rpartition(" ")[0], topic, group, queue)
        if named != self._named:
            found = self._find(*named)
            if found is None:
                return False
            self._named, self._offsets = named, found if _fits(found) else ()
            self.marks.append(0)
        if int(offset) not in self._offsets:
            return False
        self.marks[-1] |= 1 << self._offsets.index(int(offset))
        if not flag & ONEWAY:
            header = b"%b%d%b" % (self._before, opaque, self._end)
            self.answers += (FRAME_HEAD.struct.pack(4 + len(header), len(header)), header)
        return True


def _are_plain(texts: list[str]) -> bool:
    if not all(text.__class__ is str and text.isascii() for text in texts):
        return False
    return texts[-1].isdigit() and len(texts[-1]) <= DIGITS_MAX


def _is_32_bits(number: int) -> bool:
    return -0x80000000 <= number <= 0x7FFFFFFF


def _is_64_bits(number: int) -> bool:
    return -(1 << 63) <= number < 1 << 63


def _fits(offsets: tuple[int, ...]) -> bool:
    return len(offsets) <= PLACES_MAX and all(map(_is_64_bits, offsets))
