"""The header of a pull, split into what changes from pull to pull and the rest.

A consumer writes the same header again and again, but for four numbers. What is left without them says all else that it
asks, and is known when it has been seen once (broker.pull.fast_path). Compiled: `_pulls`.
"""

from cometmq.kernel.layouts import FRAME_HEAD
from cometmq.kernel.reads import is_number
from cometmq.kernel.rows import SplitPull

# How the header of PULL_MESSAGE (11) begins where JSON's keys are sorted, as Java and our client write them.
PULL_BEGIN = b'{"code":11,'
PULL_SIZE_MAX = 1_024  # Of a header; with a longer subscription it is not plain.

# Fields whose values are numbers within quotes, in the order in which they are given.
FIELDS = (b"queueId", b"queueOffset", b"commitOffset")
_OPAQUE = b"opaque"
_FRAME_HEAD_SIZE = FRAME_HEAD.size
_NAMES = frozenset((*FIELDS, _OPAQUE))
_OPAQUE_MIN, _OPAQUE_MAX = -(1 << 31), (1 << 31) - 1
_OF_NUMBERS = b"0123456789-"


def split_pull(data: bytes) -> SplitPull | None:
    """Split the header of a pull.

    Args:
        data: what came from a connection.

    Returns:
        The header without the four numbers, the queue's number, its offset, the offset to commit, and the request's number.
        None where `data` is not one whole frame with a JSON header that begins as PULL_BEGIN, has no body, at most PULL_SIZE_MAX
        bytes and no backslash, or does not have each of the four once, as JSON writes it.
    """
    size = len(data) - _FRAME_HEAD_SIZE
    if not len(PULL_BEGIN) <= size <= PULL_SIZE_MAX:
        return None
    header = data[_FRAME_HEAD_SIZE:]
    # JSON is kind 0.
    if FRAME_HEAD.struct.unpack_from(data) != (size + 4, size) or b"\\" in header:
        return None
    # What stands between quotes has an odd number.
    parts = header.split(b'"')
    found = _cut(parts) if header.startswith(PULL_BEGIN) else {}
    if len(found) != len(_NAMES) or not _OPAQUE_MIN <= found[_OPAQUE] <= _OPAQUE_MAX:
        return None
    queue_id, offset, commit_offset = (found[name] for name in FIELDS)
    return b'"'.join(parts), queue_id, offset, commit_offset, found[_OPAQUE]


def _cut(parts: list[bytes]) -> dict[bytes, int]:
    """Cut the numbers out of a header; nothing where one is there twice, or is no number."""
    found: dict[bytes, int] = {}
    for index in range(1, len(parts) - 1, 2):
        name = parts[index]
        if name in _NAMES:
            value = _cut_one(parts, index)
            if value is None or name in found:
                return {}
            found[name] = value
    return found


def _cut_one(parts: list[bytes], index: int) -> int | None:
    """Cut out the number behind a name."""
    behind, value = parts[index + 1], b""
    if parts[index] != _OPAQUE:
        if behind == b":" and index + 3 < len(parts):
            value, parts[index + 2] = parts[index + 2], b""
    elif behind.startswith(b":"):
        value = behind[1 : len(behind) - len(behind[1:].lstrip(_OF_NUMBERS))]
        parts[index + 1] = b":" + behind[1 + len(value) :]
    text = value.decode("latin-1")
    return int(text) if is_number(text) else None
