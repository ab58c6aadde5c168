"""The timer's wheel, log and checkpoint (timercheck) together: adds messages, reads slots, saves everything.

The log is synced before the wheel that points into it, and both before the checkpoint. At each start the log is
read again, from the file before the checkpointed position or from its start, and the wheel is updated from it, as in
TimerMessageStore.recover of RocketMQ 5.3.3. Units after the checkpointed one are remembered until the topic has delivered
their messages again, so that none is added twice.
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
_BLANK_SLOTS = 60  # TIMER_BLANK_SLOTS: slots that a roll leaves free at the wheel's end.


class TimerRequest(NamedTuple):
    """A message that waits for its time, or that cancels such a message.

    Attributes:
        physical_offset: Physical offset of its record in the commitlog.
        size: Size of its record in bytes.
        out_ms: Start of the slot in which it is due (TIMER_OUT_MS).
        due_ms: The millisecond before it is due, moved into its slot, but never the slot's first; its last if unknown.
        is_delete: Whether it cancels another message.
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
    """Changed pages of the timer's wheel, end of its log, and checkpoint, to save together in a thread."""

    pages: list[WheelPage]
    log_end: int
    check: TimerCheck


class TimerFiles:
    """Files of the messages that wait for their delivery time: a wheel of time slots, a log, and a checkpoint.

    Attributes:
        check: The last loaded or saved checkpoint; mostly zeros after the log was found damaged.
        read_ms: Time before which all slots count as delivered, ms since 1970.
        queue_offset: Offset in the timer's topic before which all messages were added.
        waiting_count: Number of messages in the wheel, minus those that cancel one; after a recovery approximate.
        used_slots: Number of slots from `read_ms` on that have units, also those that only cancel messages.
        known: Physical offsets of messages that have units already when the topic delivers them again, because the
            files were opened or truncated; not of those added since.
        delivered_ms: Time before which slots were already delivered, for messages that are added again, ms since 1970.
        delivered_until: Offset in the timer's topic up to which `delivered_ms` applies.
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
        self.used_slots = 0
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
        """Return the start of the time slot that contains a time, ms."""
        return time_ms // self._precision_ms * self._precision_ms

    @property
    def is_reading_again(self) -> bool:
        """Whether messages are added again of which another timer, or lost files, delivered those due before `delivered_ms`."""
        return bool(self.delivered_ms) and self.queue_offset < self.delivered_until

    @property
    def told_ms(self) -> int:
        """Time for other members, ms since 1970: `read_ms`, or `delivered_ms` if that is earlier and messages are read again.

        A member keeps the maximum of each value that it was told. With this timer's `read_ms` and the greater offset of an
        earlier timer, it would count messages as delivered that neither has delivered.
        """
        return min(self.read_ms, self.delivered_ms) if self.is_reading_again else self.read_ms

    # --- opening

    def open(self, now_ms: int, *, is_log_cut: bool = False) -> None:
        """Load the existing files and update the wheel from the log; raise OSError if the disk fails.

        A damaged wheel or log is moved away; it is rebuilt from the log, or from the messages of the timer's topic. Units
        after the checkpoint are kept unless `is_log_cut`: their messages may have been cut from the commitlog.
        """
        self.load_check()
        if self.check.master_queue_offset > self.check.queue_offset:
            # This was a slave, or it still reads again: another broker has delivered the due messages among these.
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
                f"timerlog ends at {self.log.end}, but was flushed up to {self.check.log_flushed}"
            )
        if is_log_cut:
            self.known.clear()
            self.log.go_back(min(self.log.end, self.check.log_flushed))
        self._mend_wheel()
        self.log.cut()
        # Only what the checkpoint states is known to be on the device.
        self.log.flushed = min(self.check.log_flushed, self.log.end)
        # A slot that is older than a turn of the wheel now stands for another time.
        oldest_ms = self.floor(now_ms) - (SLOTS_TOTAL - _BLANK_SLOTS) * self._precision_ms
        begin_ms = self.check.read_ms or (self.floor(now_ms) if not self.log.end else 0)
        self.read_ms = max(begin_ms, oldest_ms)
        self.queue_offset = self.check.queue_offset
        self._count_waiting()

    def _count_waiting(self) -> None:
        counts = [slot.unit_count for slot in self.wheel.waiting(self.read_ms)]
        self.waiting_count, self.used_slots = sum(counts), len(counts)

    def truncate(self, physical_offset: int, read_ms: int, log_position: int) -> None:
        """Remove units of messages that a truncation of the commitlog removed. Any thread, while no other method runs.

        Args:
            physical_offset: New end of the commitlog.
            read_ms: Time from which slots are to be delivered, maybe again.
            log_position: Position in timerlog from which the topic delivers the messages of remaining units again; they
                are added to `known`.

        Raises:
            OSError: The disk failed; the call must be repeated.
        """
        self.log.write()
        position = self.log.first_from(physical_offset)
        self.log.go_back(self.log.end if position is None else position)
        self._mend_wheel()  # Also repairs the result of a failed earlier attempt.
        self.read_ms = min(self.read_ms, read_ms)
        self._count_waiting()
        end = self.log.end
        for position, unit in self.log.scan(log_position):
            if log_position <= position < end:
                self.known.add(unit.physical_offset)

    def _load_files(self) -> bool:
        """Load wheel and log, moving damaged ones away; return False if the wheel must be rebuilt from the log."""
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
        """Move the log and the wheel away, to be rebuilt from the timer's topic without the messages already delivered."""
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
            "The timer files are damaged (%s); they were moved to %s and are rebuilt",
            trouble,
            ", ".join(kept),
        )

    def load_check(self) -> None:
        """Read the last saved checkpoint, if there is a valid one; raise OSError if the disk fails."""
        try:
            self.check = decode_check(read_file(self._disk, self._check_path))
        except FileNotFoundError:
            return
        except CodecError as error:
            _log.warning("%s cannot be read and is ignored: %s", self._check_path, error)

    def _mend_wheel(self) -> None:
        """Empty the slots that point after the log's end, and find their units again."""
        first = self.wheel.forget_from(self.log.end)
        if first is None:
            return
        _log.warning(
            "The timer wheel was ahead of its log, which ends at %d, and was corrected",
            self.log.end,
        )
        for position, unit in self.log.scan(first):
            self.wheel.revise(unit.time_ms, position)

    # --- adding

    def add(self, waiting: TimerRequest, now_ms: int) -> None:
        """Add a message, in memory, to the slot in which it is due, or if that is too far ahead, to an earlier one."""
        write_ms = self.floor(now_ms)
        magic, due_ms = UNIT_DEFAULT, waiting.due_ms
        ahead_ms = waiting.out_ms - write_ms
        if ahead_ms >= self._roll_ms:
            magic |= UNIT_ROLL
            # Leaves enough for the last part of the way (TimerMessageStore.doEnqueue).
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
        self.used_slots += slot is EMPTY_SLOT

    def go_on(self) -> bool:
        """Advance to the next slot after the current one was delivered; return whether the next has units."""
        over = self.wheel.slot(self.read_ms)
        self.waiting_count -= over.unit_count
        self.used_slots -= over is not EMPTY_SLOT
        self.read_ms += self._precision_ms
        return self.wheel.slot(self.read_ms) is not EMPTY_SLOT

    def pass_unused(self, now_ms: int) -> None:
        """Skip slots, the current one included, up to the next one that may be used or to now."""
        self.read_ms = self.wheel.next_used_page(self.read_ms, self.floor(now_ms))

    # --- saving

    def save_job(self, now_ms: int) -> SaveJob | None:
        """Write the timer log's new units to its files; return what else must be saved, or None if nothing has changed.

        The caller passes the result to `run`, in a thread, and then to `saved` or `saving_failed`.

        Raises:
            OSError: The units could not be written; all of them are kept for the next attempt.
        """
        self.log.write()
        check, end, read_ms = self.check, self.log.written, self.told_ms
        is_moved = (read_ms, self.queue_offset, end) != (
            check.read_ms, check.queue_offset, check.log_flushed,
        )  # fmt: skip
        pages = self.wheel.take_changed()
        if not pages and not is_moved:
            return None
        known_offset = self.delivered_until if self.is_reading_again else self.queue_offset
        fresh = TimerCheck(
            read_ms, end, self.queue_offset, known_offset,
            check.state_version, now_ms, check.counter + 1,
        )  # fmt: skip
        return SaveJob(pages, end, fresh)

    def run(self, job: SaveJob) -> None:
        """Sync the timer log, then write and sync the wheel's pages, then the checkpoint. Any thread, one at a time.

        Raises:
            OSError: The disk failed; call `saving_failed`.
        """
        self.log.flush(job.log_end)
        if job.pages:
            self.wheel.write(job.pages)
        self._write_check(job.check)

    def take_check(self, theirs: TimerCheck) -> None:
        """Save the progress of the timer of this slave's master in this timer's checkpoint. May raise OSError; any thread."""
        check = self.check
        fresh = check._replace(
            read_ms=max(check.read_ms, theirs.read_ms),
            # A Java master uses its other field for the progress of its own master.
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
        """Note a completed save: its checkpoint is the last one, and the timer log is flushed up to the job's end."""
        self.log.flushed = job.log_end
        self.check = job.check

    def saving_failed(self, job: SaveJob) -> None:
        """Mark the pages of a failed save as changed, so that the next save writes them."""
        self.wheel.give_back(job.pages)

    def close(self) -> None:
        """Close all files."""
        self.log.close()
