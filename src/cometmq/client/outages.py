"""Log lines about repeated failures, such as those of an unreachable broker."""

import logging
from collections.abc import Hashable
from dataclasses import dataclass, field

from cometmq.model.clock import Clock
from cometmq.model.errors import CometError

_log = logging.getLogger(__name__)

# A lasting failure is logged again after this time, seconds.
AGAIN_SECONDS = 300.0
# A failure that returns is logged at once if everything worked for this time, seconds.
WELL_SECONDS = 30.0
_REMEMBERED_MAX = 1_000

_Key = tuple[str, str, type[BaseException], object]


@dataclass(slots=True)
class _Outage:
    """Failures of one kind at one place, and what is affected by them.

    Attributes:
        members: The affected queues, topics or the like.
        count: Number of failures since the last log line about a failure.
        reported_at: Time of the last log line about a failure, monotonic seconds; None if there was none.
        is_reported: Whether a failure was logged, and its end not yet.
        ended_at: When the last member recovered or was forgotten, monotonic seconds; None: not since `reported_at`.
    """

    members: set[Hashable] = field(default_factory=set)
    count: int = 0
    reported_at: float | None = None
    is_reported: bool = False
    ended_at: float | None = None

    def is_due(self, now: float) -> bool:
        if self.reported_at is None or now - self.reported_at >= AGAIN_SECONDS:
            return True
        return self.ended_at is not None and now - self.ended_at >= WELL_SECONDS


class Outages:
    """Logs the start of an outage, a count at most every five minutes while it lasts, and usually its end.

    Failures of the same work and kind at the same place are one outage of all affected members, for example queues; it
    ends when no member is affected. A failure that returns is logged once 30 s have passed since its outage ended, or five
    minutes since the last line. An end is logged if a success caused it and the outage was logged.

    Attributes:
        failing: The current failures, by work and member, with their outages; empty if there are none.
    """

    def __init__(self, clock: Clock) -> None:
        self.failing: dict[tuple[str, Hashable], tuple[_Key, _Outage]] = {}
        self._clock = clock
        self._known: dict[_Key, _Outage] = {}

    def failed(
        self, work: str, place: str, error: BaseException, member: Hashable = None
    ) -> None:
        """Record a failure and log it if a line is due.

        Args:
            work: What was tried, for example "pulling from".
            place: Where or for whom, for example the name of a broker.
            error: The reason.
            member: The affected part of the place, for example a queue.
        """
        key = work, place, type(error), getattr(error, "code", None)
        before = self.failing.get((work, member))
        if before is not None and before[0] != key:  # It fails in another way now.
            self._leave(before[1], member)
        outage = self._known.get(key)
        if outage is None:
            outage = self._known[key] = _Outage()
        self.failing[work, member] = key, outage
        outage.members.add(member)
        self._bound()
        outage.count += 1
        now = self._clock.monotonic()
        if outage.is_due(now):
            times = f" ({outage.count} failures since the last such line)"
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
        """Record a success of a member; log it if this ends an outage that was logged, as no other member is affected."""
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
        """Forget the failure of a member that is not tried any more, such as a queue of another consumer; log nothing."""
        found = self.failing.pop((work, member), None)
        if found is not None:
            self._leave(found[1], member)

    def _leave(self, outage: _Outage, member: Hashable) -> None:
        outage.members.discard(member)
        if not outage.members:
            outage.ended_at = self._clock.monotonic()

    def _bound(self) -> None:
        """If more than 1,000 outages are known, forget up to 500 that affect nothing, or without any the oldest one."""
        if len(self._known) > _REMEMBERED_MAX:
            over = [key for key, each in self._known.items() if not each.members]
            for key in over[: _REMEMBERED_MAX // 2] or [next(iter(self._known))]:
                del self._known[key]
