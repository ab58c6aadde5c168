"""Polls brokers, the lag of consumer groups, dead letters and the doctor repeatedly, for live numbers, charts, times of outages.

Of a poll it keeps the answers of up to 64 brokers. The overview, the list of brokers and charts show these without new requests.
"""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import chain, pairwise
from typing import NamedTuple

from cometmq.admin import BrokerState, Symptom
from cometmq.dashboard.cluster_clients import ClusterClient
from cometmq.dashboard.settings import DashboardSettings
from cometmq.model.clock import Clock
from cometmq.model.errors import CometError
from cometmq.model.names import is_system_group
from cometmq.model.numbers import whole_number
from cometmq.model.total import Total

_log = logging.getLogger(__name__)

SAMPLES_MAX = 720
BROKERS_MAX = 64
LAG_SAMPLES_MAX = 240
LAG_GROUPS_MAX = 200
LAG_SECONDS = 15.0
FINDINGS_SECONDS = 60.0
FORGOTTEN_MS = 3600 * 1000
HANGING = "progress"  # The doctor's check of groups whose members consume nothing.
_PUT_TOTAL, _GET_TOTAL = "msgPutTotalTodayNow", "msgGetTotalTodayNow"


class Sample(NamedTuple):
    """Totals since a broker's start, as reported: messages written (not copied) and delivered; time, ms since 1970."""

    ms: int
    put: int
    handed_out: int


@dataclass(slots=True)
class WatchedBroker:
    """A member of a broker group, as last polled.

    Attributes:
        state: Its last answer; before its first one, the first failed poll.
        answered_ms: Time of its last answer, ms since 1970; 0 for never.
        away_ms: Time of its last answer (if none, when first missed), ms since 1970; None if it answered when last polled.
        error: Why it does not answer, or last did not.
        samples: Its totals of recent polls, at most SAMPLES_MAX.
    """

    state: BrokerState
    answered_ms: int = 0
    away_ms: int | None = None
    error: str = ""
    samples: deque[Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES_MAX))

    @property
    def rates(self) -> tuple[float, float] | None:
        """Messages stored and delivered per second between its last two samples; None if unknown, or it is away."""
        if self.away_ms is not None or len(self.samples) < 2:
            return None
        return _rates(self.samples[-2], self.samples[-1])

    def told(self, name: str) -> str | None:
        """Return a runtime statistic of the broker by its name, as text; None if it is missing."""
        return self.state.runtime.get(name)


class Trouble(NamedTuple):
    """A server that does not answer or is not registered: its description, since when (ms since 1970), and why."""

    what: str
    since_ms: int
    why: str


