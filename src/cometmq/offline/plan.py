"""Plans a read of the log: a range of offsets and times, divided into tasks."""

from collections.abc import Sequence
from dataclasses import dataclass

from cometmq.model.errors import SettingsError
from cometmq.offline.choices import SPLIT_BYTES
from cometmq.offline.conditions import STORE_TIME_MARGIN_MS
from cometmq.offline.folder import ListedFile, StoreFolder
from cometmq.offline.log_end import end_by_time, fixed_end, present_end, used_files
from cometmq.offline.scan import first_stored_ms
from cometmq.offline.splits import Split, between, cut, joined

Task = tuple[Split, ...]


@dataclass(frozen=True)
class LogRange:
    """A range of the log to read.

    Attributes:
        start: Physical offset; None for the oldest file.
        end: Physical offset; None for the log's end.
        start_ms: Only records stored at or after this time, ms since 1970.
        end_ms: Only records stored before this time, ms since 1970.
    """

    start: int | None = None
    end: int | None = None
    start_ms: int | None = None
    end_ms: int | None = None


ALL = LogRange()


def plan_tasks(
    folder: StoreFolder, wanted: LogRange = ALL, *, split_bytes: int = SPLIT_BYTES
) -> list[Task]:
    """Return the tasks (groups of splits) of a read, in log order; what a running broker adds later is left out.

    For wanted times, only whole log files are left out; the reader must check the records' times.

    Raises:
        StoreDamaged: For example, there is no log.
        SettingsError: The range begins after the last log file that is in use.
    """
    files = used_files(folder)
    if wanted.start is not None and wanted.start > files[-1].end:
        raise SettingsError(
            f"option 'startingPhysicalOffset': {wanted.start} is beyond the log, which ends before {files[-1].end}"
        )
    end = fixed_end(folder, files)
    if end is None and wanted.end is not None and wanted.end < files[-1].end:
        end = present_end(folder, files)
    if wanted.end is not None and wanted.end < files[-1].end:
        end = wanted.end if end is None else min(end, wanted.end)
    splits = between(cut(_in_time(folder, files, wanted), split_bytes), wanted.start, end)
    return joined(splits, split_bytes)


def end_before(folder: StoreFolder, files: Sequence[ListedFile], time_ms: int) -> int:
    """Return the physical offset of the first record stored at or after a time, or the log's end."""
    start = _in_time(folder, files, LogRange(start_ms=time_ms))[0].start
    return end_by_time(folder, files, start, time_ms - 1)


def by_name(tasks: Sequence[Task]) -> dict[str, Task]:
    """Return tasks by name; a name consists of the physical offsets that the task covers."""
    return {",".join(f"{split.lo}-{split.hi}" for split in task): task for task in tasks}


def log_size(task: Task) -> int:
    """Return the number of bytes of the log that a task covers."""
    return sum(split.hi - split.lo for split in task)


def _in_time(
    folder: StoreFolder, files: Sequence[ListedFile], wanted: LogRange
) -> Sequence[ListedFile]:
    """Return the files that can hold records of the wanted times.

    Store times are assumed to ascend from file to file, except that a clock was set back by up to STORE_TIME_MARGIN_MS.
    """
    first, last = 0, len(files)
    if wanted.start_ms is not None:
        start_ms = wanted.start_ms - STORE_TIME_MARGIN_MS
        while first + 1 < last and _is_before(folder, files[first + 1], start_ms):
            first += 1
    if wanted.end_ms is not None:
        end_ms = wanted.end_ms + STORE_TIME_MARGIN_MS
        while last - 1 > first and not _is_before(folder, files[last - 1], end_ms):
            last -= 1
    return files[first:last]


def _is_before(folder: StoreFolder, file: ListedFile, time_ms: int) -> bool:
    """Return whether a file begins with a record that was stored before a time."""
    stored_ms = first_stored_ms(folder, Split(file, file.start, file.start + 1))
    return stored_ms is not None and stored_ms < time_ms
