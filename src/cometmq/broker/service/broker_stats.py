"""What topics, groups and the broker did in the last minute, hour and day.

Puts are the growth of queues, gets that of the groups' offsets: what was consumed, where Java counts what
was handed out. So no send and no pull counts anything for it. `mqadmin statsAll` and consoles ask.

Next: cometmq.broker.service.growth
"""

from collections.abc import Iterator

from cometmq.broker.counters import Counters
from cometmq.broker.machines.steps import Steps, turn_end
from cometmq.broker.offsets import Offsets
from cometmq.broker.service.growth import GrowthSamples
from cometmq.broker.topics import Topics
from cometmq.codec.bodies.stats import StatsWindow
from cometmq.codec.headers.console import BrokerStatsRequest
from cometmq.model.clock import Clock
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.store.message_store import MessageStore

# BrokerStatsManager's names.
TOPIC_PUTS, GROUP_GETS = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"
BROKER_PUTS, BROKER_GETS = "BROKER_PUT_NUMS", "BROKER_GET_NUMS"
_TOPICS_AT_ONCE = 200  # Then others have a turn.


class BrokerStats:
    """Numbers of puts and gets, and how they grew."""

    def __init__(
        self,
        *,
        cluster: str,
        store: MessageStore,
        topics: Topics,
        offsets: Offsets,
        counters: Counters,
        clock: Clock,
    ) -> None:
        """`cluster` is the name that the broker's own numbers go under."""
        self._cluster = cluster
        self._store = store
        self._topics = topics
        self._offsets = offsets
        self._counters = counters
        self._clock = clock
        self._samples = GrowthSamples(clock.monotonic())

    def begin(self) -> None:
        """Know what there is already: only what comes from now on is growth."""
        for key, value in self._totals():
            self._samples.begin(key, value)

    def windows(
        self, request: BrokerStatsRequest
    ) -> tuple[StatsWindow, StatsWindow, StatsWindow]:
        """How one number grew in the last minute, hour and day.

        Raises:
            RequestError: SYSTEM_ERROR: there is no such number.
        """
        name, of = request.stats_name, request.stats_key
        value = self._total(name, of)
        if value is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{of}> not exist"
            )
        key = f"{name} {of}"
        self._begin_group(key, value)
        grown = self._samples.of(key, value, self._clock.monotonic())
        minute, hour, day = [StatsWindow(each.sum, each.per_second) for each in grown]
        return minute, hour, day

    def _begin_group(self, key: str, value: int) -> None:
        # A group may begin anywhere, and what lies before that it never consumed; a topic begins empty.
        if key.startswith(GROUP_GETS) and not self._samples.knows(key):
            self._samples.begin(key, value)

    # --- totals

    def _total(self, name: str, of: str) -> int | None:
        """A number as it is now; None for one that there is not."""
        if name == TOPIC_PUTS and self._topics.get(of) is not None:
            return self._puts(of)
        if name == GROUP_GETS:
            return self._offsets.consumed_count(of)
        if of == self._cluster:
            if name == BROKER_PUTS:
                return self._counters.put_count
            if name == BROKER_GETS:
                return self._counters.get_count
        return None

    def _puts(self, topic: str) -> int:
        return sum(queue.max_offset for queue in self._store.queues_of(topic))

    def _totals(self) -> Iterator[tuple[str, int]]:
        """Every number under its key."""
        for topic in list(self._topics.table().topics):
            yield f"{TOPIC_PUTS} {topic}", self._puts(topic)
        for key, count in self._offsets.consumed_counts().items():
            yield f"{GROUP_GETS} {key}", count
        yield f"{BROKER_PUTS} {self._cluster}", self._counters.put_count
        yield f"{BROKER_GETS} {self._cluster}", self._counters.get_count

    def sample(self) -> Steps[None]:
        """Note every number as it is now, each 10 s while they grow."""
        now = self._clock.monotonic()
        seen: set[str] = set()
        for number, (key, value) in enumerate(self._totals()):
            self._begin_group(key, value)
            self._samples.note(key, value, now)
            seen.add(key)
            if number % _TOPICS_AT_ONCE == 0:
                yield from turn_end()
        self._samples.forget(seen)
