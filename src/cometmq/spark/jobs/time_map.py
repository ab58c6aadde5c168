"""Delivery times of replayed messages, at the intervals at which they were stored, divided by a speed.

    delivered = start + (stored - first) / speed

`first` and `start` are determined once and recorded in the manifest, for resumed runs.
"""

import math
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from cometmq.model.errors import SettingsError
from cometmq.spark.jobs.manifest import Manifest
from cometmq.spark.options import time_ms


@dataclass(frozen=True)
class TimeMap:
    """Mapping of store times to delivery times; all times in ms since 1970.

    Attributes:
        first_ms: Store time of the first message; `start_ms`, like `last_ms`, if there was no message.
        start_ms: Delivery time of the first message.
        last_ms: Store time of the last message that existed at the start.
        speed: 2.0 delivers an hour's messages in half an hour.
    """

    first_ms: int
    start_ms: int
    last_ms: int
    speed: float = 1.0

    @classmethod
    def over(cls, messages: DataFrame, *, start: str, speed: float, now_ms: int) -> "TimeMap":
        """Create the mapping for messages; without `start`, the first stored one is delivered at `now_ms`.

        Raises:
            SettingsError: The start is no time, or the last message would be due after the year 9999.
        """
        start_ms = time_ms(start, "--map-start") if start else now_ms
        stored = f.unix_millis("storeTimestamp")
        found = messages.agg(f.min(stored), f.max(stored)).first()
        first, last = found if found is not None and found[0] is not None else (start_ms,) * 2
        made = cls(first, start_ms, last, speed)
        try:
            str(made)
        except (ValueError, OverflowError):
            raise SettingsError(
                f"--map-speed {speed}: the last message would be due after the year 9999; use a higher speed"
            ) from None
        return made

    @classmethod
    def noted(cls, manifest: Manifest) -> "TimeMap | None":
        """Return the mapping that an earlier run has recorded in its manifest, or None."""
        return cls(**manifest.ranges[0]) if manifest.ranges else None

    def note(self, manifest: Manifest) -> None:
        """Record the mapping in the manifest, for resumed runs."""
        manifest.ranges = [asdict(self)]

    def delivery_ms(self, stored_ms: int) -> int:
        """Return the delivery time of a message from its store time, ms since 1970."""
        return self.start_ms + math.floor((stored_ms - self.first_ms) / self.speed)

    def column(self) -> Column:
        """Return a column with the delivery times of rows, as timestamps, computed from their `storeTimestamp`."""
        passed = f.unix_millis("storeTimestamp") - f.lit(self.first_ms)
        scaled = f.floor(passed / f.lit(self.speed)).cast("bigint")
        return f.timestamp_millis(f.lit(self.start_ms) + scaled)

    def __str__(self) -> str:
        """Return the ranges of store and delivery times, for the report."""
        stored = f"{_said(self.first_ms)} to {_said(self.last_ms)}"
        due = f"{_said(self.start_ms)} to {_said(self.delivery_ms(self.last_ms))}"
        return f"stored {stored}, delivered {due}"


def check_speed(speed: float) -> None:
    """Raise SettingsError unless a speed is positive and finite."""
    if not (speed > 0 and math.isfinite(speed)):
        raise SettingsError(f"--map-speed {speed}: it must be above 0; 2 is twice as fast")


def _said(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
