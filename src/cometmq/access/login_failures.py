"""The bound on failed signatures from one address."""

from collections import OrderedDict

from cometmq.model.clock import Clock

# Wrong signatures of an address in a while, before no others are looked at; the while, seconds.
FAILURES_MAX, WHILE_SECONDS = 5, 60.0
# Addresses that are remembered.
_ADDRESSES_MAX = 10_000


class LoginFailures:
    """Counts wrong signatures by address."""

    def __init__(self, clock: Clock) -> None:
        """Begin without any failure."""
        self._clock = clock
        # The count, and when its while ends; who failed first stands first.
        self._of_address: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def note(self, address: str) -> None:
        """One more."""
        now = self._clock.monotonic()
        count, ends = self._of_address.get(address, (0, 0.0))
        if now >= ends:
            self._of_address.pop(address, None)
            count, ends = 0, now + WHILE_SECONDS
        self._of_address[address] = count + 1, ends
        if len(self._of_address) > _ADDRESSES_MAX:
            self._of_address.popitem(last=False)

    def is_too_many(self, address: str) -> bool:
        """Whether signatures from an address are not looked at any more for a while."""
        count, ends = self._of_address.get(address, (0, 0.0))
        return count >= FAILURES_MAX and self._clock.monotonic() < ends
