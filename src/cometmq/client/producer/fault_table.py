"""Temporary avoidance of slow or silent brokers, if `latency_fault` is set (MQFaultStrategy of RocketMQ 5.3.3)."""

from bisect import bisect_right

from cometmq.model.clock import Clock

# latencyMax and notAvailableDuration of MQFaultStrategy 5.3.3, both ms.
_LATENCY_CLASSES_MS = (50, 100, 550, 1800, 3000, 5000, 15000)
_AVOIDED_MS = (0, 0, 2000, 5000, 6000, 10000, 30000)
# The latency recorded for a failed request (updateFaultItem with isolation).
ISOLATION_LATENCY_MS = 10_000


class FaultTable:
    """The brokers that a producer avoids for a while, because they were slow or failed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._avoided_until: dict[str, float] = {}

    def note(self, broker_name: str, latency_ms: float) -> None:
        """Record a request's latency, ms (`ISOLATION_LATENCY_MS` if it failed), which sets how long the broker is avoided."""
        avoided_ms = avoided_for_ms(latency_ms)
        if avoided_ms:
            self._avoided_until[broker_name] = self._clock.monotonic() + avoided_ms / 1000
        else:
            self._avoided_until.pop(broker_name, None)

    def is_available(self, broker_name: str) -> bool:
        """Return whether a broker is not avoided now; True for an unknown one."""
        until = self._avoided_until.get(broker_name)
        return until is None or self._clock.monotonic() >= until


def avoided_for_ms(latency_ms: float) -> int:
    """Return for how many ms a broker is avoided after a request with this latency in ms; 0 below 550 ms."""
    place = bisect_right(_LATENCY_CLASSES_MS, latency_ms) - 1
    return _AVOIDED_MS[place] if place >= 0 else 0
