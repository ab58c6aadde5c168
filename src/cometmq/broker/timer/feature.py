"""The timer at work: messages come into the wheel, and each leaves it at its millisecond.

One task does both, so that nothing comes into a slot behind its back; what may wait for the device is
done in the pool. Saving runs beside it. Follows TimerMessageStore of RocketMQ 5.3.3.

Next: cometmq.broker.timer.running
"""

import asyncio
import logging
from collections.abc import Callable
from typing import TypeVar

from cometmq.broker.inner_puts import InnerMessage
from cometmq.broker.machines.on_loop import Machines
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.redelivery import BATCH_COUNT_MAX, put_deliverable
from cometmq.broker.timer.recall import Recall
from cometmq.broker.timer.running import NEVER_WAITED, RunningSlot, delivery
from cometmq.broker.timer.times import Times
from cometmq.broker.timer.waiting import TimerQueue
from cometmq.broker.waiting_counts import SAVE_SECONDS, WaitingCounts
from cometmq.codec.bodies.waiting_counts import TIMER
from cometmq.codec.properties import find_property
from cometmq.codec.record import Record
from cometmq.codec.remoting import Command
from cometmq.codec.timer_files import encode_check
from cometmq.model import properties as keys_of
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CodecError, StoreError
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer
from cometmq.net.tasks import Tasks
from cometmq.store.timer.files import TimerFiles

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.05
_AFTER_ERROR_SECONDS = 1.0
_DROP_SECONDS = 30.0  # How often files of timerlog that nobody needs are looked for.
_EMPTY_SLOTS_AT_ONCE = 10_000

_REAL_TOPIC = keys_of.REAL_TOPIC.encode()

T = TypeVar("T")


