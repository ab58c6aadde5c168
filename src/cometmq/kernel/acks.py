"""Acknowledgements of popped messages: the requests of a turn to bits of check points and the frames that answer them.

A client that pops 32 messages acknowledges each with a request of its own; they come one behind the other, and their
handles differ in the last word only. What a handle names is asked for once for such a run. Compiled: `_acks`.
"""

from collections.abc import Callable

from cometmq.kernel.layouts import FRAME_HEAD
from cometmq.kernel.rows import RawCommand
from cometmq.model.codes import RequestCode
from cometmq.model.flags import ONEWAY

ACK_MESSAGE = int(RequestCode.ACK_MESSAGE)
PLACES_MAX = 64  # Java's check points have 32 bits.
DIGITS_MAX = 18  # As many fit into 64 bits.
_NAMES = ("extraInfo", "topic", "consumerGroup", "queueId", "offset")
_MISSING = "\xa0"  # Other than ASCII.

# The handle without its last word, topic, group and queue, as a client says them, to the queue offsets of the check
# point that is meant; None where there is none. With more offsets than PLACES_MAX, or larger ones, none of it is plain.
Find = Callable[[str, str, str, str], tuple[int, ...] | None]


def plain_acks(
    commands: list[RawCommand], find: Find, before: bytes, end: bytes
) -> tuple[list[int], bytes, list[RawCommand]]:
    """Take acknowledgements as far as they are plain: texts of ASCII, a message of a check point that is known.

    Args:
        commands: ACK_MESSAGE, as they came.
        find: asked once for each run of them that name the same.
        before: header of an answer up to its opaque.
        end: the same behind it.

    Returns:
        For each check point that `find` gave, in order, which of its offsets are acknowledged (bits, the lowest for
        the first); the answers of these requests, as frames; and the requests that are not plain.
    """
    run = _AckRun(find, before, end)
    others = [each for each in commands if not run.take(each[1], each[2], each[6])]
    return run.marks, b"".join(run.answers), others


def take_acks(
    data: bytes, position: int, count_max: int, find: Find, before: bytes, end: bytes
) -> tuple[int, int, list[int], bytes]:
    """Take acknowledgements from a frame on, before they are commands, up to one that is not plain, or no acknowledgement; none without a compiler.

    Returns:
        The place behind them, how many there are, and marks and answers as `plain_acks` gives them.
    """
    return position, 0, [], b""


class _AckRun:
    """Acknowledgements that name the same check point, one behind the other; and what was made of those before."""

    def __init__(self, find: Find, before: bytes, end: bytes) -> None:
        self.marks: list[int] = []
        self.answers: list[bytes] = []
        self._find = find
        self._before, self._end = before, end
        self._named: tuple[str, str, str, str] | None = None
        self._offsets: tuple[int, ...] = ()

    def take(self, flag: int, opaque: int, fields: dict[str, str]) -> bool:
        """Mark the message of an acknowledgement and answer it; False where it is not plain."""
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
