"""A sum over several brokers, of which the parts of some may be unknown."""

from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Total:
    """A sum, and the reasons why the real one may be larger.

    Attributes:
        known: The counted part.
        unknown: A reason for each part that was not counted; empty if the sum is complete.
    """

    known: int
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the number; if a part is unknown, "at least N", or "unknown" if the counted part is 0."""
        return format(self, "")

    def __format__(self, spec: str) -> str:
        """Format the number like an int, with the words of `__str__` if a part is unknown."""
        number = format(self.known, spec)
        if not self.unknown:
            return number
        return f"at least {number}" if self.known else "unknown"
