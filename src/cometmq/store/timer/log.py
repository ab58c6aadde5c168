"""timerlog: an append-only log of units, each pointing to the previous unit of its slot.

Its files have the same size (mappedFileSizeTimerLog) and are holes until they are written. A full disk is an error of
`write`, and the units stay in memory until there is room. Source: TimerLog of RocketMQ 5.3.3.
"""

import errno
from bisect import bisect_left
from collections.abc import Iterator, Sequence

from cometmq.codec.timer_files import (
    TIMER_BLANK_SIZE,
    TIMER_UNIT_SIZE,
    TimerUnit,
    decode_unit,
    encode_blank,
    encode_unit,
    is_blank,
)
from cometmq.model.errors import CodecError
from cometmq.store.disk import Disk
from cometmq.store.file_chain import FileChain
from cometmq.store.log_file import LogFile


class TimerLog:
    """The files of units (timerlog), each unit being a message that waits for its time, or one that cancels another.

    Attributes:
        end: Position after the last unit, written or not.
        written: Position after the last unit that is in a file.
        flushed: Position up to which the log is known to be on the device.
    """

    def __init__(self, disk: Disk, directory: str, file_size: int) -> None:
        self._disk = disk
        self._directory = directory
        self.chain = FileChain(disk, (directory,), file_size, size_key="mappedFileSizeTimerLog")
        self.end = self.written = self.flushed = 0
        self._unwritten: list[tuple[int, bytes]] = []

    # --- writing

    def place(self) -> int:
        """Return the position of the next unit, after filling up a file that has no room for it with a blank."""
        size = self.chain.file_size
        left = size - self.end % size
        if left < TIMER_UNIT_SIZE + TIMER_BLANK_SIZE:
            self._unwritten.append((self.end, encode_blank(left)))
            self.end += left
        return self.end

    def append(self, unit: TimerUnit) -> None:
        """Add a unit to the timer log in memory, at `place`; `write` writes it to its file."""
        self._unwritten.append((self.end, encode_unit(unit)))
        self.end += TIMER_UNIT_SIZE

    def write(self) -> None:
        """Write the appended units to their files; on OSError all of them are kept for the next attempt."""
        for start, content in _joined(self._unwritten, self.chain.file_size):
            (self.chain.find(start) or self._make(start)).write(content, start)
        self._unwritten.clear()
        self.written = self.end

    def _make(self, position: int) -> LogFile:
        size = self.chain.file_size
        start = position // size * size
        self._disk.make_directory(self._directory)
        path = self.chain.paths(start)[0]
        fd = self._disk.open(path, create=True)
        file = LogFile(self._disk, path, start=start, size=size, fd=fd)
        # First its size, then its name; the loop waits for this once in two million messages.
        self._disk.resize(fd, size)
        self._disk.fdatasync(fd)
        self._disk.sync_directory(self._directory)
        self.chain.append(file)
        return file

    def flush(self, upto: int) -> None:
        """Sync the units up to a position to the device; raise OSError if that fails. Any thread, one at a time."""
        for file in self.chain.files:
            if file.end > self.flushed and file.start < upto:
                file.flush()

    # --- reading

    def read(self, position: int) -> TimerUnit:
        """Return the unit at a written position. May block on the device; any thread.

        Raises:
            CodecError: There is no unit at this position.
            OSError: Its file is gone.
        """
        file = self.chain.find(position)
        if file is None:
            raise OSError(errno.ENOENT, f"timerlog has no position {position}")
        return decode_unit(file.view, position - file.start)

    def back_from(self, last: int, seen: int) -> Iterator[tuple[int, TimerUnit]]:
        """Yield the units of a slot with their positions, newest first. May block; any thread.

        Args:
            last: Position of the slot's last unit; -1 if it has none.
            seen: Position of a known unit at which to stop; -1 for none.

        Raises:
            CodecError: The chain leads to something that is not a unit, or not to an earlier one.
            OSError: A file of the chain is gone.
        """
        while last not in (-1, seen):
            unit = self.read(last)
            yield last, unit
            if unit.previous >= last:
                raise CodecError(
                    f"the unit at {last} of timerlog points to the invalid position {unit.previous}"
                )
            last = unit.previous

    # --- recovery and age

    def load(self) -> None:
        """Load the existing files; `scan` finds the `end`. Raise StoreDamaged for a wrong size or a missing file."""
        self.chain.load(read_only=False)
        self.end = self.written = self.flushed = self.chain.start

    def paths(self) -> list[str]:
        """Return the paths of all files in the directory, whatever their size."""
        names = self._disk.list_names(self._directory)
        return [f"{self._directory}/{name}" for name in names]

    def forget(self) -> None:
        """Become empty after the files were moved away."""
        self.chain.close()
        self.chain.files.clear()
        self.end = self.written = self.flushed = 0

    def scan(self, position: int) -> Iterator[tuple[int, TimerUnit]]:
        """Yield the units from the start of a position's file to the first invalid one or the last; `end` moves there."""
        for file in self.chain.files:
            if file.end <= position:
                continue
            at, size = 0, file.end - file.start
            while at < size and not is_blank(file.view, at):
                try:
                    unit = decode_unit(file.view, at)
                except CodecError:
                    self.end = self.written = file.start + at
                    return
                yield file.start + at, unit
                at += TIMER_UNIT_SIZE
            self.end = self.written = file.end

    def first_from(self, physical_offset: int) -> int | None:
        """Return the position of the first unit whose message is at or after an offset of the commitlog; None without one.

        Units are in the order of their messages. All must be written.
        """
        found = None
        for file in reversed(self.chain.files):
            count = (min(file.end, self.end) - file.start) // TIMER_UNIT_SIZE
            while count and is_blank(file.view, (count - 1) * TIMER_UNIT_SIZE):
                count -= 1

            def place_of(number: int, view: memoryview = file.view) -> int:
                return decode_unit(view, number * TIMER_UNIT_SIZE).physical_offset

            number = bisect_left(range(count), physical_offset, key=place_of)
            if number < count:
                found = file.start + number * TIMER_UNIT_SIZE
            if number:
                break
        return found

    def go_back(self, position: int) -> None:
        """Truncate the log at a position; raise OSError if the disk fails."""
        self.end = self.written = position
        self.flushed = min(self.flushed, position)
        self.cut()

    def cut(self) -> None:
        """Remove everything after the end, so that a later scan does not read it as units; raise OSError on failure."""
        self.chain.drop_after(self.end)
        if self.chain.files and self.end < self.chain.end:
            self.chain.files[-1].clear_from(self.end)

    @property
    def may_drop(self) -> bool:
        """Whether the log has a file besides the newest, which always stays."""
        return len(self.chain.files) > 1

    def unneeded(self, physical_offset: int) -> list[LogFile]:
        """Return the oldest files, without the newest, whose messages are all before an offset of the commitlog.

        Reads from each, so call it in a thread. Raises OSError or CodecError if a file cannot be read.
        """
        size = self.chain.file_size
        last = (size - TIMER_BLANK_SIZE) // TIMER_UNIT_SIZE * TIMER_UNIT_SIZE - TIMER_UNIT_SIZE
        found = []
        for file in self.chain.files[:-1]:
            if decode_unit(file.view, last).physical_offset >= physical_offset:
                break
            found.append(file)
        return found

    def drop(self, files: Sequence[LogFile]) -> None:
        """Remove files that `unneeded` returned from the log, but not from the disk."""
        for file in files:
            dropped = self.chain.drop_first()
            assert dropped is file, "a file was dropped meanwhile"

    @staticmethod
    def delete(files: Sequence[LogFile]) -> None:
        """Remove dropped files from the disk, in a thread; raise OSError on failure. A later start drops the rest."""
        for file in files:
            file.unlink()

    def close(self) -> None:
        """Close all files."""
        self.chain.close()


def _joined(pieces: list[tuple[int, bytes]], file_size: int) -> Iterator[tuple[int, bytes]]:
    start, content = -1, bytearray()
    for position, piece in pieces:
        is_next = position == start + len(content) and position % file_size
        if content and not is_next:
            yield start, bytes(content)
            content.clear()
        if not content:
            start = position
        content += piece
    if content:
        yield start, bytes(content)
