"""Finds the end of a log: for a reader of all that is there, and for one that wants only what will stay.

A log file is allocated whole before it is used, so its size says nothing. A directory that was
closed in order ends where the records end. While the marker `abort` is there a broker writes, or
was killed: then the end is fixed when a read is planned.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from cometmq.codec.checkpoint import Checkpoint, decode_checkpoint
from cometmq.model.errors import CodecError, StoreDamaged
from cometmq.offline.damage import Damage
from cometmq.offline.folder import ListedFile, StoreFolder
from cometmq.offline.scan import scan
from cometmq.offline.splits import Split
from cometmq.store.checkpoint import CHECKPOINT_FILE, PROGRESS_FILE, decode_progress
from cometmq.store.lock import ABORT_FILE

_HEAD_BYTES = 1 << 20  # Zeros at a file's begin that say it was made ahead of need.
_TAIL_BYTES = 1 << 12


def used_files(folder: StoreFolder) -> list[ListedFile]:
    """The log files without those at the end that have been made ahead and hold nothing.

    Raises:
        StoreDamaged: there is no log.
    """
    files = folder.log_files()
    while len(files) > 1 and _is_unused(folder, files[-1]):
        files.pop()
    return [*files[:-1], replace(files[-1], is_last=True)]


def _is_unused(folder: StoreFolder, file: ListedFile) -> bool:
    with folder.opened(file.path) as read_at:
        return not any(read_at(0, _HEAD_BYTES))


def is_open(folder: StoreFolder) -> bool:
    """Whether a broker has the directory, or was killed."""
    return folder.exists(ABORT_FILE)


def fixed_end(folder: StoreFolder, files: Sequence[ListedFile]) -> int | None:
    """The present end of the records where more may come; None for a directory that nobody writes."""
    return present_end(folder, files) if is_open(folder) else None


def present_end(folder: StoreFolder, files: Sequence[ListedFile]) -> int:
    """Physical offset behind the last record that is there now.

    What is known to be on the device is not walked through again, unless the log was cut since: then
    nothing stands before that place.
    """
    known = flushed_offset(folder) or 0
    return log_end(folder, files, known if _is_written(folder, files[-1], known) else 0)


def _is_written(folder: StoreFolder, file: ListedFile, offset: int) -> bool:
    """Whether anything but zeros stands right before a physical offset in a file."""
    if not file.start < offset <= file.end:
        return False
    begin = max(file.start, offset - _TAIL_BYTES)
    with folder.opened(file.path) as read_at:
        return any(read_at(begin - file.start, offset - begin))


def log_end(folder: StoreFolder, files: Sequence[ListedFile], known: int) -> int:
    """Physical offset behind the last record.

    Args:
        folder: the store.
        files: its log files.
        known: an offset that is at or before it; 0 where nothing is known.
    """
    file = files[-1]
    begin = max(file.start, min(known, file.end - 1))
    end = begin
    for found in scan(folder, Split(file, begin, file.end)):
        if not isinstance(found, Damage) and len(found.window):
            sizes = found.window.int32(0)
            end = found.base + int(found.window.starts[-1] + sizes[-1])
    return end


def check_has_records(folder: StoreFolder, files: Sequence[ListedFile]) -> None:
    """Refuse a log that has bytes but no record: it would be taken for an empty one.

    Where a broker writes, the first record may be half there.

    Raises:
        StoreDamaged: nothing of it can be read.
    """
    if is_open(folder) or any(_begins_with_record(folder, file) for file in files):
        return
    damages = []
    for file in files:
        for found in scan(folder, Split(file, file.start, file.end)):
            if not isinstance(found, Damage):
                return
            damages.append(found)
    if damages:
        raise StoreDamaged(
            f"{damages[0]}. No record is in any file of this log: put the files back from a copy, or let "
            "`cometmq store repair` keep them in `cut` and begin an empty log"
        )


def _begins_with_record(folder: StoreFolder, file: ListedFile) -> bool:
    found = next(scan(folder, Split(file, file.start, file.start + 1)), None)
    return found is not None and not isinstance(found, Damage)


def damage_behind(folder: StoreFolder) -> Damage | None:
    """Bytes behind the last record of a log that nobody writes; None for a plain end.

    Where a broker writes, or was killed, they are what its next start cuts.
    """
    if is_open(folder):
        return None
    files = used_files(folder)
    file, end = files[-1], present_end(folder, files)
    if end >= file.end:
        return None
    behind = scan(folder, Split(file, end, file.end, is_behind_record=True))
    return next((found for found in behind if isinstance(found, Damage)), None)


def durable_end(folder: StoreFolder, start: int) -> int:
    """Physical offset up to which the log is on the device, as its checkpoint says.

    Args:
        folder: the store.
        start: from where on it is asked; the answer is not before it.

    Raises:
        StoreDamaged: nothing of the log can be read.
    """
    files = used_files(folder)
    if not is_open(folder):
        check_has_records(folder, files)
        return max(log_end(folder, files, start), start)
    flushed = flushed_offset(folder)
    if flushed is not None:
        return max(flushed, start)
    return _end_by_time(folder, files, start, _times(folder).log_timestamp)


def flushed_offset(folder: StoreFolder) -> int | None:
    """The end of the log on the device, as our own checkpoint says; None where Java wrote last."""
    progress = decode_progress(folder.read(PROGRESS_FILE) or b"")
    if progress is None or progress.log_ms != _times(folder).log_timestamp:
        return None
    return progress.flushed


def _times(folder: StoreFolder) -> Checkpoint:
    with suppress(CodecError):
        return decode_checkpoint(folder.read(CHECKPOINT_FILE) or b"")
    return Checkpoint()


def _end_by_time(
    folder: StoreFolder, files: Sequence[ListedFile], start: int, flushed_ms: int
) -> int:
    """Before the first record behind `start` that was stored after the newest flushed one."""
    end = start
    for file in files:
        if file.end <= start:
            continue
        for found in scan(folder, Split(file, max(start, file.start), file.end)):
            if isinstance(found, Damage):
                continue
            window = found.window
            later = (window.stored_ms() > flushed_ms).nonzero()[0]
            if len(later):
                return max(start, found.base + int(window.starts[later[0]]))
            end = found.base + int(window.starts[-1] + window.int32(0)[-1])
    return end
