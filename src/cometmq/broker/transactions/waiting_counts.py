"""The number of messages per topic that wait for their delivery time, or for the end of their transaction.

The counts are only for consoles and metrics, so changes are saved every 10 s, not at once (Java: every 3 s those of
transactions, every second those of timed messages). Follows TimerMetrics and TransactionMetrics of RocketMQ 5.3.3 and
their files.
"""

import logging
from collections.abc import Callable, Mapping

from cometmq.broker.parts import Parts
from cometmq.broker.tables.logged_table import LoggedTable
from cometmq.broker.tables.saving import Saver
from cometmq.codec.bodies.waiting_counts import (
    WaitingTable,
    decode_waiting,
    encode_waiting,
    waiting_count,
    waiting_count_json,
)
from cometmq.model.data_version import DataVersion
from cometmq.model.errors import CodecError
from cometmq.steps.steps import Steps

_log = logging.getLogger(__name__)

SAVE_SECONDS = 10.0  # Java: transactionMetricFlushInterval, 3 s.


class WaitingCounts:
    """The counts per topic of timed messages that wait, or of open transactions."""

    def __init__(self, parts: Parts, file_name: str, member: str) -> None:
        """`member` is TIMER or TRANSACTION of `codec.bodies.waiting_counts`: the field of the file that has the counts."""
        self._clock = parts.clock
        self._file = parts.config_file(file_name)
        self._member = member
        self._version = DataVersion(parts.clock.now_ms())
        self._counts: dict[str, tuple[int, int]] = {}
        self._on_change: list[Callable[[str], None]] = []
        self.saver = Saver(self._file, self._snapshot, parts.pool)

    def load(self) -> None:
        """Read the counts of waiting messages from their file; none if it and its .bak are each damaged or missing."""
        try:
            table = self._file.load(
                lambda text: decode_waiting(text, self._member), is_needed=False
            )
        except CodecError as error:
            _log.warning("the counts of waiting messages restart from zero: %s", error)
            return
        if table is not None:
            self._version, self._counts = table.version, dict(table.counts)

    def add(self, topic: str, step: int) -> None:
        """Add `step`, which may be negative, to the count of a topic's waiting messages; it does not fall below 0."""
        count, _ = self._counts.get(topic, (0, 0))
        self._counts[topic] = max(count + step, 0), self._clock.now_ms()
        self._changed(topic)

    def set_all(self, counts: Mapping[str, int]) -> None:
        """Replace the counts of waiting messages of all topics; known topics without a new count get 0."""
        now_ms = self._clock.now_ms()
        for topic in {*self._counts, *counts}:
            count = counts.get(topic, 0)
            if self._counts.get(topic, (-1, 0))[0] != count:
                self._counts[topic] = count, now_ms
                self._changed(topic)

    def forget(self, topic: str) -> None:
        """Forget the count of waiting messages of a deleted topic."""
        if self._counts.pop(topic, None) is not None:
            self._changed(topic)

    def _changed(self, topic: str) -> None:
        self.saver.changed()
        for note in self._on_change:
            note(topic)

    def take(self, table: WaitingTable) -> None:
        """Replace counts of waiting messages and version by those of this slave's master."""
        if (table.version, table.counts) != (self._version, self._counts):
            self._version, self._counts = table.version, dict(table.counts)
            self.saver.changed()

    def logged_table(self, name: str) -> LoggedTable:
        """Return the counts as a table, called `name`, of a group that elects its leader."""

        def value(topic: str) -> Mapping[str, object] | None:
            count = self._counts.get(topic)
            return None if count is None else waiting_count_json(count)

        def apply(changes: Mapping[str, tuple[int, int] | None]) -> Steps[None]:
            counts = {**self._counts, **changes}
            self._counts = {
                topic: count for topic, count in counts.items() if count is not None
            }
            self.saver.changed()
            yield from ()

        return LoggedTable(
            name, lambda: list(self._counts), value, waiting_count, apply, self._on_change
        )

    def counts(self) -> dict[str, int]:
        """Return by topic the number of messages that wait for their delivery time, or for the end of a transaction."""
        return {topic: count for topic, (count, _) in self._counts.items()}

    def text(self) -> str:
        """Return the present counts of waiting messages as JSON text, in the format of their file."""
        return encode_waiting(WaitingTable(self._version, self._counts), self._member)

    def _snapshot(self) -> Callable[[], str]:
        self._version = self._version.next(self._clock.now_ms())
        table = WaitingTable(self._version, dict(self._counts))
        return lambda: encode_waiting(table, self._member)
