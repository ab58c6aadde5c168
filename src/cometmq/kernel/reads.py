"""Fast decoding of requests' fields to headers, and fast reading of queue entries' records.

Both return None unless the case is simple; the slow path then takes over (codec.fields, store.reader).

Compiled twin: `_reads`.
"""

from collections.abc import Callable, Mapping
from struct import Struct
from typing import TypeVar

from cometmq.kernel.filters import PropertyFilter
from cometmq.kernel.layouts import (
    BLANK_SIZE,
    GAP_CODE,
    MAGIC_V1,
    MAGIC_V2,
    QUEUE_ENTRY,
    RECORD_HEAD,
    RECORD_MARK,
    RECORD_SIZE_MIN,
)
from cometmq.kernel.rows import FieldRow, PlacedEntries

Header = TypeVar("Header")
_ENTRY = QUEUE_ENTRY.struct
# A record's size, magic and physical offset.
_HEAD = Struct(f">iI{RECORD_HEAD.at['physical_offset'] - RECORD_MARK.size}xq")
_MAGICS = MAGIC_V1, MAGIC_V2
ENTRIES_MAX = 1_024  # Per read; RocketMQ checks 800 for a filter.


def plain_header(
    kind: type[Header], values: Mapping[str, str], rows: tuple[FieldRow, ...]
) -> Header | None:
    """Decode the fields of a header to an object of its class, without calling the class.

    Args:
        kind: Class of the header. Its attributes can be set on an object that is not initialized.
        values: Texts by name; a missing field gets its default.
        rows: Fields of the header.

    Returns:
        The header. None if a required field is missing or one is not simple: a value that is not a text, a number not
            in JSON's form or of more than 18 digits, a boolean other than true and false. Always None without a
            compiler: in plain Python it would save only a tenth compared with codec.fields.
    """
    return None


def plain_read(
    entries: PlacedEntries,
    count_max: int,
    size_max: int,
    log_start: int,
    match: Callable[[int], bool] | PropertyFilter | None,
    view: memoryview,
    base: int,
) -> tuple[bytes, int, int, int] | None:
    """Read the records of queue entries in one piece, like `choose_entries`, `gather` and `count_records` together.

    Args:
        entries: Complete entries of a queue.
        count_max: Maximum number of messages, at least 1.
        size_max: Maximum size of the records, bytes; the first one may exceed it.
        log_start: Physical offset of the log's first byte.
        match: Returns whether a tags code is subscribed, or a property filter; None: all messages are wanted.
        view: The log file that contains the records.
        base: Physical offset of its first byte.

    Returns:
        The records, maybe none, their number, the number of checked entries, and the physical offset after the last record
            that was looked at, -1 without any. None if no entry was checked, there are incomplete or more than ENTRIES_MAX
            entries, or an entry is not simple: its message is deleted or lost, or is not within the file, or there is no
            record of this size and offset, or it is before the previous one, or a property filter leaves it undecided.
    """
    if isinstance(match, PropertyFilter):
        return None
    content, start, stop = entries
    if not 0 <= start <= stop <= min(len(content), start + ENTRIES_MAX * QUEUE_ENTRY.size):
        return None
    if (stop - start) % QUEUE_ENTRY.size:
        return None
    pieces: list[memoryview] = []
    looked, left = 0, size_max
    end, limit, read_head = -1, base + len(view), _HEAD.unpack_from
    for place, size, tags_code in _ENTRY.iter_unpack(content[start:stop]):
        if not 0 < size <= left and (pieces or size <= 0):
            break
        looked += 1
        if place < log_start or size == BLANK_SIZE or tags_code == GAP_CODE:
            return None
        if match is not None and not match(tags_code):
            continue
        if size < RECORD_SIZE_MIN or place < max(end, base) or place + size > limit:
            return None
        at = place - base
        found_size, magic, found_place = read_head(view, at)
        if found_size != size or found_place != place or magic not in _MAGICS:
            return None
        pieces.append(view[at : at + size])
        left -= size
        end = place + size
        if len(pieces) >= count_max:
            break
    return (b"".join(pieces), len(pieces), looked, end) if looked else None
