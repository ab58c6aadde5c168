"""The timer feature: the reroute of timed sends, the wheel, recalls, and the progress for consoles."""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from cometmq.broker.counters.events import Gauge
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.tables.logged_table import LoggedTable
from cometmq.broker.tables.master_table import MasterTable
from cometmq.broker.timer.delivery import LOOK_SECONDS, TimedDelivery
from cometmq.broker.timer.recall import Recall
from cometmq.broker.timer.times import TimedSends
from cometmq.broker.transactions.waiting_counts import SAVE_SECONDS, WaitingCounts
from cometmq.codec.bodies.timer_progress import timer_progress, timer_progress_json
from cometmq.codec.bodies.waiting_counts import TIMER, WaitingTable, decode_waiting
from cometmq.codec.timer_files import TimerCheck, decode_check
from cometmq.model.codes import RequestCode
from cometmq.steps.on_loop import Machines
from cometmq.steps.runner import NEVER
from cometmq.steps.steps import Steps, elsewhere
from cometmq.store.timer.files import TimerFiles

_log = logging.getLogger(__name__)

_WHEEL = "wheel"  # The only key of the table of the timer's progress.


class Timer(Feature):
    """The feature of timed messages: reroutes their sends, delivers them when they are due, and recalls them."""

    def __init__(self, parts: Parts) -> None:
        settings = parts.settings
        self._parts = parts
        times = TimedSends(parts)
        parts.reroutes.append(times.reroute)
        self.recall = Recall(parts, times)
        self._counts = WaitingCounts(parts, "timermetrics", TIMER)
        self._files = TimerFiles(
            parts.disk,
            settings.store_directory,
            precision_ms=settings.timer_precision_ms,
            roll_slots=settings.timer_roll_window_slots,
            log_file_size=settings.timer_log_file_size,
        )
        self._delivery = TimedDelivery(parts, self._files, count=self._count_waiting)
        parts.counters.events.gauges.append(self._gauges)
        self._machines = Machines(parts.world, "timer")
        self._is_running = False
        self._on_progress: list[Callable[[str], None]] = []
        if settings.is_timer_on:
            self.master_tables = self._tables()
            self.logged_tables = (
                self._counts.logged_table("timerCounts"), self._progress_table(),
            )  # fmt: skip

    async def start(self) -> None:
        """Open the files and start the timer if it is switched on (timerWheelEnable).

        Raises:
            OSError: The disk failed.
        """
        settings = self._parts.settings
        if not settings.is_timer_on:
            return
        await self._machines.run(self._delivery.open())
        self._is_running = True
        self._counts.load()
        wheel = self._machines.keep("wheel", self._delivery.turn, period_seconds=LOOK_SECONDS)
        self._parts.polls.watch(self._delivery.queue(), lambda _: wheel.wake())
        self._parts.store.on_truncated += [self._delivery.truncated, lambda _: wheel.wake()]
        counts = self._machines.keep("counts", self._save_counts, period_seconds=SAVE_SECONDS)
        self._counts.saver.on_dirty.append(counts.wake)
        interval = settings.timer_flush_interval_ms / 1000
        self._delivery.on_change = self._machines.keep(
            "files",
            self._delivery.keep_files,
            first_seconds=interval,
            period_seconds=interval,
        ).wake
        self._delivery.on_progress = self._note_progress

    def _note_progress(self) -> None:
        for note in self._on_progress:
            note(_WHEEL)

    def _tables(self) -> tuple[MasterTable, ...]:
        return (
            MasterTable(
                RequestCode.GET_TIMER_METRICS,
                lambda body: decode_waiting(body.decode(errors="replace"), TIMER),
                self._take_counts,
            ),
            MasterTable(
                RequestCode.GET_TIMER_CHECK_POINT,
                decode_check,
                self._take_check,
                needs_log=True,
            ),
        )

    def _progress_table(self) -> LoggedTable:
        """Return the timer's progress as a table of a group that elects its leader, with one key.

        Everything due before the time was delivered, and the timer's topic was read up to the offset, before the record.
        """

        def value(_key: str) -> Mapping[str, object] | None:
            return timer_progress_json(self._files.told_ms, self._files.queue_offset)

        def apply(changes: Mapping[str, tuple[int, int] | None]) -> Steps[None]:
            progress = changes.get(_WHEEL)
            if progress is not None:
                read_ms, queue_offset = progress
                check = self._files.check._replace(read_ms=read_ms, queue_offset=queue_offset)
                yield from elsewhere(lambda: self._files.take_check(check))

        return LoggedTable(
            "timerProgress",
            lambda: [_WHEEL] if self._is_running else [],
            value,
            timer_progress,
            apply,
            self._on_progress,
        )

    async def follow(self) -> None:
        """If the timer is on, load counts and checkpoint, which the master's tables then update; a slave delivers nothing."""
        if self._parts.settings.is_timer_on:
            self._counts.load()
            await self._machines.run(elsewhere(self._files.load_check))
            self._machines.keep("counts", self._save_taken_counts, first_seconds=SAVE_SECONDS)

    def _take_counts(self, table: WaitingTable, _end: int | None) -> Steps[None]:
        self._counts.take(table)
        yield from ()

    def _take_check(self, check: TimerCheck, _end: int | None) -> Steps[None]:
        yield from elsewhere(lambda: self._files.take_check(check))

    def _save_taken_counts(self) -> float:
        self._counts.saver.save_if_dirty()
        return SAVE_SECONDS

    def forget_topic(self, topic: str) -> None:
        """Forget the count of a deleted topic; its messages are discarded later."""
        self._counts.forget(topic)

    async def close(self) -> None:
        """Stop the timer; try to save its progress and the counts of waiting messages."""
        await self._machines.close()
        if not self._is_running:
            await self._counts.saver.close()
        else:
            try:
                await self._machines.run(self._delivery.save())
            except OSError as error:
                _log.warning("the timer's files cannot be saved: %s", error)
            self._files.close()
            self._count()
            await self._counts.saver.close()

    def _count_waiting(self, topics: Iterable[str], step: int) -> None:
        way = "enqueue" if step > 0 else "dequeue"
        for topic, count in Counter(topics).items():
            self._counts.add(topic, step * count)
            self._parts.counters.events.add(f"rocketmq_timer_{way}_total", topic, count=count)

    def _gauges(self) -> Iterator[Gauge]:
        if not self._is_running:
            return
        facts = self._delivery.facts()
        yield Gauge("rocketmq_timer_enqueue_lag", (), float(facts["timerOffsetBehind"]))
        behind_ms = float(facts["timerReadBehind"]) * 1_000
        yield Gauge("rocketmq_timer_dequeue_latency_milliseconds", (), behind_ms)
        for topic, count in self._counts.counts().items():
            yield Gauge("rocketmq_timing_messages", (topic,), count)

    def _count(self) -> None:
        """Reset the counts if no message seems to wait, because a kill may have left wrong counts."""
        if self._delivery.is_empty:
            self._counts.set_all({})

    def _save_counts(self) -> float:
        self._count()
        self._counts.saver.save_if_dirty()
        return NEVER

    def facts(self) -> dict[str, str]:
        """Return the timer's progress as texts by key: seconds behind, messages before and in the wheel, rates."""
        return self._delivery.facts()

    @property
    def check(self) -> TimerCheck:
        """The timer's checkpoint as last saved here, or as last copied from the master."""
        return self._files.check

    def counts_text(self) -> str:
        """Return the number of waiting messages per topic, in the format of `timermetrics`."""
        return self._counts.text()
