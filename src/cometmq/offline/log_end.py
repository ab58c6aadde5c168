"""Finds the end of a log: for a reader of everything, or only of records that will remain.

A log file is allocated completely before it is used, so its size says nothing about its content. The log of a cleanly
closed store usually ends with its last record. If the `abort` file exists, a broker is writing or was killed; the plan
of a read then contains the present end.
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

# If a file begins with this many zeros, it was created ahead and is unused.
_HEAD_BYTES = 1 << 20
_TAIL_BYTES = 1 << 12


def used_files(folder: StoreFolder) -> list[ListedFile]:
    """Return the log files without unused last ones (first MiB zero), but at least one; StoreDamaged without a log."""
    files = folder.log_files()
    while len(files) > 1 and _is_unused(folder, files[-1]):
        files.pop()
    return [*files[:-1], replace(files[-1], is_last=True)]


def _is_unused(folder: StoreFolder, file: ListedFile) -> bool:
    with folder.opened(file.path) as read_at:
        return not any(read_at(0, _HEAD_BYTES))


def is_open(folder: StoreFolder) -> bool:
    """Return whether the `abort` file exists: a broker has the directory open, or was not stopped cleanly."""
    return folder.exists(ABORT_FILE)


def fixed_end(folder: StoreFolder, files: Sequence[ListedFile]) -> int | None:
    """Return the present end of the log (see `present_end`) if the `abort` file exists; None if not."""
    return present_end(folder, files) if is_open(folder) else None


def present_end(folder: StoreFolder, files: Sequence[ListedFile]) -> int:
    """Return the physical offset at which the log ends now: after the last record found, or where the search began.

    The search begins at the flushed offset if that is in the last file and not behind 4 KiB of zeros, otherwise at the
    start of that file.
    """
    known = flushed_offset(folder) or 0
    return log_end(folder, files, known if _is_written(folder, files[-1], known) else 0)


def _is_written(folder: StoreFolder, file: ListedFile, offset: int) -> bool:
    """Return whether there is a non-zero byte shortly before a physical offset in a file."""
    if not file.start < offset <= file.end:
        return False
    begin = max(file.start, offset - _TAIL_BYTES)
    with folder.opened(file.path) as read_at:
        return any(read_at(begin - file.start, offset - begin))


def log_end(folder: StoreFolder, files: Sequence[ListedFile], known: int) -> int:
    """Return the physical offset of the end of the last record; `known` is an offset at or before it, maybe 0.

    Only the last file is walked, from `known` or its start on; if no record is found there, that offset is returned.
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
    """Refuse a log with non-zero bytes but no record, which would otherwise be treated as empty; raises StoreDamaged.

    If the `abort` file exists, any log is accepted, because its first record may be incomplete.
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
            f"{damages[0]}. The files of this log have no record: restore them from a copy, or let "
            "`cometmq store repair` move them to `cut` and start an empty log"
        )


def _begins_with_record(folder: StoreFolder, file: ListedFile) -> bool:
    found = next(scan(folder, Split(file, file.start, file.start + 1)), None)
    return found is not None and not isinstance(found, Damage)


def damage_behind(folder: StoreFolder) -> Damage | None:
    """Return the damaged bytes after the last record of a log; None for a clean end.

    Also None if the `abort` file exists, because the next start of the broker usually cuts them.
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
    """Return the physical offset, at least `start`, up to which the log is on the device by its checkpoint.

    For a cleanly closed log, this is its end.

    Raises:
        StoreDamaged: For example, there is no log, or a closed one has only damage.
    """
    files = used_files(folder)
    if not is_open(folder):
        check_has_records(folder, files)
        return max(log_end(folder, files, start), start)
    flushed = flushed_offset(folder)
    if flushed is not None:
        return max(flushed, start)
    return end_by_time(folder, files, start, _times(folder).log_timestamp)


def flushed_offset(folder: StoreFolder) -> int | None:
    """Return the log's flushed offset by CometMQ's checkpoint; None without it, or if Java seems to have written."""
    progress = decode_progress(folder.read(PROGRESS_FILE) or b"")
    if progress is None or progress.log_ms != _times(folder).log_timestamp:
        return None
    return progress.flushed


def _times(folder: StoreFolder) -> Checkpoint:
    with suppress(CodecError):
        return decode_checkpoint(folder.read(CHECKPOINT_FILE) or b"")
    return Checkpoint()


def end_by_time(
    folder: StoreFolder, files: Sequence[ListedFile], start: int, time_ms: int
) -> int:
    """Return the offset of the first record from `start` on that was stored after `time_ms`, or the log's end."""
    end = start
    for file in files:
        if file.end <= start:
            continue
        for found in scan(folder, Split(file, max(start, file.start), file.end)):
            if isinstance(found, Damage):
                continue
            window = found.window
            later = (window.stored_ms() > time_ms).nonzero()[0]
            if len(later):
                return max(start, found.base + int(window.starts[later[0]]))
            end = found.base + int(window.starts[-1] + window.int32(0)[-1])
    return end
