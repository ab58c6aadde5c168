"""Cold data control: refuses pulls of consumer groups that read too many old messages from the disk.

As ColdDataCgCtrService of RocketMQ 5.3.3, it counts per 5 s how much each group, and all together, read from the disk.
It refuses reads from the disk by a group that has reached its own threshold (without one, cgColdReadThreshold), or by
every group that has read from the disk in about the last minute if all together have reached globalColdReadThreshold.
Only pulls count. Off by default (coldDataFlowControlEnable). Groups' own thresholds are not saved. Not implemented:
adaptive thresholds, and single messages for pull consumers.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError, invalid_parameter

WINDOW_SECONDS = 5.0
# A group that has not read from the disk for this long is forgotten.
IDLE_MS = 60_000
GROUPS_MAX = 10_000


@dataclass(slots=True)
class _Read:
    """The bytes that a group read in this window, and the times of its first and last known read (epoch ms)."""

    size: int
    began_ms: int
    last_ms: int


class ColdReaders:
    """Counts the bytes that groups read from the disk in windows of 5 s or more, and refuses groups over a threshold.

    Attributes:
        refused: Number of reads that were refused.
    """

    def __init__(self, settings: BrokerSettings, clock: Clock) -> None:
        self.refused = 0
        self._settings = settings
        self._clock = clock
        self._thresholds: dict[str, int] = {}
        self._reads: dict[str, _Read] = {}
        self._size = 0
        self._window_ends = clock.monotonic()

    def check(self, group: str) -> None:
        """Check that a group may read from the disk now; it always may if cold data control is off.

        Raises:
            RequestError: SYSTEM_BUSY: this group has read too much, or it has read in about the last minute and all
                groups together have read too much.
        """
        if not self._settings.is_cold_limited:
            return
        self._look()
        read = self._reads.get(group)
        if read is None:
            return
        own_max = self._thresholds.get(group, self._settings.cold_group_max)
        if read.size >= own_max or self._size >= self._settings.cold_max:
            self.refused += 1
            raise RequestError(
                ResponseCode.SYSTEM_BUSY,
                "This consumer group is reading cold data. It has been flow control: "
                f"it has read {read.size} of {own_max} bytes and all groups together {self._size} of "
                f"{self._settings.cold_max} bytes, per {WINDOW_SECONDS:.0f} s",
            )

    def add(self, group: str, size: int) -> None:
        """Count bytes that a group has read from the disk, if cold data control is on; not beyond 10,000 groups."""
        if not self._settings.is_cold_limited or not size:
            return
        now_ms = self._clock.now_ms()
        read = self._reads.get(group)
        if read is None:
            if len(self._reads) >= GROUPS_MAX:
                return
            read = self._reads[group] = _Read(0, now_ms, now_ms)
        read.size += size
        read.last_ms = now_ms
        self._size += size

    def change(self, thresholds: Mapping[str, int]) -> None:
        """Set groups' thresholds of reads from the disk, in bytes per 5 s; raise RequestError if there are too many."""
        if len(self._thresholds.keys() | thresholds.keys()) > GROUPS_MAX:
            raise invalid_parameter(
                f"at most {GROUPS_MAX} groups can have a threshold; remove some"
            )
        self._thresholds.update(thresholds)

    def remove(self, group: str) -> None:
        """Remove a group's own threshold of reads from the disk; the general one applies again."""
        self._thresholds.pop(group, None)

    def to_json(self) -> dict[str, Any]:
        """Return the counts and thresholds as a dict, for the JSON answer of GET_COLD_DATA_FLOW_CTR_INFO."""
        self._look()
        reads = {
            group: {
                "coldAcc": read.size,
                "createTimeMills": read.began_ms,
                "lastColdReadTimeMills": read.last_ms,
            }
            for group, read in self._reads.items()
        }
        return {
            "runtimeTable": reads,
            "configTable": self._thresholds,
            "cgColdReadThreshold": self._settings.cold_group_max,
            "globalColdReadThreshold": self._settings.cold_max,
            "globalAcc": self._size,
        }

    def _look(self) -> None:
        now = self._clock.monotonic()
        if now < self._window_ends:
            return
        self._window_ends, self._size = now + WINDOW_SECONDS, 0
        old = self._clock.now_ms() - IDLE_MS
        self._reads = {group: read for group, read in self._reads.items() if read.last_ms > old}
        for read in self._reads.values():
            read.size = 0