class Watcher:
    """Polls brokers in the background with pauses of `sample_seconds` of the settings.

    Groups' lag and dead letters are polled with pauses of 3 times that (15 s at most), and the doctor examines the cluster
    with pauses of 12 times that (60 s at most).

    Attributes:
        seconds: Pause between two polls of the brokers, seconds.
        is_begun: Whether a poll of the brokers has ended, even if the nameserver did not answer.
        lag_trouble: Why the last poll of the groups' lag failed; empty if it did not fail, or none was made.
        lags: Known lag of each group with queues, but system groups, in messages; None before a successful poll.
        lag_of_all: Lag of all groups but system groups together, messages, by the last successful poll; None before one.
        dead_letters: Number of dead letters of all groups by their last poll; None before one, or if that failed.
        findings: Problems that the doctor found last, without ignored ones, the worst first; None before a look, or after
            a failed one.
        findings_ms: Time of the doctor's last look that did not fail, ms since 1970; 0 before one.
    """

    def __init__(
        self, cluster: ClusterClient, clock: Clock, settings: DashboardSettings
    ) -> None:
        self._cluster = cluster
        self._clock = clock
        self._settings = settings
        self.seconds = settings.sample_seconds
        self._brokers: dict[tuple[str, int], WatchedBroker] = {}
        self._nameserver: Trouble | None = None
        self._lag: dict[str, deque[tuple[int, int]]] = {}
        self.lag_trouble = ""
        self.lags: dict[str, int] | None = None
        self.lag_of_all: Total | None = None
        self.dead_letters: Total | None = None
        self.findings: list[Symptom] | None = None
        self.findings_ms = 0
        self.is_begun = False
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Poll the brokers once, waiting at most 3 s, and start polling in the background."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.look(), 3.0)
        loops = (
            self._repeat(self.look, self.seconds),
            self._repeat(self.look_at_lag, self._lag_seconds),
            self._repeat(self.look_for_problems, min(FINDINGS_SECONDS, 12 * self.seconds)),
        )
        self._tasks = [asyncio.ensure_future(each) for each in loops]

    @property
    def _lag_seconds(self) -> float:
        return min(LAG_SECONDS, 3 * self.seconds)

    async def close(self) -> None:
        """Stop polling the cluster."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, look: Callable[[], Awaitable[None]], seconds: float) -> None:
        while True:
            try:
                await look()
            except Exception:  # noqa: BLE001  A bug in one look must not end looking; the log has it.
                _log.exception("Sampling the cluster failed; the next sample follows")
            await asyncio.sleep(seconds)

    # --- results

    def brokers(self) -> list[WatchedBroker]:
        """Return the kept brokers, sorted by cluster, name, id; one that left stays at least an hour after its last answer."""
        return sorted(
            self._brokers.values(),
            key=lambda each: (each.state.cluster, each.state.broker_name, each.state.broker_id),
        )

    def broker(self, name: str, broker_id: int) -> WatchedBroker | None:
        """Return a broker by its name and id; None if it is not among the kept ones (see `brokers`)."""
        return self._brokers.get((name, broker_id))

    def troubles(self) -> list[Trouble]:
        """Return troubles: the nameserver, or kept brokers, that did not answer or were not registered when last polled."""
        away = [
            Trouble(
                f"The broker {each.state.broker_name} ({each.state.broker_id})"
                + (f" at {each.state.address}" if each.state.address else ""),
                each.away_ms,
                each.error,
            )
            for each in self.brokers()
            if each.away_ms is not None
        ]
        return [self._nameserver, *away] if self._nameserver else away

    def rate_curve(self, name: str | None = None) -> list[list[float]]:
        """Return lists: times (s since 1970), messages stored and delivered per second; of one master or all kept ones (None)."""
        sums: dict[int, list[float]] = {}
        grid_ms = max(int(self.seconds * 1000), 1)
        for (broker_name, broker_id), each in self._brokers.items():
            if broker_id != 0 or name not in (None, broker_name):
                continue
            samples = list(each.samples)
            for before, now in pairwise(samples):
                if (rates := _rates(before, now)) is not None:
                    row = sums.setdefault(now.ms // grid_ms, [0.0, 0.0])
                    row[0] += rates[0]
                    row[1] += rates[1]
        times = sorted(sums)
        return [
            [time * grid_ms / 1000 for time in times],
            [round(sums[time][0], 2) for time in times],
            [round(sums[time][1], 2) for time in times],
        ]

    def lag_curve(self, group: str) -> list[list[float]]:
        """Return two lists, times (s since 1970) and a group's lags; both empty unless among the 200 largest lags."""
        points = list(self._lag.get(group, ()))
        return [[ms / 1000 for ms, _ in points], [float(lag) for _, lag in points]]

    def findings_about_group(self, group: str) -> list[Symptom]:
        """Return what the doctor last found about the progress of a group and the queues that no member reads."""
        checks = (HANGING, "group", "queues")
        found = self.findings or ()
        return [each for each in found if each.subject == group and each.check in checks]

    def hanging_groups(self) -> dict[str, str]:
        """Return the groups of which the doctor last found that their members consume nothing, with its words."""
        return {
            each.subject: each.text for each in self.findings or () if each.check == HANGING
        }

    # --- polling

    async def look(self) -> None:
        """Poll the brokers once and keep the results of up to 64, known ones first; record errors for `troubles`."""
        try:
            states = await self._cluster.admin.brokers.list()
        except CometError as error:
            now_ms = self._clock.now_ms()
            since_ms = self._nameserver.since_ms if self._nameserver else now_ms
            self._nameserver = Trouble("The nameserver", since_ms, str(error))
            self.is_begun = True
            return
        self._nameserver = None
        self.is_begun = True
        now_ms = self._clock.now_ms()
        there = {_key(state) for state in states}
        # Those that are kept already come first. Otherwise a broker that is pushed out by a new one would be shown for ever as
        # it last was.
        states = sorted(states, key=lambda each: _key(each) not in self._brokers)
        for state in states[:BROKERS_MAX]:
            self._saw(state, now_ms)
        for key, each in list(self._brokers.items()):
            if key not in there:
                self._lost(each, now_ms, "it is not registered at the nameserver any more")
                if each.away_ms is not None and now_ms - each.away_ms > FORGOTTEN_MS:
                    del self._brokers[key]

    def _saw(self, state: BrokerState, now_ms: int) -> None:
        key = _key(state)
        known = self._brokers.get(key)
        if known is None:
            known = self._brokers[key] = WatchedBroker(state)
        if state.error is not None:
            self._lost(known, state.left_ms or now_ms, state.error)
            return
        known.state, known.answered_ms, known.away_ms = state, now_ms, None
        totals = _whole(known.told(_PUT_TOTAL)), _whole(known.told(_GET_TOTAL))
        if totals[0] is not None:
            known.samples.append(Sample(now_ms, totals[0], totals[1] or 0))

    def _lost(self, known: WatchedBroker, now_ms: int, why: str) -> None:
        if known.away_ms is None:
            known.away_ms = known.answered_ms or now_ms
        known.error = why

    async def look_at_lag(self) -> None:
        """Poll lags of groups, then dead letters, once; if the lags fail, keep the error as `lag_trouble` instead."""
        try:
            groups = await self._cluster.admin.groups.list()
        except CometError as error:
            self.lag_trouble = str(error)
            return
        self.lag_trouble = ""
        now_ms = self._clock.now_ms()
        groups = [each for each in groups if not is_system_group(each.name)]
        self.lags = {each.name: each.lag.known for each in groups if each.progress}
        absent = {str(broker) for each in groups for broker in each.absent}
        self.lag_of_all = Total(sum(self.lags.values()), tuple(sorted(absent)))
        partial = {each.name for each in groups if each.lag.unknown}
        wanted = nlargest(LAG_GROUPS_MAX, self.lags.items(), key=lambda each: each[1])
        for name, lag in wanted:
            points = self._lag.setdefault(name, deque(maxlen=LAG_SAMPLES_MAX))
            if name not in partial:  # A partial lag would look like a drop.
                points.append((now_ms, lag))
        for name in self._lag.keys() - {name for name, _ in wanted}:
            del self._lag[name]
        await self._look_at_dead_letters()

    async def _look_at_dead_letters(self) -> None:
        try:
            counts = await self._cluster.admin.dead_letters.list()
            missing = await self._cluster.admin.brokers.missing()
        except (
            CometError
        ):  # The lag's poll has just shown why, or the dashboard's user has no right to it.
            self.dead_letters = None
            return
        reasons = {*map(str, missing), *chain(*(each.unknown for each in counts))}
        self.dead_letters = Total(sum(each.letters for each in counts), tuple(sorted(reasons)))

    async def look_for_problems(self) -> None:
        """Let the doctor examine the cluster once, for `findings`; a failure is not raised."""
        try:
            ignored = self._settings.ignored()
            found = await self._cluster.admin.health.check()
            self.findings = [each for each in found if each not in ignored]
        except CometError:  # `troubles` or the page Doctor says what is wrong.
            self.findings = None
            return
        self.findings_ms = self._clock.now_ms()


def _key(state: BrokerState) -> tuple[str, int]:
    return state.broker_name, state.broker_id


def _rates(before: Sample, now: Sample) -> tuple[float, float] | None:
    seconds = (now.ms - before.ms) / 1000
    # The totals restart at 0 with a restarted broker.
    if seconds <= 0 or now.put < before.put or now.handed_out < before.handed_out:
        return None
    return (now.put - before.put) / seconds, (now.handed_out - before.handed_out) / seconds


def _whole(text: str | None) -> int | None:
    return None if text is None else whole_number(text)
