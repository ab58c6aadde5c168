"""Wheel, log and check together: messages are added, the slots of a time are read, all is saved.

The log is on the device before the wheel that points into it, and both before the check that says so.
After an unclean end the log is read again from the file before the check's, and sets the wheel: so
does TimerMessageStore.recover of RocketMQ 5.3.3. Units behind the check are remembered until the
messages that the topic gives again have passed, so that none of them is added twice.
"""

import logging
from typing import NamedTuple

from cometmq.codec.timer_files import (
    EMPTY_SLOT,
    TIMER_CHECK_SIZE,
    TIMER_UNIT_SIZE,
    UNIT_DEFAULT,
    UNIT_DELETE,
    UNIT_ROLL,
    TimerCheck,
    TimerUnit,
    decode_check,
    encode_check,
)
from cometmq.model.errors import CodecError, StoreDamaged
from cometmq.model.frozen import dataclass
from cometmq.store.disk import Disk, opened, read_file, write_whole
from cometmq.store.put_aside import put_away
from cometmq.store.timer.log import TimerLog
from cometmq.store.timer.wheel import SLOTS_TOTAL, TimerWheel, WheelPage

_log = logging.getLogger(__name__)

_ALL = (1 << 63) - 1
_BLANK_SLOTS = 60  # TIMER_BLANK_SLOTS: what a roll leaves free at the wheel's end.


class TimerRequest(NamedTuple):
    """A message that is to wait for its time.

    Attributes:
        physical_offset: of its record in the commitlog.
        size: of its record, bytes.
        out_ms: start of the slot in which it is due (TIMER_OUT_MS).
        due_ms: the millisecond before it is due; in its slot.
        is_delete: it takes another one back.
        topic_hash: Java's hash of its real topic.
    """

    physical_offset: int
    size: int
    out_ms: int
    due_ms: int
    is_delete: bool
    topic_hash: int


@dataclass(frozen=True, slots=True)
class SaveJob:
    """The content of one save; made on the loop, written in a thread."""

    pages: list[WheelPage]
    log_end: int
    check: TimerCheck


