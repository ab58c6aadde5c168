"""Acknowledgements of popped messages: the requests of a turn to bits of check points and the frames that answer them.

A client that pops 32 messages acknowledges each with a request of its own; they come one behind the other, and their
handles differ in the last word only. What a handle names is asked for once for such a run. Compiled: `_acks`.

Next: cometmq.kernel.reads
"""

from collections.abc import Callable

from cometmq.kernel.layouts import FRAME_HEAD
from cometmq.kernel.rows import RawCommand
from cometmq.model.flags import ONEWAY

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
    marks: list[int] = []
    answers: list[bytes] = []
    others: list[RawCommand] = []
    run: tuple[str, str, str, str] | None = None
    offsets: tuple[int, ...] = ()
    for command in commands:
        texts = [command[6].get(name, _MISSING) for name in _NAMES]
        if not (_are_plain(texts) and _is_32_bits(command[1]) and _is_32_bits(command[2])):
            others.append(command)
            continue
        handle, topic, group, queue, offset = texts
        named = (handle.rpartition(" ")[0], topic, group, queue)
        if named != run:
            found = find(*named)
            if found is not None:
                run, offsets = named, found if _fits(found) else ()
                marks.append(0)
        if named != run or int(offset) not in offsets:
            others.append(command)
            continue
        marks[-1] |= 1 << offsets.index(int(offset))
        if not command[1] & ONEWAY:
            header = b"%b%d%b" % (before, command[2], end)
            answers += (FRAME_HEAD.struct.pack(4 + len(header), len(header)), header)
    return marks, b"".join(answers), others


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
