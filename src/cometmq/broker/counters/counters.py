"""The counters of a broker since its start; statistics, consoles, metrics and the dashboard read them.

Records that a slave copies from its master are not counted.
While tallies grow, they are sampled about every 10 s (counters.growth). Names and windows follow StoreStatsService and
BrokerStatsManager of RocketMQ 5.3.3.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import lru_cache

from cometmq.broker.counters.events import EVENTS_MAX, EventCounts
from cometmq.broker.counters.latencies import Latencies
from cometmq.broker.counters.tally_table import TallyTable
from cometmq.kernel import SendBatch, Tally, count_columns, count_puts
from cometmq.model.clock import Clock
from cometmq.model.codes import RequestCode, ResponseCode, request_name, response_name
from cometmq.model.names import is_system_topic
from cometmq.store.appender import Put, PutResult
from cometmq.store.consume_queue import ConsumeQueue

WINDOWS_SECONDS = (10, 60, 600)
_MINUTE_SECONDS = 60.0
_US = 1_000_000
_RPC = "rocketmq_rpc_latency_milliseconds"
REFUSALS = "cometmq_limit_refusals_total"
_MADE = "rocketmq_{}_create_execution_time_milliseconds"
# Request code, flag and answer code of a pull, not oneway, that got messages.
_PULLED = (int(RequestCode.PULL_MESSAGE), 0, int(ResponseCode.SUCCESS))
# The same for one whose filter nothing matched.
_UNMATCHED = (int(RequestCode.PULL_MESSAGE), 0, int(ResponseCode.PULL_RETRY_IMMEDIATELY))


class Counters:
    """The broker's counters since its start, and samples of them from which rates are computed.

    Attributes:
        puts: Messages that this broker itself wrote (clients' and its own, no copies), by topic and queue.
        gets: Messages put into answers to pulls and pops, by group, topic and queue.
        from_disk: Messages that pulls and pops without SQL92 filters read from the disk.
        acks: Accepted acknowledgements of popped messages; repeated ones may count again.
        check_points: Check points (records of what a pop took from a queue), by group and topic.
        sent_back: Messages that a group sent back (CONSUMER_SEND_MSG_BACK).
        dead: Messages that became dead letters of a group.
        tables: The seven tables above.
        put_failed: Number of sends, or pieces of large batches, that passed the checks but failed.
        found: Number of pulls and pops that got messages.
        missed: Number of pulls that were answered without messages after a read.
        get_max_us: Longest duration of a pull or pop with messages, microseconds.
        sends: Durations of clients' sends, from their write until they are stored, confirmed, or no longer waited for.
        inner_puts: The same for the broker's own messages.
        now: Returns monotonic seconds, to be used as the start time of events counted here.
        answer_times: Functions that count an answer to a request and get its microseconds, by request code, flag ONEWAY and
            response code; not for batch handlers, which count theirs themselves.
        events: Counts and durations of other events, by the labels of their metric.
        at_midnights: Values of `of_today` at the beginning of days.
        fresh: Tallies that have grown since their last sample.
        is_quiet: Whether no message was written or delivered since the last sample, so that no other is needed.
        on_work: Called when a message is stored or delivered while `is_quiet`.
    """

    def __init__(
        self, clock: Clock, is_system: Callable[[str], bool] = is_system_topic
    ) -> None:
        """`is_system` returns whether a topic is a system topic, including those of the broker and the cluster."""
        self._clock = clock
        self.now = clock.monotonic
        self.fresh: list[Tally] = []
        self.tables = tuple(TallyTable(self.fresh, is_system=is_system) for _ in range(7))
        (
            self.puts, self.gets, self.from_disk, self.acks, self.check_points, self.sent_back,
            self.dead,
        ) = self.tables  # fmt: skip
        self.put_failed = self.found = self.missed = self.get_max_us = 0
        self.sends, self.inner_puts = Latencies(), Latencies()
        self.at_midnights = MidnightTotals(clock.now_ms(), (0, 0))
        self.is_quiet = False
        self.events = EventCounts()
        self.answer_times = _AnswerTimes(self.events)
        self.on_work: list[Callable[[], None]] = []
        self._minute_at = clock.monotonic()
        self._samples: deque[tuple[float, int, int, int, int]] = deque(
            maxlen=WINDOWS_SECONDS[-1] + 1
        )

    @property
    def put_count(self) -> int:
        """Number of messages that this broker itself has written since the start, without copied ones."""
        return self.puts.all.count

    @property
    def put_size(self) -> int:
        """Size of the records that this broker itself has written since the start, in bytes, without copied ones."""
        return self.puts.all.size

    @property
    def get_count(self) -> int:
        """Number of messages put into answers to consumers since the start."""
        return self.gets.all.count

    @property
    def of_today(self) -> tuple[int, int]:
        """Numbers of messages written to users' topics, not copied, and delivered from all topics, since the start."""
        return self.puts.users.count, self.gets.all.count

    @property
    def put_latencies(self) -> Latencies:
        """The latencies of clients' sends and the broker's own messages together, without copied ones."""
        all_puts = Latencies()
        all_puts.include(self.sends)
        all_puts.include(self.inner_puts)
        return all_puts

    # --- puts

    def follow(self, queue: ConsumeQueue) -> None:
        """Count the puts into a queue from now on."""
        if queue.tally is None:
            queue.tally = self.puts.of(queue.topic, queue_id=queue.queue_id)

    def count_columns(self, batch: SendBatch[ConsumeQueue], began: float) -> None:
        """Count the stored sends of a `SendBatch` (of the fast path); their write began at `began`, monotonic s."""
        count, time_us = batch.count, int((self.now() - began) * _US)
        count_columns(batch, 0, count, time_us)
        self.sends.add(time_us, count)
        if self.is_quiet:
            self._wake()

    def count_puts(
        self,
        puts: Sequence[Put],
        results: Sequence[PutResult],
        began: float,
        latencies: Latencies,
    ) -> None:
        """Count stored messages, with their durations in `latencies`: `sends` or `inner_puts`."""
        time_us = self._time_us(began)
        count_puts(puts, results, time_us)
        latencies.add(time_us, len(results))
        if self.is_quiet:
            self._wake()

    def refused(self, limit: str) -> None:
        """Count a request that was refused because of a limit, by its name in metrics."""
        self.events.add(REFUSALS, limit)

    # --- gets

    def count_get(
        self, topic: str, group: str, queue_id: int, count: int, size: int, began: float
    ) -> None:
        """Count a pull that was answered with `count` messages; with 0, count it as missed."""
        if not count:
            self.missed += 1
            return
        self.found += 1
        self.count_handed_out(topic, group, queue_id, count, size, began)

    def count_pull(self, tally: Tally, count: int, size: int, began: float) -> None:
        """Count a pull answered on the fast path: its messages in `tally`, of its queue in `gets`, and its request."""
        time_us = int((self.now() - began) * _US)
        self.found += 1
        if time_us > self.get_max_us:  # noqa: PLR1730  As in Latencies.
            self.get_max_us = time_us
        tally.add(count, size, time_us // count)
        if self.is_quiet:
            self._wake()
        self.answer_times[_PULLED](time_us)

    def count_missed(self, began: float) -> None:
        """Count a fast-path pull whose filter nothing matched, and its request; it arrived at `began` (`now`)."""
        self.missed += 1
        self.answer_times[_UNMATCHED](int((self.now() - began) * _US))

    def count_handed_out(
        self, topic: str, group: str, queue_id: int, count: int, size: int, began: float
    ) -> None:
        """Count messages of a queue that were put into the answer to a pull or pop, and the time since this `began`."""
        # Each message gets the same share of the time, but the average is per pull (GROUP_GET_LATENCY).
        time_us = self._time_us(began)
        if time_us > self.get_max_us:  # noqa: PLR1730  As in Latencies.
            self.get_max_us = time_us
        self.gets.of(topic, group, queue_id).add(count, size, time_us // count)
        if self.is_quiet:
            self._wake()

    def cut_filter(self, group: str, topic: str) -> None:
        """Count a read through an SQL92 filter that ended early, because its time or number of messages was used up."""
        self.events.add("cometmq_filter_reads_cut_total", group, topic)

    def count_from_disk(self, topic: str, group: str, count: int, size: int) -> None:
        """Count messages that were read from the disk for a pull or a pop without an SQL92 filter."""
        if count:
            self.from_disk.of(topic, group).add(count, size, 0)

    # --- common

    def _time_us(self, began: float) -> int:
        return int((self.now() - began) * _US)

    def _wake(self) -> None:
        self.is_quiet = False
        for tell in self.on_work:
            tell()

    # --- rates

    def sample(self, now: float) -> None:
        """Sample the totals and set `is_quiet`; once a minute, begin a new period of latencies.

        Called at most once a second.
        """
        totals = (self.put_count, self.get_count, self.found, self.missed)
        if not self._samples or self._samples[-1][1:] != totals:
            self._samples.append((now, *totals))
        self.at_midnights.note(self._clock.now_ms(), self.of_today)
        if now - self._minute_at >= _MINUTE_SECONDS:
            self._minute_at = now
            self.sends.turn()
            self.inner_puts.turn()
        self.is_quiet = True

    def rates(self, now: float) -> dict[str, tuple[float, ...]]:
        """Return four rates per second by name, for each window that ends at `now` (s).

        Messages written (put) and delivered (get), pulls and pops with messages (found), pulls without (missed).
        """
        totals = (self.put_count, self.get_count, self.found, self.missed)
        names = ("put", "get", "found", "missed")
        beginnings = [self._before(now - window, now) for window in WINDOWS_SECONDS]
        return {
            name: tuple(
                (total - before[column]) / (now - before[0]) if before[0] < now else 0.0
                for before in beginnings
            )
            for column, (name, total) in enumerate(zip(names, totals, strict=True), start=1)
        }

    def _before(self, start: float, now: float) -> tuple[float, int, int, int, int]:
        """Return the time and totals at the start of a window, or of a later first sample; zeros without samples."""
        before = (now, 0, 0, 0, 0)
        for sample in reversed(self._samples):
            before = (max(sample[0], start), *sample[1:])
            if sample[0] <= start:
                break
        return before


@lru_cache(maxsize=1_024)
def _request_word(code: int) -> str:
    """Return the name of a request in metrics; "unknown" for codes that do not exist."""
    name = request_name(code).lower()
    return "unknown" if name.lstrip("-").isdecimal() else name


class _AnswerTimes(dict[tuple[int, int, int], Callable[[int], None]]):
    """Functions that count answers in `events`, created at their first use; no more than EVENTS_MAX are kept."""

    def __init__(self, events: EventCounts) -> None:
        self._events = events

    def __missing__(self, kind: tuple[int, int, int]) -> Callable[[int], None]:
        code, oneway, answer_code = kind
        result = "oneway" if oneway else "success"
        answer = response_name(answer_code).lower()
        labels = "remoting", _request_word(code), answer, "false", result
        places = [self._events.latencies(_RPC, *labels)]
        status = "failure" if answer_code else "success"
        if code == RequestCode.UPDATE_AND_CREATE_TOPIC:
            places.append(self._events.latencies(_MADE.format("topic"), status, "false"))
        elif code == RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP:
            places.append(self._events.latencies(_MADE.format("consumer_group"), status))
        adds = [each.add for each in places if each is not None]

        def add_to_all(time_us: int) -> None:
            for add in adds:
                add(time_us)

        adder = adds[0] if len(adds) == 1 else add_to_all
        if len(self) < EVENTS_MAX:
            self[kind] = adder
        return adder


class MidnightTotals:
    """The totals at the beginning of today and of yesterday, local time (BrokerStats of RocketMQ 5.3.3).

    Attributes:
        today: Totals last noted before the day of the last `note`; 0 on the first day.
        yesterday: The previous value of `today`; 0 at first.
    """

    def __init__(self, now_ms: int, totals: tuple[int, ...]) -> None:
        self.today = self.yesterday = tuple(0 for _ in totals)
        self._known = totals
        self._day = _day_of(now_ms)

    def note(self, now_ms: int, totals: tuple[int, ...]) -> None:
        """Note the current totals; growth since the last call counts for the day of `now_ms`."""
        day = _day_of(now_ms)
        if day != self._day:
            self._day = day
            self.yesterday, self.today = self.today, self._known
        self._known = totals


def _day_of(now_ms: int) -> tuple[int, int]:
    local = time.localtime(now_ms / 1000)
    return local.tm_year, local.tm_yday