class TimerFiles:
    """The timer's files.

    Attributes:
        wheel: the slots.
        log: the units.
        check: what was saved last.
        read_ms: slots before this time are delivered.
        queue_offset: messages of the timer's topic before this one were added.
        waiting_count: messages in the wheel, less those that take one back.
        known: physical offsets of messages that were added although the check says otherwise.
        delivered_ms: where all is added again, slots before this time are over,
        delivered_until: for messages of the timer's topic before this one.
    """

    def __init__(
        self, disk: Disk, root: str, *, precision_ms: int, roll_slots: int, log_file_size: int
    ) -> None:
        self.wheel = TimerWheel(disk, f"{root}/timerwheel", precision_ms)
        self.log = TimerLog(disk, f"{root}/timerlog", log_file_size)
        self.check = TimerCheck()
        self.read_ms = 0
        self.queue_offset = 0
        self.waiting_count = 0
        self.known: set[int] = set()
        self.delivered_ms = 0
        self.delivered_until = _ALL
        self._root = root
        self._disk = disk
        self._check_path = f"{root}/config/timercheck"
        self._precision_ms = precision_ms
        slots_max = SLOTS_TOTAL - _BLANK_SLOTS
        self._roll_ms = precision_ms * (
            roll_slots if 2 <= roll_slots <= slots_max else slots_max
        )

    def floor(self, time_ms: int) -> int:
        """The start of the slot of a time."""
        return time_ms // self._precision_ms * self._precision_ms

    # --- opening

    def open(self, now_ms: int) -> None:
        """Take the files that are there, and set the wheel by the log.

        Raises:
            OSError: the disk failed.
        """
        self.load_check()
        if self.check.master_queue_offset > self.check.queue_offset:
            # A slave was here: another broker delivered what is due before, of what it had in its wheel.
            self.delivered_ms = self.check.read_ms
            self.delivered_until = self.check.master_queue_offset
        is_whole = self._load_files()
        flushed = self.check.log_flushed if is_whole else 0
        for position, unit in self.log.scan(max(flushed - self.log.chain.file_size, 0)):
            self.wheel.revise(unit.time_ms, position)
            if position >= self.check.log_flushed:
                self.known.add(unit.physical_offset)
        if self.log.end < self.check.log_flushed:
            self._begin_again(
                f"timerlog ends at {self.log.end}, and was on the device up to {self.check.log_flushed}"
            )
        self._mend_wheel()
        self.log.cut()
        # Nothing is known to be on the device but what the check says.
        self.log.flushed = min(self.check.log_flushed, self.log.end)
        # A slot that is older than a turn of the wheel is another one by now.
        oldest_ms = self.floor(now_ms) - (SLOTS_TOTAL - _BLANK_SLOTS) * self._precision_ms
        begin_ms = self.check.read_ms or (self.floor(now_ms) if not self.log.end else 0)
        self.read_ms = max(begin_ms, oldest_ms)
        self.queue_offset = self.check.queue_offset
        self._count_waiting()

    def _count_waiting(self) -> None:
        waiting = self.wheel.waiting(self.read_ms)
        self.waiting_count = sum(slot.unit_count for slot in waiting)

    def truncate(self, physical_offset: int, read_ms: int, log_position: int) -> None:
        """The commitlog ends here now: no unit leads behind it. Any thread, while nobody adds, reads or saves.

        Args:
            physical_offset: its new end.
            read_ms: slots from here on are to be delivered, again where they were.
            log_position: messages of units from here on will be given by the topic again: they are known.

        Raises:
            OSError: the disk failed; it is to be done again.
        """
        self.log.write()
        position = self.log.first_from(physical_offset)
        self.log.go_back(self.log.end if position is None else position)
        self._mend_wheel()  # Also of what a try before this one has left, which failed.
        self.read_ms = min(self.read_ms, read_ms)
        self._count_waiting()
        end = self.log.end
        for position, unit in self.log.scan(log_position):
            if log_position <= position < end:
                self.known.add(unit.physical_offset)

    def _load_files(self) -> bool:
        """Load wheel and log; False where the wheel has to be set by all of the log."""
        try:
            self.log.load()
        except (StoreDamaged, IsADirectoryError) as error:
            self._begin_again(str(error))
        try:
            self.wheel.load()
        except (StoreDamaged, IsADirectoryError) as error:
            self._say_aside(str(error), [self.wheel.path])
            return False
        return True

    def _begin_again(self, trouble: str) -> None:
        """Put the log aside, and the wheel with it: both are made again from the timer's topic.

        What was delivered is over, and is not added again.
        """
        self._say_aside(trouble, [*self.log.paths(), self.wheel.path])
        self.log.forget()
        self.wheel.forget_from(0)
        self.known.clear()
        if self.delivered_until == _ALL:
            self.delivered_ms = self.check.read_ms
        self.check = TimerCheck(read_ms=self.check.read_ms)

    def _say_aside(self, trouble: str, paths: list[str]) -> None:
        kept = [
            put_away(self._disk, self._root, path) for path in paths if self._disk.exists(path)
        ]
        _log.warning(
            "the timer's files are damaged (%s): kept as %s, and made again",
            trouble,
            ", ".join(kept),
        )

    def load_check(self) -> None:
        """Read what was saved last.

        Raises:
            OSError: the disk failed.
        """
        try:
            self.check = decode_check(read_file(self._disk, self._check_path))
        except FileNotFoundError:
            return
        except CodecError as error:
            _log.warning("%s: %s; going on without it", self._check_path, error)

    def _mend_wheel(self) -> None:
        """Empty the slots that lead behind the log's end, and find their units anew."""
        first = self.wheel.forget_from(self.log.end)
        if first is None:
            return
        _log.warning("the timer's wheel was ahead of its log, which ends at %d", self.log.end)
        for position, unit in self.log.scan(first):
            self.wheel.revise(unit.time_ms, position)

    # --- adding

    def add(self, waiting: TimerRequest, now_ms: int) -> None:
        """Let a message wait in its slot, or on its way there if that is too far ahead."""
        write_ms = self.floor(now_ms)
        magic, due_ms = UNIT_DEFAULT, waiting.due_ms
        ahead_ms = waiting.out_ms - write_ms
        if ahead_ms >= self._roll_ms:
            magic |= UNIT_ROLL
            # Enough is left for the last part of the way (TimerMessageStore.doEnqueue).
            is_short = ahead_ms - self._roll_ms < self._roll_ms // 3
            due_ms = write_ms + (self.floor(self._roll_ms // 2) if is_short else self._roll_ms)
        if waiting.is_delete:
            magic |= UNIT_DELETE
        slot, change = self.wheel.slot(due_ms), -1 if waiting.is_delete else 1
        position = self.log.place()
        self.log.append(
            TimerUnit(
                TIMER_UNIT_SIZE, slot.last, magic, write_ms, due_ms - write_ms,
                waiting.physical_offset, waiting.size, waiting.topic_hash,
            )
        )  # fmt: skip
        self.wheel.put(
            due_ms,
            first=position if slot is EMPTY_SLOT else slot.first,
            last=position,
            count=slot.unit_count + change,
        )
        self.waiting_count += change

    def go_on(self) -> bool:
        """The present slot is delivered: go to the next one; whether that has messages."""
        self.waiting_count -= self.wheel.slot(self.read_ms).unit_count
        self.read_ms += self._precision_ms
        return self.wheel.slot(self.read_ms) is not EMPTY_SLOT

    def pass_unused(self, now_ms: int) -> None:
        """Go on over slots that are over and that nobody ever used; the present one is delivered."""
        self.read_ms = self.wheel.next_used_page(self.read_ms, self.floor(now_ms))

    # --- saving

    def save_job(self, now_ms: int) -> SaveJob | None:
        """The next save; None where nothing has changed.

        Raises:
            OSError: the units cannot be written; they stay.
        """
        self.log.write()
        check, end = self.check, self.log.written
        is_moved = (self.read_ms, self.queue_offset, end) != (
            check.read_ms, check.queue_offset, check.log_flushed,
        )  # fmt: skip
        pages = self.wheel.take_changed()
        if not pages and not is_moved:
            return None
        fresh = TimerCheck(
            self.read_ms, end, self.queue_offset, self.queue_offset,
            check.state_version, now_ms, check.counter + 1,
        )  # fmt: skip
        return SaveJob(pages, end, fresh)

    def run(self, job: SaveJob) -> None:
        """Bring a save to the device: log, wheel, check; any thread, one at a time.

        Raises:
            OSError: the disk failed; call `saving_failed`.
        """
        self.log.flush(job.log_end)
        if job.pages:
            self.wheel.write(job.pages)
        self._write_check(job.check)

    def take_check(self, theirs: TimerCheck) -> None:
        """Keep how far a master's timer is, whose log is here, and how far the own files were. May wait; any thread.

        Raises:
            OSError: the disk failed.
        """
        check = self.check
        fresh = check._replace(
            read_ms=max(check.read_ms, theirs.read_ms),
            # A Java master says in the other one how far its own master was.
            master_queue_offset=max(check.master_queue_offset, theirs.queue_offset),
            state_version=theirs.state_version,
            timestamp=theirs.timestamp,
            counter=theirs.counter,
        )
        if fresh != check:
            self._write_check(fresh)
            self.check = fresh

    def _write_check(self, check: TimerCheck) -> None:
        self._disk.make_directory(self._check_path.rpartition("/")[0])
        with opened(self._disk, self._check_path, create=True) as fd:
            if self._disk.size(fd) < TIMER_CHECK_SIZE:
                self._disk.resize(fd, TIMER_CHECK_SIZE)
                self._disk.sync_directory(self._check_path.rpartition("/")[0])
            write_whole(self._disk, fd, encode_check(check), 0)
            self._disk.fdatasync(fd)

    def saved(self, job: SaveJob) -> None:
        """A job has run."""
        self.log.flushed = job.log_end
        self.check = job.check

    def saving_failed(self, job: SaveJob) -> None:
        """A job has not run to its end: all of it is still to be done."""
        self.wheel.give_back(job.pages)

    def close(self) -> None:
        """Close every file."""
        self.log.close()
