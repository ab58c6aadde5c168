"""Maps the times of replayed messages: each is delivered as far from the first as it was stored from it.

    delivered = start + (stored - first) / speed

`first` and `start` are looked up once and noted in the manifest, so that a killed run goes on with them.
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
    """Times of storing, and the times of delivery that they become; ms since 1970.

    Attributes:
        first_ms: when the first message was stored.
        start_ms: when that one is delivered.
        last_ms: when the last one was stored that was there at the beginning.
        speed: 2.0 delivers what took an hour in half of one.
    """

    first_ms: int
    start_ms: int
    last_ms: int
    speed: float = 1.0

    @classmethod
    def over(cls, messages: DataFrame, *, start: str, speed: float, now_ms: int) -> "TimeMap":
        """The map for these messages.

        Args:
            messages: with "storeTimestamp".
            start: when the first is delivered; empty: now.
            speed: see above.
            now_ms: the time.

        Raises:
            SettingsError: a start that is no time, or the last one would be due after all times that there are.
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
                f"--map-speed {speed}: the last message would be due after the year 9999; take a higher one"
            ) from None
        return made

    @classmethod
    def noted(cls, manifest: Manifest) -> "TimeMap | None":
        """The map that an earlier run has noted; None where there was none."""
        return cls(**manifest.ranges[0]) if manifest.ranges else None

    def note(self, manifest: Manifest) -> None:
        """Keep the map for runs that go on."""
        manifest.ranges = [asdict(self)]

    def delivery_ms(self, stored_ms: int) -> int:
        """The delivery time of a message by its store time, ms since 1970."""
        return self.start_ms + math.floor((stored_ms - self.first_ms) / self.speed)

    def column(self) -> Column:
        """The delivery times of a frame's rows, as timestamps."""
        passed = f.unix_millis("storeTimestamp") - f.lit(self.first_ms)
        scaled = f.floor(passed / f.lit(self.speed)).cast("bigint")
        return f.timestamp_millis(f.lit(self.start_ms) + scaled)

    def __str__(self) -> str:
        """The span of store times and that of delivery times, for the report."""
        stored = f"{_said(self.first_ms)} to {_said(self.last_ms)}"
        due = f"{_said(self.start_ms)} to {_said(self.delivery_ms(self.last_ms))}"
        return f"stored {stored}, delivered {due}"


def check_speed(speed: float) -> None:
    """Refuse a speed that keeps no order.

    Raises:
        SettingsError: it is not above zero.
    """
    if not (speed > 0 and math.isfinite(speed)):
        raise SettingsError(f"--map-speed {speed}: it must be above 0; 2 is twice as fast")


def _said(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
