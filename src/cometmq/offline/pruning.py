"""Skips pieces of the log without rows of a query.

Queues and index of a store are not used: they may be damaged, and rows that they do not list would be missing. The log
decides, by physical offsets, which ascend, and by times, which nearly do.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from cometmq.codec.record import PHYSICAL_OFFSET_AT, QUEUE_ID_AT
from cometmq.model import flags
from cometmq.offline.columns.window import Flags, Longs, RecordWindow
from cometmq.offline.conditions import LEAST, MOST, STORE_TIME_MARGIN_MS, Conditions
from cometmq.offline.folder import StoreFolder
from cometmq.offline.plan import Task
from cometmq.offline.scan import first_stored_ms
from cometmq.offline.splits import Split, joined

PIECE_BYTES = 1 << 20  # Usual maximum excess at each end of a read by offset or time.
_WRAPPED = flags.INNER_BATCH | flags.NEED_UNWRAP


def narrowed(
    folder: StoreFolder, tasks: Sequence[Task], conditions: Conditions, *, split_bytes: int
) -> list[Task]:
    """Return a read's tasks without most pieces of the log outside the query's physical offsets and store times."""
    low, high = conditions.span("commitLogOffset")
    first_ms, last_ms = conditions.span("storeTimestamp")
    if (low, high, first_ms, last_ms) == (LEAST, MOST, LEAST, MOST):
        return list(tasks)
    pieces = [piece for task in tasks for split in task for piece in _pieces(split)]
    kept = [piece for piece in pieces if piece.hi > low and piece.lo <= high]
    kept = _in_time(folder, kept, first_ms, last_ms)
    return joined(list(_whole(kept, split_bytes)), split_bytes)


def wanted_rows(window: RecordWindow, conditions: Conditions) -> Flags:
    """Return a mask of the records that may be rows of the query, before decoding; always includes inner batches."""
    keep = np.ones(len(window), np.bool_)
    columns: dict[str, Callable[[], Longs]] = {
        "queueId": lambda: window.int32(QUEUE_ID_AT),
        "queueOffset": lambda: window.queue_offset,
        "commitLogOffset": lambda: window.int64(PHYSICAL_OFFSET_AT),
        "storeTimestamp": window.stored_ms,
    }
    for name, values in columns.items():
        low, high = conditions.span(name)
        if (low, high) != (LEAST, MOST):
            found = values()
            keep &= (found >= low) & (found <= high)
    topics = conditions.choices.get("topic")
    if topics is not None:
        texts = window.topic_texts.to_numpy(zero_copy_only=False)
        keep &= np.isin(texts, list(topics))
    # The messages of a batch have their own offsets.
    wrapped: Flags = (window.sys_flag & _WRAPPED) == _WRAPPED
    return keep | wrapped


def _pieces(split: Split) -> Iterator[Split]:
    """Divide a split into pieces; a split of a whole file stays one, as its reader may need it (splitBytes)."""
    if split.lo == split.file.start and split.hi == split.file.end:
        yield split
        return
    for lo in range(split.lo, split.hi, PIECE_BYTES):
        yield replace(split, lo=lo, hi=min(lo + PIECE_BYTES, split.hi))


def _in_time(
    folder: StoreFolder, pieces: Sequence[Split], first_ms: int, last_ms: int
) -> list[Split]:
    """Return the pieces that can hold records of these times, unless a clock was set back by more than a minute."""

    def is_from(piece: Split) -> int:
        at = first_stored_ms(folder, piece)
        return at is None or at >= first_ms - STORE_TIME_MARGIN_MS

    def is_behind(piece: Split) -> int:
        at = first_stored_ms(folder, piece)
        return at is not None and at > last_ms + STORE_TIME_MARGIN_MS

    begin, end = 0, len(pieces)
    if first_ms > LEAST + STORE_TIME_MARGIN_MS:
        # The last piece that begins before the time may reach into it.
        begin = max(bisect_left(pieces, 1, key=is_from) - 1, 0)
    if last_ms < MOST - STORE_TIME_MARGIN_MS:
        end = bisect_left(pieces, 1, key=is_behind)
    return list(pieces[begin:end])


def _whole(pieces: Iterable[Split], split_bytes: int) -> Iterator[Split]:
    """Join adjacent pieces of a file again, up to `split_bytes`."""
    before: Split | None = None
    for piece in pieces:
        if before is None:
            before = piece
        elif (before.file, before.hi) == (piece.file, piece.lo) and (
            piece.hi - before.lo <= split_bytes
        ):
            before = replace(before, hi=piece.hi)
        else:
            yield before
            before = piece
    if before is not None:
        yield before
