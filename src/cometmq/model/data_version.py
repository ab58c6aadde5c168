"""The version of a table (topics, groups, offsets): peers compare it to see whether it changed."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class DataVersion:
    """Follows RocketMQ 5.3.3 DataVersion: equal in all three parts means nothing changed.

    Attributes:
        timestamp: ms of the last change.
        counter: number of changes since the table was first made.
        state_version: epoch of the master that wrote it; 0 without a controller.
    """

    timestamp: int
    counter: int = 0
    state_version: int = 0

    def next(self, now_ms: int) -> "DataVersion":
        """The version after one more change at `now_ms`."""
        return DataVersion(now_ms, self.counter + 1, self.state_version)

    def to_json(self) -> dict[str, Any]:
        """The version as RocketMQ's JSON, keys in its order."""
        return {
            "counter": self.counter,
            "stateVersion": self.state_version,
            "timestamp": self.timestamp,
        }

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> "DataVersion":
        """Read a data version from JSON; 4.9 has no stateVersion.

        Raises:
            TypeError, ValueError, AttributeError: on a value that is no data version; bodies
                turn these into a CodecError.
        """
        return cls(
            int(value.get("timestamp", 0)),
            int(value.get("counter", 0)),
            int(value.get("stateVersion", 0)),
        )
