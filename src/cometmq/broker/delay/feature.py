"""The delay-level feature: the reroute of delayed sends, their delivery, and the delivered offsets."""

import logging
from collections.abc import Callable, Iterator

from cometmq.broker.counters.events import Gauge
from cometmq.broker.delay.delivered_offsets import DeliveredOffsets
from cometmq.broker.delay.delivery import LOOK_SECONDS, DelayedDelivery
from cometmq.broker.delay.levels import DelayLevelTable
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.tables.logged_table import LoggedTable, numbers_json, numbers_of
from cometmq.broker.tables.master_table import MasterTable
from cometmq.codec.bodies.delay_offset import decode_delay_offsets
from cometmq.model.codes import RequestCode
from cometmq.model.names import SCHEDULE_TOPIC
from cometmq.steps.on_loop import Machines
from cometmq.steps.runner import NEVER
from cometmq.steps.steps import Steps

_log = logging.getLogger(__name__)

_ALL_LEVELS = "levels"  # Key of the table of a group that elects its leader; its value has the offsets by level.


class DelayLevels(Feature):
    """The feature of delay levels: reroutes delayed sends to SCHEDULE_TOPIC_XXXX, and delivers them when due."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        levels = DelayLevelTable(parts.store.settings.delay_levels_ms, parts.topics)
        parts.reroutes.append(levels.reroute)
        self._delivered = DeliveredOffsets(
            parts.config_file("delayOffset.json"), clock=parts.clock
        )
        self._delivery = DelayedDelivery(parts, levels.delays_ms, self._delivered)
        self._machines = Machines(parts.world, "delay levels")
        self.master_tables = (
            MasterTable(
                RequestCode.GET_ALL_DELAY_OFFSET,
                decode_delay_offsets,
                lambda table, _end: self._delivered.take(table),
                needs_log=True,
            ),
        )
        self._on_progress: list[Callable[[str], None]] = []
        self.logged_tables = (
            LoggedTable(
                "delayOffsets",
                lambda: [_ALL_LEVELS],
                lambda _: numbers_json(self._delivered.offsets),
                numbers_of,
                lambda changes: self._delivered.put(changes.get(_ALL_LEVELS) or {}),
                self._on_progress,
            ),
        )

    async def start(self) -> None:
        """Load and correct the delivered offsets (may raise CodecError or OSError), then start the delivery."""
        self._delivered.load()
        self._delivery.correct_offsets()
        if self._parts.topics.is_promoted:
            self._delivery.doubt()
        self._parts.counters.events.gauges.append(self._gauges)
        delivery = self._machines.keep(
            "delivery", self._delivery.deliver, period_seconds=LOOK_SECONDS
        )
        for queue in self._delivery.queues():
            self._parts.polls.watch(queue, lambda _: delivery.wake())
        self._parts.store.on_truncated += [self._delivery.truncated, lambda _: delivery.wake()]
        saving = self._machines.keep("offsets", self._save, period_seconds=self._save_seconds)

        def delivered() -> None:
            saving.wake()
            for note in self._on_progress:
                note(_ALL_LEVELS)

        self._delivery.on_delivered = delivered

    async def follow(self) -> None:
        """Load the delivered offsets; as a slave, deliver nothing. Raises as `start` does."""
        self._delivered.load()

    async def close(self) -> None:
        """Stop the delivery and try to save the delivered offsets; a failed write is logged."""
        await self._machines.close()
        try:
            await self._machines.run(self._delivered.save())
        except OSError as error:
            _log.error("delayOffset.json cannot be written: %s", error)

    def _save(self) -> Steps[float]:
        is_saved = yield from self._delivered.save()
        return NEVER if is_saved else self._save_seconds

    @property
    def _save_seconds(self) -> float:
        return self._parts.settings.flush_delay_offset_interval_ms / 1000

    def _gauges(self) -> Iterator[Gauge]:
        for level in range(1, len(self._parts.store.settings.delay_levels_ms) + 1):
            queue = self._parts.store.queue(SCHEDULE_TOPIC, level - 1)
            if queue is not None:
                delivered = max(self._delivered.offsets.get(level, 0), queue.min_offset)
                waiting = max(queue.max_offset - delivered, 0)
                yield Gauge("cometmq_delayed_messages", (str(level),), waiting)

    def facts(self) -> dict[str, str]:
        """Return "next offset to deliver,end of the queue" by scheduleMessageOffset_LEVEL, for levels with such an offset."""
        found = {}
        for number, offset in self._delivered.offsets.items():
            queue = self._parts.store.queue(SCHEDULE_TOPIC, number - 1)
            end = queue.max_offset if queue is not None else 0
            found[f"scheduleMessageOffset_{number}"] = f"{offset},{end}"
        return found

    def offsets_text(self) -> str:
        """Return the next offset to deliver of each delay level as text, in the format of delayOffset.json."""
        return self._delivered.text()
