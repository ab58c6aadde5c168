"""A sum over several brokers, of which a part may be unknown."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Total:
    """A sum, and the reasons why it may be larger.

    Attributes:
        known: The part that was counted.
        unknown: A reason for each part that was not; empty if the sum is complete.
    """

    known: int
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the number; "at least N" or "unknown" if a part is unknown."""
        return format(self, "")

    def __format__(self, spec: str) -> str:
        """Format the number as an int would be, with the words of `__str__`."""
        number = format(self.known, spec)
        if not self.unknown:
            return number
        return f"at least {number}" if self.known else "unknown"
