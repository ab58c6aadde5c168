"""The version of a table such as that of topics or groups, which peers compare to detect changes."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DataVersion:
    """The version of a table; peers take tables of equal versions as equal (DataVersion of RocketMQ 5.3.3).

    Attributes:
        timestamp: Time of the last change, at first usually of the creation, ms since 1970.
        counter: Number that each change increases by 1.
        state_version: Epoch; 0 at first. A slave that becomes master raises that of its topic table.
    """

    timestamp: int
    counter: int = 0
    state_version: int = 0

    def next(self, now_ms: int) -> "DataVersion":
        """Return the version after one more change at `now_ms`."""
        return DataVersion(now_ms, self.counter + 1, self.state_version)

    def to_json(self) -> dict[str, Any]:
        """Return the version as a dict for JSON with "counter", "stateVersion" and "timestamp", in this order."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp,
        }
