"""Reads requests for messages: fields of a header to values, entries of a queue to records.

Both take what is plain and give None for the rest, which is read with more care (codec.fields, store.reader).
Compiled: `_reads`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from cometmq.kernel.layouts import (
    BLANK_SIZE,
    GAP_CODE,
    MAGIC_V1,
    MAGIC_V2,
    QUEUE_ENTRY,
    RECORD_HEAD,
    RECORD_SIZE_MIN,
)
from cometmq.kernel.rows import FieldRow, PlacedEntries

_ENTRY = QUEUE_ENTRY.struct
ENTRIES_MAX = 1_024  # Looked at in one read; RocketMQ looks at 800 for a filter.


def plain_fields(
    values: Mapping[str, str], rows: tuple[FieldRow, ...]
) -> tuple[Any, ...] | None:
    """The values of a header's fields, in the order of `rows`.

    Args:
        values: text by name, as it came; a field that is missing has its default.
        rows: the fields that the header has.

    Returns:
        None where one that is required is missing, or one is not plain: a value that is no text, a number that is not
        written as JSON writes it or has more than 18 digits, a truth value other than true and false. Without a compiler always: in
        Python it gained a tenth over the careful way (codec.fields).
    """
    return None


def plain_read(
    entries: PlacedEntries,
    count_max: int,
    size_max: int,
    log_start: int,
    match: Callable[[int], bool] | None,
    view: memoryview,
    base: int,
) -> tuple[bytes, int, int, int] | None:
    """The records that entries of a queue name, in one piece: what `choose_entries`, `gather` and `count_records` give.

    Args:
        entries: of a queue, whole ones.
        count_max: most messages.
        size_max: most bytes of records; the first is taken whatever its size.
        log_start: physical offset of the log's first byte.
        match: which tags codes are wanted; None: all.
        view: the log file in which they are.
        base: physical offset of its first byte.

    Returns:
        The records, how many they are, how many entries were looked at, and the physical offset behind the last
        record. None where nothing was found, there are no whole entries, or more than ENTRIES_MAX,
        or an entry is not plain: its message is deleted, or not within the
        file, or what stands there is no record of its size and place, or comes before the one of the entry before.
    """
    content, start, stop = entries
    if not 0 <= start <= stop <= min(len(content), start + ENTRIES_MAX * QUEUE_ENTRY.size):
        return None
    if (stop - start) % QUEUE_ENTRY.size:
        return None
    pieces: list[memoryview] = []
    total = looked = 0
    end, limit = -1, base + len(view)
    for place, size, tags_code in _ENTRY.iter_unpack(content[start:stop]):
        if size <= 0 or (pieces and (len(pieces) >= count_max or total + size > size_max)):
            break
        looked += 1
        if place < log_start or size == BLANK_SIZE or tags_code == GAP_CODE:
            return None
        if match is not None and not match(tags_code):
            continue
        if size < RECORD_SIZE_MIN or place < max(end, base) or place + size > limit:
            return None
        piece = view[place - base : place - base + size]
        head = RECORD_HEAD.struct.unpack_from(piece)
        if head[0] != size or head[1] not in (MAGIC_V1, MAGIC_V2) or head[6] != place:
            return None
        pieces.append(piece)
        total += size
        end = place + size
    return (b"".join(pieces), len(pieces), looked, end) if pieces else None
