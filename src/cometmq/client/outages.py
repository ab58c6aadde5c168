"""Log lines about failures that last, such as those of a broker that is away."""

import logging
from collections.abc import Hashable
from dataclasses import dataclass, field

from cometmq.model.clock import Clock
from cometmq.model.errors import CometError

_log = logging.getLogger(__name__)

# A failure that lasts is reported again after so long, seconds.
AGAIN_SECONDS = 300.0
# One that comes back is reported at once if all was well for so long, seconds.
WELL_SECONDS = 30.0
_REMEMBERED_MAX = 1_000

_Key = tuple[str, str, type[BaseException], object]


@dataclass(slots=True)
class _Outage:
    """A failure, and everything that has it now.

    Attributes:
        members: The queues, topics or the like that fail.
        count: Failures since the last line.
        reported_at: Time of the last line; None: there was none.
        is_reported: Whether a line was written since the last end.
        ended_at: Time of the last end.
    """

    members: set[Hashable] = field(default_factory=set)
    count: int = 0
    reported_at: float | None = None
    is_reported: bool = False
    ended_at: float | None = None

    def is_due(self, now: float) -> bool:
        """Return whether a failure is worth a line now."""
        if self.reported_at is None or now - self.reported_at >= AGAIN_SECONDS:
            return True
        return self.ended_at is not None and now - self.ended_at >= WELL_SECONDS


class Outages:
    """Writes one line when something begins to fail, one after five minutes with the count, and one when it works again.

    Loops try again every second, each for its own queue: 64 queues of a broker that is away wrote 131 lines a second.
    Failures of the same kind of the same broker are one outage, however many queues have it; it is over when none has.

    Attributes:
        failing: What fails now, with its outage; empty while all is well, so that a look at it is cheap.
    """

    def __init__(self, clock: Clock) -> None:
        self.failing: dict[tuple[str, Hashable], tuple[_Key, _Outage]] = {}
        self._clock = clock
        self._known: dict[_Key, _Outage] = {}

    def failed(
        self, work: str, place: str, error: BaseException, member: Hashable = None
    ) -> None:
        """Note a failure.

        Args:
            work: What was tried, for example "pulling from".
            place: Where or for whom, for example the name of a broker.
            error: The reason.
            member: The part of the place that fails, for example a queue.
        """
        key = work, place, type(error), getattr(error, "code", None)
        before = self.failing.get((work, member))
        if before is not None and before[0] != key:  # It fails in another way now.
            self._leave(before[1], member)
        outage = self._known.get(key)
        if outage is None:
            outage = self._known[key] = _Outage()
            self._bound()
        self.failing[work, member] = key, outage
        outage.members.add(member)
        outage.count += 1
        now = self._clock.monotonic()
        if outage.is_due(now):
            times = f" ({outage.count} times since the last such line)"
            self._report(outage, now, f"{work} {place} fails", times, error)

    def _report(
        self, outage: _Outage, now: float, what: str, times: str, error: BaseException
    ) -> None:
        is_first = outage.reported_at is None
        expected = isinstance(error, OSError | CometError)
        _log.warning(
            "%s: %s; trying again%s", what, error, "" if is_first else times,
            exc_info=None if expected else error,
        )  # fmt: skip
        outage.count, outage.reported_at, outage.is_reported = 0, now, True
        outage.ended_at = None

    def worked(self, work: str, member: Hashable = None) -> None:
        """Note that something works; a line says so if it had failed and everything with the same failure works."""
        if not self.failing:
            return
        found = self.failing.pop((work, member), None)
        if found is None:
            return
        (work, place, _, _), outage = found
        self._leave(outage, member)
        if not outage.members and outage.is_reported:
            _log.warning("%s %s works again", work, place)
            outage.is_reported = False

    def forget(self, work: str, member: Hashable = None) -> None:
        """Forget something that is not tried any more, for example a queue that another member has."""
        found = self.failing.pop((work, member), None)
        if found is not None:
            self._leave(found[1], member)

    def _leave(self, outage: _Outage, member: Hashable) -> None:
        outage.members.discard(member)
        if not outage.members:
            outage.ended_at = self._clock.monotonic()

    def _bound(self) -> None:
        """Forget the oldest outages that are over, if there are too many."""
        if len(self._known) > _REMEMBERED_MAX:
            over = [key for key, each in self._known.items() if not each.members]
            for key in over[: _REMEMBERED_MAX // 2] or [next(iter(self._known))]:
                del self._known[key]