class Timer(Feature):
    """The feature: the reroute of sends, the wheel, recalls."""

    def __init__(self, parts: Parts) -> None:
        settings = parts.settings
        self._parts = parts
        self._times = Times(parts)
        parts.reroutes.append(self._times.reroute)
        self._files = TimerFiles(
            parts.disk,
            settings.store_directory,
            precision_ms=settings.timer_precision_ms,
            roll_slots=settings.timer_roll_window_slots,
            log_file_size=settings.timer_log_file_size,
        )
        self._queue = TimerQueue(parts, settings.timer_precision_ms)
        self._known_until = 0
        self._counts = WaitingCounts(parts, "timermetrics", TIMER)
        self._tasks = Tasks("timer")
        self._machines = Machines(parts.world, "timer")
        self._added = self._delivered = 0
        self._rates = (0.0, 0.0)  # A second: messages that came in, and that went.
        self._writing: asyncio.Future[None] | None = None
        self.answers = {
            RequestCode.RECALL_MESSAGE: Recall(parts, self._times).recall,
            RequestCode.GET_TIMER_CHECK_POINT: self._check,
            RequestCode.GET_TIMER_METRICS: self._metrics,
        }

    async def start(self) -> None:
        """Take up the files, where the timer is on.

        Raises:
            StoreDamaged: one of them has a size that the settings do not say.
            OSError: the disk failed.
        """
        if not self._parts.settings.is_timer_on:
            return
        files, clock = self._files, self._parts.clock
        await self._in_pool(lambda: files.open(clock.now_ms()))
        low, high = self._queue.bounds()
        files.queue_offset = min(max(files.queue_offset, low), high)
        self._known_until = high
        self._slot = RunningSlot(self._parts, files, self._times.topic())
        self._counts.load()
        self._tasks.spawn(self._run(), "wheel")
        self._machines.keep("counts", self._save_counts, first_seconds=SAVE_SECONDS)
        self._tasks.spawn(self._keep(), "files")

    async def close(self) -> None:
        """Stop, and save how far it came."""
        await self._tasks.close()
        await self._machines.close()
        if self._writing is not None:
            await asyncio.wait([self._writing])
        if self._parts.settings.is_timer_on:
            await self._save()
            self._files.close()
            self._count()
            await self._counts.close()

    def _count(self) -> None:
        """An empty wheel says that nothing waits, whatever a kill made of the counts."""
        _, end = self._queue.bounds()
        if not self._files.waiting_count and self._files.queue_offset >= end:
            self._counts.set_all({})

    def _save_counts(self) -> float:
        self._count()
        self._counts.save_if_dirty()
        return SAVE_SECONDS

    def facts(self) -> dict[str, str]:
        """How far it is: seconds behind, messages not in the wheel yet, those in it, rates."""
        files, (_, end) = self._files, self._queue.bounds()
        behind_ms = max(self._parts.clock.now_ms() - files.read_ms, 0) if files.read_ms else 0
        return {
            "timerReadBehind": str(behind_ms // 1000),
            "timerOffsetBehind": str(end - files.queue_offset),
            "timerCongestNum": str(files.waiting_count),
            "timerEnqueueTps": f"{self._rates[0]:.1f}",
            "timerDequeueTps": f"{self._rates[1]:.1f}",
        }

    def _check(self, _command: Command, _peer: Peer) -> Answer:
        """GET_TIMER_CHECK_POINT 60."""
        return Answer(body=encode_check(self._files.check))

    def _metrics(self, _command: Command, _peer: Peer) -> Answer:
        """GET_TIMER_METRICS 61."""
        return Answer(body=self._counts.text().encode())

    # --- messages come and go

    async def _run(self) -> None:
        settings, clock = self._parts.settings, self._parts.clock
        while True:
            is_busy = False
            try:
                if not settings.is_timer_enqueue_stopped:
                    is_busy |= await self._enqueue()
                if not settings.is_timer_dequeue_stopped:
                    is_busy |= await self._dequeue(clock.now_ms())
            except (StoreError, CodecError, OSError) as error:
                _log.warning("the timer waits: %s; next try in 1 s", error)
                await asyncio.sleep(_AFTER_ERROR_SECONDS)
            except Exception:  # noqa: BLE001
                # A fault here must not end all deliveries for good.
                _log.exception("the timer failed; next try in 1 s")
                await asyncio.sleep(_AFTER_ERROR_SECONDS)
            if not is_busy:
                await asyncio.sleep(self._pause_seconds(clock.now_ms()))

    def _pause_seconds(self, now_ms: int) -> float:
        """Until the next message is due, but not for long: others may come meanwhile."""
        due_ms = self._slot.next_due_ms()
        if self._parts.settings.is_timer_dequeue_stopped:
            due_ms = None
        wait_ms = _LOOK_SECONDS * 1000 if due_ms is None else max(due_ms - now_ms, 1)
        return min(wait_ms / 1000, _LOOK_SECONDS)

    async def _enqueue(self) -> bool:
        """Take a batch of the topic into the wheel; whether there was one."""
        files = self._files
        if not self._queue.has_any_from(files.queue_offset):
            return False
        offset = files.queue_offset
        arrived = await self._in_pool(lambda: self._queue.read(offset))
        # A clock that was set back must not put anything into a slot that is over.
        now_ms = max(self._parts.clock.now_ms(), files.read_ms)
        to_come, due_now, topics = [], [], []
        for waiting, record in arrived.messages:
            if offset < self._known_until and waiting.physical_offset in files.known:
                continue
            if offset < self._known_until and waiting.due_ms < files.delivered_ms:
                continue  # The timer's files were made again.
            if waiting.out_ms >= files.floor(now_ms):
                to_come.append(waiting)
                if not waiting.is_delete:
                    topics.append(find_property(record.property_block, _REAL_TOPIC) or "")
            elif not waiting.is_delete:
                due_now.append(record)
        put_deliverable(self._parts.inner, self._deliveries(due_now))
        # Nothing can fail from here on, so no message comes into the wheel twice.
        for waiting in to_come:
            files.add(waiting, now_ms)
        self._added += len(to_come)
        self._counts.add(topics, 1)
        files.queue_offset = arrived.next_offset
        if files.known and files.queue_offset >= self._known_until:
            files.known.clear()
        return True

    def _deliveries(self, records: list[Record]) -> list[InnerMessage]:
        """Messages that were due when they came."""
        topics, now_ms = self._parts.topics, self._parts.clock.now_ms()
        made = [
            delivery(
                topics, record, record.properties(), enqueued_ms=NEVER_WAITED, now_ms=now_ms
            )
            for record in records
        ]
        return [message for message in made if message is not None]

    async def _dequeue(self, now_ms: int) -> bool:
        """Deliver a batch of what is due; whether there was one."""
        slot = self._slot
        self._files.log.write()  # What cannot be read back cannot be delivered.
        if slot.time_ms > now_ms:
            return False
        if slot.has_more:
            last = self._files.wheel.slot(slot.time_ms).last
            slot.take(await self._in_pool(lambda: slot.gather(last)))
        positions = slot.due(now_ms, BATCH_COUNT_MAX)
        if positions:
            leaving = await self._in_pool(lambda: slot.messages(positions))
            put_deliverable(self._parts.inner, leaving.messages)
            slot.delivered(leaving.taken)
            self._delivered += leaving.taken
            self._counts.add(leaving.topics, -1)
            return True
        if slot.pending or slot.has_more:
            return False
        return self._go_on(now_ms)

    def _go_on(self, now_ms: int) -> bool:
        """Leave slots that are over, up to the next one with messages; whether one was left."""
        files, precision_ms = self._files, self._parts.settings.timer_precision_ms
        begin_ms = files.read_ms
        for _ in range(_EMPTY_SLOTS_AT_ONCE):
            if files.read_ms + precision_ms > now_ms or files.go_on():
                break
        if files.read_ms == begin_ms:
            return False
        self._slot = RunningSlot(self._parts, files, self._times.topic())
        return True

    # --- files

    async def _keep(self) -> None:
        pause = self._parts.settings.timer_flush_interval_ms / 1000
        clock = self._parts.clock
        drop_at = clock.monotonic() + _DROP_SECONDS
        while True:
            self._added = self._delivered = 0
            await asyncio.sleep(pause)
            self._rates = (self._added / pause, self._delivered / pause)
            await self._save()
            if clock.monotonic() >= drop_at:
                drop_at = clock.monotonic() + _DROP_SECONDS
                try:
                    self._files.log.drop_before(self._parts.store.min_offset)
                except (OSError, CodecError) as error:
                    _log.warning("a file of timerlog stays: %s", error)

    async def _save(self) -> None:
        """Save how far it is, once what that says was delivered is on the device."""
        files = self._files
        try:
            job = files.save_job(self._parts.clock.now_ms())
        except OSError as error:
            _log.warning("timerlog cannot be written: %s", error)
            return
        if job is None:
            return
        try:
            if await self._parts.inner.on_device():
                self._writing = asyncio.ensure_future(self._in_pool(lambda: files.run(job)))
                await asyncio.shield(self._writing)
                files.saved(job)
                return
        except OSError as error:
            _log.warning("the timer's files cannot be saved: %s", error)
        except asyncio.CancelledError:
            files.saving_failed(job)
            raise
        files.saving_failed(job)

    async def _in_pool(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._parts.pool, work)
