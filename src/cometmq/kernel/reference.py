"""The loops that run once a frame, record or tag, in plain Python.

They take bytes and give tuples of ints, so that a compiled twin can take their place without
anybody noticing. Nothing here copies a payload: positions go out, the caller slices.

A frame on the wire (docs/format/remoting.md):

| length 4 | kind 1 | header size 3 | header | body |

The length counts everything behind itself.
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
    """Find every whole frame from `position` on.

    A length is judged as soon as it is there, before memory is spent on the rest. Good frames in
    front of a bad one are given first; the next call, which starts at the bad one, raises: so the
    same bytes mean the same in whatever pieces they arrive. A header longer than its frame is the
    reader's to refuse (its body starts behind its end): the frames behind it can still be found.

    Args:
        buffer: what has been received.
        position: where the first frame starts in it.
        limit: most bytes of a whole frame, its length field counted (as Netty's decoder counts).

    Returns:
        (kind, header start, body start, end) of each frame, and the position behind the last.

    Raises:
        FrameTooLarge: the frame at `position` announces more than `limit`.
        CodecError: its length is under 4.
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
    """Find every whole frame, and decode what is plain.

    An item is a frame as `split_frames` gives it, to be decoded by the caller, or the command
    itself (a `RawCommand`). Which of both is the kernel's choice: this one decodes nothing, the
    compiled twin decodes the JSON headers of official clients.

    Args:
        buffer: what has been received.
        position: where the first frame starts in it.
        limit: most bytes of a whole frame.
        header_size_max: bytes of the longest header that is decoded here.
        languages: the numbers of the languages that a header may name.

    Returns:
        The items, the position behind the last of them, and whether all of them are commands.

    Raises:
        FrameTooLarge, CodecError: as `split_frames`.
    """
    del header_size_max, languages
    frames, end = split_frames(buffer, position, limit)
    return frames, end, not frames


# How peers begin that took this port for another's: a TLS handshake, a gRPC client, a browser.
_OTHER_PROTOCOLS = {
    "TLS": (b"\x16\x03",),
    "HTTP/2": (b"PRI ",),
    "HTTP": (b"GET ", b"POST", b"PUT ", b"HEAD", b"OPTI"),
}


def length_error(length: int, limit: int) -> CodecError:
    """Say what is wrong with a frame of this length; where it is another protocol's first word, which one."""
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
    """The reason why a walk over records stopped."""

    WHOLE = 0  # Exactly at the end of what was given.
    SHORT = 1  # The next record is not all there.
    BLANK = 2  # The mark at a log file's end: go on in the next file.
    EMPTY = 3  # Zeros, where nothing has been written yet.
    UNKNOWN = 4  # No record starts here: wrong magic, or a size no record can have.


def walk_records(
    buffer: Buffer, position: int, end: int
) -> tuple[list[tuple[int, int, int]], int, WalkEnd]:
    """Step over whole records by their sizes; the contents are not looked at.

    Args:
        buffer: a piece of a log.
        position: where a record starts in it.
        end: where the piece ends.

    Returns:
        (position, size, magic) of each record, the position where the walk stopped, and why.
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
    """Name what stands where a record was expected."""
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
    """Take queue entries until a limit is reached, joining neighbours in the log.

    Args:
        entries: of a queue, one behind the other (docs/format/queue-entry.md).
        count_max: most messages.
        size_max: most bytes of records; the first is taken whatever its size.
        log_start: physical offset of the log's first byte.
        match: which tags codes are wanted; None: all.

    Returns:
        (start, end) of pieces of the log, how many messages they hold, their bytes, the number of entries
        looked at, and whether a message was missing from the log.
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
    """Pieces of a mapped log file, one behind the other.

    Args:
        view: the file.
        base: physical offset of its first byte.
        runs: (start, end) of each piece, physical offsets; one that is not within the file (a
            damaged queue entry) is left out.
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
    """Count the records in a piece of the log, by their sizes.

    Args:
        piece: records, one behind the other, in the order of the log.

    Returns:
        -1 where something else stands in it: a mark that is none, a size that leads beyond the end, or
        a physical offset that is not behind the one before.
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
    """Java's `String.hashCode` of each text, which is given as UTF-8; 32 bits with a sign.

    ASCII texts are hashed many at a time, as lanes of one long int. A hash is a polynomial in 31,
    and zeros in front do not change it: so each text is a lane of bytes, filled up in front, and
    log2(width) steps turn two neighbours a, b of n units into 31**n * a + b. That takes a sixth
    of the time of a loop over characters.
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
        # Little end first, so the last text's lane comes first.
        found = [
            unit for (unit,) in low_unit.iter_unpack(number.to_bytes(len(lanes), "little"))
        ]
        hashes += reversed(found)
    return hashes


def _java_hash(text: bytes) -> int:
    """Java's hash of one text of any kind, by its UTF-16 units; a broken one as Java decodes it."""
    if text.isascii():
        units: Sequence[int] = text
    else:
        utf16 = text.decode(errors="replace").encode("utf-16-le")
        units = memoryview(utf16).cast("H")
    total: int = sum(map(mul, units, _powers(len(units))))
    return ((total + 0x80000000) & 0xFFFFFFFF) - 0x80000000


def _lane_steps(width: int) -> list[tuple[int, int, int]]:
    """(bits of a lane, mask of every second lane, power of 31) until a lane is `width` bytes."""
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
    """Enter keys into an index file's slots, each at the head of its slot's chain.

    Args:
        slots: the newest entry of each slot, 0 where there is none; changed.
        number: the number of the first entry to be made.
        hashes: Java's hash of each "topic#key".
        offsets: physical offset of each key's record, bytes.
        seconds: each entry's time field, s.

    Returns:
        The entries' bytes (docs/format/index-file.md), and how many slots had none before.
    """
    count = len(slots)
    pack = _INDEX_ENTRY.pack
    entries: list[bytes] = []
    append = entries.append
    fresh = 0
    for java_hash, offset, second in zip(hashes, offsets, seconds, strict=True):
        # Math.abs, and 0 for the one number that has none (IndexFile.indexKeyHashMethod).
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
    """31**(count-1), ..., 31, 1, each wrapped to 32 bits."""
    return _POWERS[-count:] if count <= len(_POWERS) else _powers_of_31(count)


def _powers_of_31(count: int) -> tuple[int, ...]:
    """The powers of 31, computed: 31 has period 2**29 or less, so this is for long texts only."""
    powers = [1]
    for _ in range(count - 1):
        powers.append(powers[-1] * 31 & 0xFFFFFFFF)
    return tuple(reversed(powers))


_POWERS = _powers_of_31(256)  # Topics and most tags and keys are shorter.

_LANES_SIZE = 16_384  # Bytes hashed at a time; longer ints gain nothing.
_WIDTH_SHORT, _WIDTH_LONG = 64, 256  # Room for a topic and a unique id; for most keys.
_STEPS = {width: _lane_steps(width) for width in (_WIDTH_SHORT, _WIDTH_LONG)}
