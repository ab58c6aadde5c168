"""Moves timed messages into the timer wheel, and delivers those that are due.

One background job does both, so that no message enters a slot while the slot is being passed. Slots and messages are read in a
pool thread. Follows TimerMessageStore of RocketMQ 5.3.3.
"""

import logging
from collections.abc import Callable, Iterable

from cometmq.broker.inner.put_marks import PutMarks
from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.inner.redelivery import (
    BATCH_COUNT_MAX,
    DOUBT_MS,
    is_of_deleted_topic,
    not_delivered,
    put_deliverable,
)
from cometmq.broker.parts import Parts
from cometmq.broker.timer.running import NEVER_WAITED, RunningSlot, delivery
from cometmq.broker.timer.waiting import ArrivedMessages, TimerQueue
from cometmq.codec.properties import find_property
from cometmq.codec.record import Record
from cometmq.codec.timer_files import EMPTY_SLOT
from cometmq.model import properties as keys_of
from cometmq.model.clock import WALL_LOOK_SECONDS, seconds_until
from cometmq.model.errors import CodecError
from cometmq.model.names import WHEEL_TIMER_TOPIC
from cometmq.steps.runner import NEVER
from cometmq.steps.steps import Steps, confirmed, elsewhere, on_device
from cometmq.store.consume_queue import ConsumeQueue
from cometmq.store.positions import Durability
from cometmq.store.timer.files import TimerFiles

_log = logging.getLogger(__name__)

LOOK_SECONDS = 0.05  # Longest time until an arrival is in the wheel.
# How far ahead to look for the next due slot when the clock cannot be set.
_SLEEP_SECONDS = 86_400.0
_BEHIND_SECONDS_MAX = 1_200.0  # How far after the read position to look for the first used slot when the clock can be set.
_DROP_SECONDS = 30.0  # Interval for deleting unneeded timerlog files.
_EMPTY_SLOTS_AT_ONCE = 10_000

_REAL_TOPIC = keys_of.REAL_TOPIC.encode()


