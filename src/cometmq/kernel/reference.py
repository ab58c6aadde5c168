"""The loops over frames, records, queue entries and hashes of keys and tags, in plain Python.

They work on bytes and tuples of ints, so that a compiled twin can replace them. Those over frames, records and entries
return positions or counts and copy no payload, except for `gather`.

A frame is `| length 4 | kind 1 | header size 3 | header | body |`; its length is that of everything after the length
(docs/format/remoting.md).
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from operator import mul
from struct import Struct
from typing import Any

from cometmq.kernel import layouts
from cometmq.kernel.layouts import (
    BLANK_SIZE,
    GAP_CODE,
    HEADER_SIZE_MAX,
    MAGIC_BLANK,
    MAGIC_V1,
    MAGIC_V2,
    RECORD_SIZE_MIN,
)
from cometmq.kernel.rows import Buffer, Chosen, Frame, Run
from cometmq.model.errors import CodecError, FrameTooLarge

FRAME_HEAD = layouts.FRAME_HEAD.struct
FRAME_HEAD_SIZE = layouts.FRAME_HEAD.size

_ENTRY = layouts.QUEUE_ENTRY.struct
_INDEX_ENTRY = layouts.INDEX_ENTRY.struct
_RECORD_MARK = layouts.RECORD_MARK.struct
_PLACE = Struct(">q")
_PLACE_AT = layouts.RECORD_HEAD.at["physical_offset"]


def split_frames(buffer: Buffer, position: int, limit: int) -> tuple[list[Frame], int]:
    """Find the complete frames from `position` on, up to the first invalid one.

    A length is checked as soon as the 8 bytes of the frame's head are received, before memory is used for the rest.
    Valid frames before an invalid one are returned first, and the next call, which starts at the invalid one, raises;
    so the result does not depend on how the bytes were split. A header longer than its frame must be refused by the
    caller (its body starts after the frame's end), because the following frames can still be found.

    Args:
        buffer: Received bytes.
        position: Start of the first frame.
        limit: Maximum size of a frame including its length field, bytes (as Netty's decoder counts).

    Returns:
        (kind, header start, body start, end) of each frame, and the position after the last.

    Raises:
        FrameTooLarge: The frame at `position` is longer than `limit`, or another protocol begins there.
        CodecError: Its length is less than 4.
    """
    frames: list[Frame] = []
    append = frames.append
    unpack = FRAME_HEAD.unpack_from
    size = len(buffer)
    length_max = limit - 4
    last = size - FRAME_HEAD_SIZE
    while position <= last:
        length, header = unpack(buffer, position)
        if not 4 <= length <= length_max:
            if frames:
                break
            raise length_error(length, limit)
        kind = 0
        if header > HEADER_SIZE_MAX:
            kind, header = header >> 24, header & HEADER_SIZE_MAX
        end = position + 4 + length
        if end > size:
            break
        start = position + 8
        append((kind, start, start + header, end))
        position = end
    return frames, position


def read_commands(
    buffer: bytes, position: int, limit: int, header_size_max: int, languages: dict[str, int]
) -> tuple[list[Any], int, bool]:
    """Find the complete frames, up to an invalid one, and decode the simple ones.

    An item of the result is either a frame as in `split_frames`, to be decoded by the caller, or a decoded command
    (`RawCommand`). This kernel decodes nothing; the compiled twin decodes the JSON headers of official clients.

    Args:
        buffer: Received bytes.
        position: Start of the first frame.
        limit: Maximum size of a frame, bytes.
        header_size_max: Maximum size of a header to decode here, bytes.
        languages: Numbers of the languages that a header may name.

    Returns:
        The items, the position after the last of them, and whether all of them are commands.

    Raises:
        FrameTooLarge, CodecError: As in `split_frames`.
    """
    del header_size_max, languages
    frames, end = split_frames(buffer, position, limit)
    return frames, end, not frames


# The first bytes of peers that use another protocol on this port: a TLS handshake, a gRPC client, a browser.
_OTHER_PROTOCOLS = {
    "TLS": (b"\x16\x03",),
    "HTTP/2": (b"PRI ",),
    "HTTP": (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI"),
}


def length_error(length: int, limit: int) -> CodecError:
    """Return the error for an invalid frame length; it names the protocol if TLS or HTTP seems to begin there."""
    word = (length & 0xFFFFFFFF).to_bytes(4, "big")
    for spoken, begins in _OTHER_PROTOCOLS.items():
        if word.startswith(begins):
            return FrameTooLarge(
                f"it speaks {spoken}, which is not taken here; speak RocketMQ remoting"
            )
    if length > limit - 4:
        return FrameTooLarge(f"a frame of {length + 4} bytes; at most {limit} are taken")
    return CodecError(f"a frame length of {length}; a frame has at least 4 bytes")


class WalkEnd(IntEnum):
    """The reason why a walk over records stopped: WHOLE (at the end), SHORT, BLANK, EMPTY or UNKNOWN."""

    WHOLE = 0  # Exactly at the end of the piece.
    SHORT = 1  # The next record is incomplete.
    BLANK = 2  # The mark at the end of a log file: continue in the next file.
    EMPTY = 3  # Zeros: nothing has been written yet.
    UNKNOWN = 4  # Not a record: wrong magic, or an impossible size.


def walk_records(
    buffer: Buffer, position: int, end: int
) -> tuple[list[tuple[int, int, int]], int, WalkEnd]:
    """Step over complete records by their sizes, without reading their contents.

    Args:
        buffer: A piece of a log.
        position: Start of a record in it.
        end: End of the piece.

    Returns:
        (position, size, magic) of each record, the position where the walk stopped, and the reason.
    """
    records: list[tuple[int, int, int]] = []
    append = records.append
    unpack = _RECORD_MARK.unpack_from
    last = end - _RECORD_MARK.size
    while position <= last:
        size, magic = unpack(buffer, position)
        if magic not in (MAGIC_V1, MAGIC_V2) or size < RECORD_SIZE_MIN:
            return records, position, why_no_record(size, magic)
        after = position + size
        if after > end:
            return records, position, WalkEnd.SHORT
        append((position, size, magic))
        position = after
    return records, position, WalkEnd.WHOLE if position == end else WalkEnd.SHORT


def why_no_record(size: int, magic: int) -> WalkEnd:
    """Classify the size and magic found where a record was expected: BLANK, EMPTY or UNKNOWN."""
    if magic == MAGIC_BLANK:
        return WalkEnd.BLANK
    return WalkEnd.EMPTY if size == 0 and magic == 0 else WalkEnd.UNKNOWN


def choose_entries(
    entries: Buffer,
    count_max: int,
    size_max: int,
    log_start: int,
    match: Callable[[int], bool] | None,
) -> Chosen:
    """Select queue entries up to a limit or an empty entry, and join neighbours in the log.

    Args:
        entries: Concatenated entries of a queue (docs/format/queue-entry.md).
        count_max: Maximum number of messages, at least 1.
        size_max: Maximum size of the records, bytes; the first one may exceed it.
        log_start: Physical offset of the log's first byte.
        match: Returns whether a tags code is subscribed; None: all are.

    Returns:
        (start, end) of pieces of the log, the number of their messages, their size in bytes, the number of checked entries,
            and whether one of these was a placeholder, or of a message before `log_start`.
    """
    runs: list[Run] = []
    count = total = looked = 0
    start = end = -1
    removed = False
    for physical_offset, size, tags_code in _ENTRY.iter_unpack(entries):
        if size <= 0 or (count and (count >= count_max or total + size > size_max)):
            break
        looked += 1
        if physical_offset < log_start or size == BLANK_SIZE or tags_code == GAP_CODE:
            removed = True
            continue
        if match is not None and not match(tags_code):
            continue
        if physical_offset != end:
            if end >= 0:
                runs.append((start, end))
            start = physical_offset
        end = physical_offset + size
        count += 1
        total += size
    if end >= 0:
        runs.append((start, end))
    return runs, count, total, looked, removed


def gather(view: memoryview, base: int, runs: list[Run]) -> bytes:
    """Return pieces of a mapped log file that starts at the physical offset `base`, concatenated.

    `runs` has the physical start and end of each; pieces not entirely in the file (from damaged entries) are left out.
    """
    limit = base + len(view)
    return b"".join(
        [
            view[start - base : end - base]
            for start, end in runs
            if base <= start <= end <= limit
        ]
    )


def count_records(piece: Buffer) -> int:
    """Count the records in a piece of the log by their sizes; return -1 if it contains anything else.

    A wrong mark or size, or a physical offset that is not above the one before, counts as anything else.
    """
    position = count = 0
    end, before = len(piece), -1
    while position < end:
        if end - position < RECORD_SIZE_MIN:
            return -1
        size, magic = _RECORD_MARK.unpack_from(piece, position)
        place = _PLACE.unpack_from(piece, position + _PLACE_AT)[0]
        is_record = magic in (MAGIC_V1, MAGIC_V2) and RECORD_SIZE_MIN <= size <= end - position
        if not is_record or place <= before:
            return -1
        before = place
        position += size
        count += 1
    return count


def java_hash_many(texts: Sequence[bytes]) -> list[int]:
    """Return Java's `String.hashCode` of each text, as a signed 32-bit number; texts are given as UTF-8.

    ASCII texts of up to 256 bytes are mostly hashed many at a time, as lanes of one long int. A hash is a polynomial in
    31, and leading zeros do not change it. So each text is a lane of bytes with leading zeros, and log2(width) steps
    combine two neighbours a, b of n units into 31**n * a + b. That takes a sixth of the time of a loop over characters.
    """
    longest = max(map(len, texts), default=0)
    width = _WIDTH_SHORT if longest <= _WIDTH_SHORT else _WIDTH_LONG
    if longest > _WIDTH_LONG:
        return [_java_hash(text) for text in texts]
    steps = _STEPS[width]
    low_unit = Struct(f"<i{width - 4}x")
    hashes: list[int] = []
    chunk = _LANES_SIZE // width
    for start in range(0, len(texts), chunk):
        part = texts[start : start + chunk]
        lanes = b"".join([text.rjust(width, b"\0") for text in part])
        if not lanes.isascii():
            hashes += map(_java_hash, part)
            continue
        number = int.from_bytes(lanes)
        for bits, mask, power in steps:
            number = (number >> bits & mask) * power + (number & mask)
        # In little-endian order the last text's lane comes first.
        found = [
            unit for (unit,) in low_unit.iter_unpack(number.to_bytes(len(lanes), "little"))
        ]
        hashes += reversed(found)
    return hashes


def _java_hash(text: bytes) -> int:
    """Return Java's hash of one arbitrary text, from its UTF-16 units; invalid UTF-8 counts as U+FFFD."""
    if text.isascii():
        units: Sequence[int] = text
    else:
        utf16 = text.decode(errors="replace").encode("utf-16-le")
        units = memoryview(utf16).cast("H")
    total: int = sum(map(mul, units, _powers(len(units))))
    return ((total + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def _lane_steps(width: int) -> list[tuple[int, int, int]]:
    """Return (bits of a lane, mask of every second lane, power of 31) for each step until a lane has `width` bytes."""
    steps, bits, power = [], 8, 31
    while bits < width * 8:
        lane = (1 << bits) - 1
        mask = int.from_bytes(lane.to_bytes(bits // 4) * (_LANES_SIZE * 8 // (2 * bits)))
        steps.append((bits, mask, power))
        bits, power = bits * 2, power * power & 0xFFFFFFFF
    return steps


def index_insert(
    slots: "memoryview[int]",
    number: int,
    hashes: Sequence[int],
    offsets: Sequence[int],
    seconds: Sequence[int],
) -> tuple[bytes, int]:
    """Insert keys into an index file's slots, each as the first of its slot's chain.

    Args:
        slots: Newest entry of each slot, 0 if there is none; modified.
        number: Number of the first new entry.
        hashes: Java's hash of each "topic#key".
        offsets: Physical offset of each key's record, bytes.
        seconds: Time field of each entry, s.

    Returns:
        The bytes of the entries (docs/format/index-file.md), and the number of slots that had no valid entry before.
    """
    count = len(slots)
    pack = _INDEX_ENTRY.pack
    entries: list[bytes] = []
    append = entries.append
    fresh = 0
    for java_hash, offset, second in zip(hashes, offsets, seconds, strict=True):
        # Math.abs, or 0 for the one number without an absolute value (IndexFile.indexKeyHashMethod).
        key_hash = abs(java_hash) & 0x7FFFFFFF
        slot = key_hash % count
        previous = slots[slot]
        if not 0 < previous < number:
            previous = 0
            fresh += 1
        append(pack(key_hash, offset, second, previous))
        slots[slot] = number
        number += 1
    return b"".join(entries), fresh


def _powers(count: int) -> Sequence[int]:
    """Return 31**(count-1), ..., 31, 1, each modulo 2**32, for a count over 0; only those of long texts are computed."""
    return _POWERS[-count:] if count <= len(_POWERS) else _powers_of_31(count)


def _powers_of_31(count: int) -> tuple[int, ...]:
    powers = [1]
    for _ in range(count - 1):
        powers.append(powers[-1] * 31 & 0xFFFFFFFF)
    return tuple(reversed(powers))


_POWERS = _powers_of_31(256)  # Topics and most tags and keys are shorter.

_LANES_SIZE = 16_384  # Bytes hashed at a time; longer ints do not gain anything.
_WIDTH_SHORT, _WIDTH_LONG = 64, 256  # Sufficient for a topic and a unique id; for most keys.
_STEPS = {width: _lane_steps(width) for width in (_WIDTH_SHORT, _WIDTH_LONG)}
