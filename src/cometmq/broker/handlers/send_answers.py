"""The answers to the sends of one read: one text, made bytes at once.

An answer's header is JSON of which only four numbers and a key change from send to send; so it is put
together from texts that are there already (`Lane.answer_start` is one). Nothing in it needs
escaping but the key, which is looked at once a read.

Next: cometmq.net.peer
"""

import json

from cometmq.model.codes import ResponseCode
from cometmq.store.appender import PutResult

# A send whose record is being written: opaque, the answer's header up to the physical offset (None
# when nobody waits for an answer), the unique key.
Pending = tuple[int, str | None, str]

# Behind the unique key; the opaque stands between the two.
_MIDDLE = '"},"flag":1,"language":"PYTHON","opaque":'
_END = ',"serializeTypeCurrentRPC":"JSON","version":479}'

# Every header begins so; after a late flush it begins with the other.
_CODE_SIZE = len('{"code":0')
_LATE_START = f'{{"code":{ResponseCode.FLUSH_DISK_TIMEOUT:d}'

# Prefixes of frames without a body, by the size of the header.
_PREFIX_SIZE_MAX = 1024

# A message id ends with the physical offset in 16 hex digits: 13 that change every 4 KiB of log, and
# three that are looked up, which takes half the time of formatting all of them.
_LOW_BITS = 12
_LOW_MASK = (1 << _LOW_BITS) - 1
_LOW_DIGITS = tuple(f"{low:03X}" for low in range(1 << _LOW_BITS))


def _prefix(size: int) -> str:
    return ((size + 4).to_bytes(4) + size.to_bytes(4)).decode("latin-1")


_PREFIXES = tuple(map(_prefix, range(_PREFIX_SIZE_MAX)))


def encode_answers(pending: list[Pending], results: list[PutResult]) -> bytes:
    """The frames of the answers to these sends, one behind the other."""
    keys = pending[0][2] if len(pending) == 1 else "".join([key for _, _, key in pending])
    if not keys.encode("utf-8", "replace").isalnum():
        pending = [(opaque, start, json.dumps(key)[1:-1]) for opaque, start, key in pending]
    prefixes, low_digits = _PREFIXES, _LOW_DIGITS
    high, high_digits = -1, ""
    frames = []
    for (opaque, start, key), (queue_offset, physical_offset, _) in zip(
        pending, results, strict=True
    ):
        if start is None:
            continue
        if physical_offset >> _LOW_BITS != high:
            high = physical_offset >> _LOW_BITS
            high_digits = f"{high:013X}"
        header = (
            f'{start}{high_digits}{low_digits[physical_offset & _LOW_MASK]}",'
            f'"queueOffset":"{queue_offset}","transactionId":"{key}{_MIDDLE}{opaque}{_END}'
        )
        size = len(header)
        frames.append((prefixes[size] if size < _PREFIX_SIZE_MAX else _prefix(size)) + header)
    return "".join(frames).encode("latin-1")


def as_late(pending: list[Pending]) -> list[Pending]:
    """The same sends, to be answered with FLUSH_DISK_TIMEOUT."""
    return [
        (opaque, None if start is None else _LATE_START + start[_CODE_SIZE:], key)
        for opaque, start, key in pending
    ]


def as_one(
    one: Pending, results: list[PutResult], host: str
) -> tuple[list[Pending], list[PutResult]]:
    """A batch is answered as one send, whose message id is those of its records with commas.

    Args:
        one: the batch.
        results: of its records.
        host: the store host as message ids have it.
    """
    opaque, start, key = one
    _, last_offset, size = results[-1]
    last = [(results[0][0], last_offset, size)]
    if start is None:
        return [one], last
    ids = "".join([f"{physical_offset:016X},{host}" for _, physical_offset, _ in results[:-1]])
    return [(opaque, start + ids, key)], last
