"""Periodic work of a broker: ends long polls, samples counters, expires clients and locks, saves tables.

The job sleeps until some of this work is due, or until it is woken.
"""

from collections.abc import Sequence

from cometmq.broker.parts import LastingParts
from cometmq.broker.tables.saving import Saver
from cometmq.steps.runner import NEVER, KeptMachine

PERIOD_SECONDS = 0.2  # Largest delay of the answer to a long poll that found nothing.
SAMPLE_SECONDS = 1.0
MEMBERS_SECONDS = 10.0  # As often as ClientHousekeepingService.


class Housekeeping:
    """The background job that ends long polls, samples counters, expires clients and locks, and saves tables."""

    def __init__(
        self, parts: LastingParts, *, savers: Sequence[Saver], save_seconds: float
    ) -> None:
        """`savers` are those of the tables whose unsaved changes are saved, at most every `save_seconds`."""
        self._parts = parts
        self._savers = savers
        self._save_seconds = save_seconds
        self._sample_at = self._expire_at = self._save_at = 0.0

    def woken_by(self, machine: KeptMachine) -> None:
        """Let every source of work wake the housekeeping job."""
        self._parts.polls.on_due = machine.wake_at
        self._parts.counters.on_work.append(machine.wake)
        self._parts.members.on_first = self._parts.locks.on_first = machine.wake
        for saver in self._savers:
            saver.on_dirty.append(machine.wake)

    def step(self) -> float:
        """Do the periodic work that is due; return the seconds to the next step (`NEVER`: until woken)."""
        now = self._parts.clock.monotonic()
        self._parts.polls.expire(now)
        return min(self._sample(now), self._expire(now), self._save(now)) - now

    def _sample(self, now: float) -> float:
        if now >= self._sample_at:
            self._sample_at = now + SAMPLE_SECONDS
            self._parts.counters.sample(now)
        return NEVER if self._parts.counters.is_quiet else self._sample_at

    def _expire(self, now: float) -> float:
        if now >= self._expire_at:
            due = min(self._parts.members.expire(), self._parts.locks.expire())
            self._expire_at = max(due, now + MEMBERS_SECONDS) if due < NEVER else now
            return self._expire_at if due < NEVER else NEVER
        return self._expire_at

    def _save(self, now: float) -> float:
        if not any(saver.is_dirty for saver in self._savers):
            return NEVER
        if now >= self._save_at:
            self._save_at = now + self._save_seconds
            for saver in self._savers:
                saver.save_if_dirty()
        return self._save_at
