"""Limits on wrong signatures per address and name, and per address."""

from collections import OrderedDict

from cometmq.model.clock import Clock

# Wrong signatures of a name from an address before further ones are refused unseen, and the period in seconds.
# Neighbours behind the same address use other names.
FAILURES_MAX, WHILE_SECONDS = 5, 60.0
# The same limit for all names of an address, to stop guessing of names.
ADDRESS_FAILURES_MAX = 1_000
_COUNTS_MAX = 20_000

# An address and the hash of a name, or None for all names together.
_Place = tuple[str, int | None]


class LoginFailures:
    """Counts wrong signatures by address and name, and by address, for a minute each, and tells which had too many."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        # Count and end of the period by place; oldest failure first.
        self._counts: OrderedDict[_Place, tuple[int, float]] = OrderedDict()

    def note(self, address: str, name: str) -> None:
        """Count a wrong signature of a name, known or not, from an address."""
        now = self._clock.monotonic()
        for place in ((address, None), (address, hash(name))):
            count, ends = self._counts.get(place, (0, 0.0))
            if now >= ends:
                self._counts.pop(place, None)
                count, ends = 0, now + WHILE_SECONDS
            self._counts[place] = count + 1, ends
        while len(self._counts) > _COUNTS_MAX:
            self._counts.popitem(last=False)

    def is_too_many(self, address: str, name: str) -> bool:
        """Return whether a name at an address, or the address, had too many wrong signatures in its current minute."""
        return self._has(address, hash(name), FAILURES_MAX) or self._has(
            address, None, ADDRESS_FAILURES_MAX
        )

    def _has(self, address: str, name: int | None, most: int) -> bool:
        count, ends = self._counts.get((address, name), (0, 0.0))
        return count >= most and self._clock.monotonic() < ends