class TimedDelivery:
    """The background job that fills the timer wheel and delivers from it.

    Attributes:
        files: The wheel, its log and its checkpoint.
        on_change: Called when there may be something to save.
        on_progress: Called when messages were read from the topic or delivered, or a slot with messages is over; not
            when only time has passed.
    """

    def __init__(
        self, parts: Parts, files: TimerFiles, *, count: Callable[[Iterable[str], int], None]
    ) -> None:
        """`count` is called with the topics of messages that entered the wheel (1) or left it (-1)."""
        self.files = files
        self.on_change: Callable[[], None] = lambda: None
        self.on_progress: Callable[[], None] = lambda: None
        self._parts = parts
        self._count = count
        self._queue = TimerQueue(parts.store, parts.settings.timer_precision_ms)
        self._known_until = 0
        # State before the last deliveries, to undo them: queue offset, slot, end of timerlog.
        self._marks: PutMarks[tuple[int, int, int]] = PutMarks()
        # End of a truncated log to which the files are not adapted yet.
        self._truncate_to: int | None = None
        self._truncations = 0
        self._is_at_files = False  # Whether the files are being saved, truncated or deleted.
        self._added = self._delivered = 0
        self._rates = (0.0, 0.0)  # Messages per second that entered and left.
        self._drop_at = parts.clock.monotonic() + _DROP_SECONDS

    def open(self) -> Steps[None]:
        """Open the files and continue at the last saved progress, or earlier if they are damaged.

        Raises:
            OSError: The disk failed.
        """
        files, now_ms = self.files, self._parts.clock.now_ms()
        is_elected = self._parts.settings.is_elected
        yield from elsewhere(lambda: files.open(now_ms, is_log_cut=is_elected))
        low, high = self._queue.bounds()
        files.queue_offset = min(max(files.queue_offset, low), high)
        self._known_until = high
        files.delivered_until = min(files.delivered_until, high)
        self._slot = RunningSlot(self._parts, self.files)

    @property
    def is_empty(self) -> bool:
        """Whether the wheel has neither messages nor recalls, and the timer's topic is read to its end."""
        _, end = self._queue.bounds()
        return not self.files.used_slots and self.files.queue_offset >= end

    def facts(self) -> dict[str, str]:
        """Return the timer's progress as texts: seconds behind, numbers of messages before and in the wheel, rates."""
        files, (_, end) = self.files, self._queue.bounds()
        return {
            "timerReadBehind": str(self._behind_ms(self._parts.clock.now_ms()) // 1000),
            "timerOffsetBehind": str(end - files.queue_offset),
            "timerCongestNum": str(files.waiting_count),
            "timerEnqueueTps": f"{self._rates[0]:.1f}",
            "timerDequeueTps": f"{self._rates[1]:.1f}",
        }

    def _behind_ms(self, now_ms: int) -> int:
        """Return about how many ms ago the first slot with messages began; 0 if it begins later, or no message waits."""
        begin_ms = self.files.read_ms
        if not begin_ms or not self.files.used_slots:
            return 0
        seconds = 2 * _SLEEP_SECONDS if self._parts.clock.is_steady else _BEHIND_SECONDS_MAX
        end_ms = min(now_ms, begin_ms + int(seconds * 1000))
        first_ms = self._first_used_slot(begin_ms, end_ms)
        return max(now_ms - first_ms, 0) if first_ms < now_ms else 0

    def _first_used_slot(self, begin_ms: int, end_ms: int) -> int:
        """Return the start of the first slot with messages in this range; `end_ms` or later if none has."""
        wheel, precision_ms = self.files.wheel, self._parts.settings.timer_precision_ms
        begin_ms = wheel.next_used_page(begin_ms, end_ms)
        while begin_ms < end_ms and wheel.slot(begin_ms) is EMPTY_SLOT:
            begin_ms = wheel.next_used_page(begin_ms + precision_ms, end_ms)
        return begin_ms

    # --- the log is truncated

    def truncated(self, end: int) -> None:
        """Note a truncation of the log; before further deliveries `turn` adapts the wheel's files to it."""
        self._truncations += 1
        self._truncate_to = end if self._truncate_to is None else min(end, self._truncate_to)

    def _follow(self, end: int) -> Steps[None]:
        """Adapt the files to the new end of the log, so that lost deliveries are repeated; raises OSError if the disk fails."""
        files, truncations = self.files, self._truncations
        _, high = self._queue.bounds()
        last = (files.queue_offset, files.read_ms, files.log.end)
        offset, read_ms, position = self._marks.go_back(end) or last
        # Kept until it is done: it may fail, or the log may be truncated again.
        self._marks.note(end + 1, (offset, read_ms, position))
        self._is_at_files = True
        try:
            yield from elsewhere(lambda: files.truncate(end, read_ms, position))
        finally:
            self._is_at_files = False
        self._marks.go_back(end)
        self._known_until = files.queue_offset = min(files.queue_offset, high)
        files.queue_offset = min(offset, high)
        files.delivered_until = min(files.delivered_until, high)
        self._slot = RunningSlot(self._parts, self.files)
        if self._truncations == truncations:
            self._truncate_to = None
        self.on_change()

    # --- arrivals and deliveries

    def queue(self) -> ConsumeQueue:
        """Return the queue of the timer's topic; an arrival in it must wake the job."""
        return self._parts.store.queue_to_watch(WHEEL_TIMER_TOPIC, 0)

    def turn(self) -> Steps[float]:
        """Move a batch of arrivals into the wheel and deliver a batch, unless settings stop it; return the pause in seconds.

        Raises:
            StoreError, CodecError, OSError: It failed; the batch that failed does not count as done.
        """
        if self._truncate_to is not None:
            if self._is_at_files:
                return LOOK_SECONDS
            yield from self._follow(self._truncate_to)
        is_busy = False
        if not self._parts.settings.is_timer_enqueue_stopped:
            is_busy |= yield from self._enqueue()
        if not self._parts.settings.is_timer_dequeue_stopped:
            is_busy |= yield from self._dequeue(self._parts.clock.now_ms())
        if is_busy:
            self.on_change()
            return 0.0
        return self._pause_seconds(self._parts.clock.now_ms())

    def _pause_seconds(self, now_ms: int) -> float:
        """Return the seconds until the timer works again.

        LOOK_SECONDS while a setting stops it or the slot has unread units; otherwise at most until a message is due or
        the next used slot begins.
        """
        settings, slot = self._parts.settings, self._slot
        if settings.is_timer_dequeue_stopped or settings.is_timer_enqueue_stopped:
            return LOOK_SECONDS  # Until the settings change.
        if slot.has_more:
            return LOOK_SECONDS
        due_ms = slot.next_due_ms()
        if due_ms is None:
            is_steady = self._parts.clock.is_steady
            if is_steady and not self.files.used_slots:
                return NEVER
            sleep_seconds = _SLEEP_SECONDS if is_steady else WALL_LOOK_SECONDS
            begin_ms = slot.time_ms + settings.timer_precision_ms
            due_ms = self._first_used_slot(begin_ms, now_ms + int(sleep_seconds * 1000))
        return max(seconds_until(self._parts.clock, due_ms), 0.001)

    def _enqueue(self) -> Steps[bool]:
        """Put a batch of arrivals into the wheel, or deliver those that are due; return whether there were arrivals."""
        files = self.files
        if not self._queue.has_any_from(files.queue_offset):
            return False
        offset, truncations = files.queue_offset, self._truncations
        arrived = yield from elsewhere(lambda: self._queue.read(offset))
        # After a truncation the records may be gone; the next turn reads again.
        if self._truncations == truncations:
            if self._parts.topics.is_promoted and offset < self._known_until:
                yield from self._leave_out_delivered(arrived)
                if self._truncations != truncations:
                    return True
            self._take(arrived, offset)
        return True

    def _leave_out_delivered(self, arrived: ArrivedMessages) -> Steps[None]:
        """Remove messages due within 60 s that the index shows as delivered: a promoted slave learned that too late."""
        until_ms = self._parts.clock.now_ms() + DOUBT_MS
        doubted = [record for waiting, record in arrived.messages if waiting.due_ms < until_ms]
        kept = yield from not_delivered(self._parts.store, doubted)
        gone = {record.physical_offset for record in doubted}
        gone -= {record.physical_offset for record in kept}
        arrived.messages = [
            each for each in arrived.messages if each[0].physical_offset not in gone
        ]

    def _take(self, arrived: ArrivedMessages, offset: int) -> None:
        """Put arrivals read from `offset` on into the wheel; deliver due ones; skip known ones and deleted topics."""
        files = self.files
        # If the clock was set back, no message must enter a slot that is over.
        now_ms = max(self._parts.clock.now_ms(), files.read_ms)
        to_come, due_now, topics = [], [], []
        for waiting, record in arrived.messages:
            if offset < self._known_until and waiting.physical_offset in files.known:
                continue
            # The timer's files were recreated, or another broker's timer ran.
            was_read = record.queue_offset < files.delivered_until
            if was_read and waiting.due_ms < files.delivered_ms:
                continue
            if len(self._parts.topics.deleted) and is_of_deleted_topic(
                record, record.properties(), self._parts.topics
            ):
                continue
            if waiting.out_ms >= files.floor(now_ms):
                to_come.append(waiting)
                # The saved or copied counts already include messages that were read before.
                if not waiting.is_delete and not (was_read and files.delivered_ms):
                    topics.append(find_property(record.property_block, _REAL_TOPIC) or "")
            elif not waiting.is_delete:
                due_now.append(record)
        self._put(self._deliveries(due_now))
        # Nothing fails from here on, so no message enters the wheel twice.
        for waiting in to_come:
            files.add(waiting, now_ms)
        self._added += len(to_come)
        self._count(topics, 1)
        files.queue_offset = arrived.next_offset
        self.on_progress()
        if files.known and files.queue_offset >= self._known_until:
            files.known.clear()

    def _put(self, messages: list[InnerMessage]) -> None:
        files = self.files
        before = (files.queue_offset, files.read_ms, files.log.end)
        self._marks.note_put(
            put_deliverable(self._parts.inner, self._parts.topics, messages), before
        )

    def _deliveries(self, records: list[Record]) -> list[InnerMessage]:
        """Return the messages to store for arrivals that are due already."""
        topics, now_ms = self._parts.topics, self._parts.clock.now_ms()
        made = [
            delivery(
                topics, record, record.properties(), enqueued_ms=NEVER_WAITED, now_ms=now_ms
            )
            for record in records
        ]
        return [message for message in made if message is not None]

    def _dequeue(self, now_ms: int) -> Steps[bool]:
        """Deliver a batch of due messages, or pass slots that are over; return whether there were any."""
        slot, truncations = self._slot, self._truncations
        self.files.log.write()  # Deliveries are read back from the file.
        if slot.time_ms > now_ms:
            return False
        if slot.has_more:
            last = self.files.wheel.slot(slot.time_ms).last
            slot.add((yield from elsewhere(lambda: slot.gather(last))))
            if self._truncations != truncations:
                return True
        positions = slot.due(now_ms, BATCH_COUNT_MAX)
        if positions:
            leaving = yield from elsewhere(lambda: slot.messages(positions))
            if self._truncations != truncations:
                return True
            self._put(leaving.messages)
            slot.delivered(leaving.taken)
            self._delivered += leaving.taken
            self._count(leaving.topics, -1)
            self.on_progress()
            return True
        if slot.pending or slot.has_more:
            return False
        return self._go_on(now_ms)

    def _go_on(self, now_ms: int) -> bool:
        """Pass slots that are over, at most up to the next one with messages; return whether any was passed."""
        files, precision_ms = self.files, self._parts.settings.timer_precision_ms
        begin_ms, used_slots = files.read_ms, files.used_slots
        for _ in range(_EMPTY_SLOTS_AT_ONCE):
            files.pass_unused(now_ms)
            if files.read_ms + precision_ms > now_ms or files.go_on():
                break
        if files.read_ms == begin_ms:
            return False
        if files.used_slots < used_slots:
            self.on_progress()
        self._slot = RunningSlot(self._parts, self.files)
        return True

    # --- files

    def keep_files(self) -> Steps[float]:
        """Save the progress and, at most every 30 s, delete unneeded files; return the seconds until the next call.

        Raises:
            OSError: It could not be saved; everything remains to be saved.
        """
        pause = self._parts.settings.timer_flush_interval_ms / 1000
        self._rates = (self._added / pause, self._delivered / pause)
        is_at_rest = not (self._added or self._delivered)
        self._added = self._delivered = 0
        is_at_rest &= yield from self.save()
        if self._parts.clock.monotonic() >= self._drop_at:
            self._drop_at = self._parts.clock.monotonic() + _DROP_SECONDS
            yield from self._delete_unneeded()
        if not is_at_rest:
            return pause
        # When idle, `on_change` wakes the job; the last file stays.
        if not self.files.log.may_drop:
            return NEVER
        return max(pause, self._drop_at - self._parts.clock.monotonic())

    def _delete_unneeded(self) -> Steps[None]:
        """Delete, in a thread, files of timerlog whose messages the log no longer has; not during other work on files."""
        if self._is_at_files or self._truncate_to is not None:
            return
        log, min_offset = self.files.log, self._parts.store.min_offset
        self._is_at_files = True
        try:
            unneeded = yield from elsewhere(lambda: log.unneeded(min_offset))
            log.drop(unneeded)
            yield from elsewhere(lambda: log.delete(unneeded))
        except (OSError, CodecError) as error:
            _log.warning("an unneeded file of timerlog cannot be deleted: %s", error)
        finally:
            self._is_at_files = False

    def _is_committed(self, end: int) -> Steps[bool]:
        """Return whether the log up to an offset cannot be cut any more.

        Otherwise the timer's files could have messages that are cut later, and nothing would distinguish them.
        """
        if not self._parts.settings.is_elected:
            return True
        return (yield from confirmed(end)) is Durability.OK

    def save(self) -> Steps[bool]:
        """Save the progress once its deliveries are flushed, and committed in a group with elections; return whether it is saved.

        Raises:
            OSError: It could not be saved; everything remains to be saved.
        """
        files = self.files
        if self._is_at_files or self._truncate_to is not None:
            return False
        job = files.save_job(self._parts.clock.now_ms())
        if job is None:
            return True
        is_saved, self._is_at_files = False, True
        try:
            end = self._parts.store.max_offset
            if (yield from on_device()) and (yield from self._is_committed(end)):
                yield from elsewhere(lambda: files.run(job))
                files.saved(job)
                is_saved = True
        finally:  # Also if the job is stopped.
            self._is_at_files = False
            if not is_saved:
                files.saving_failed(job)
        return is_saved
