"""VIEW_BROKER_STATS_DATA 315: what topics, groups and the broker did in the last minute, hour and day.

Puts are the growth of queues, gets that of the groups' offsets: what was consumed, where Java counts what
was handed out. So no send and no pull counts anything for it. `mqadmin statsAll` and consoles ask.

Next: cometmq.broker.consoles.growth
"""

from collections.abc import Iterator

from cometmq.broker.consoles.growth import GrowthSamples
from cometmq.broker.consoles.rates import SAMPLE_SECONDS
from cometmq.broker.machines.on_loop import Machines
from cometmq.broker.machines.steps import Steps, turn_end
from cometmq.broker.parts import Feature, Parts
from cometmq.codec.bodies.stats import StatsWindow, encode_stats_windows
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.console import BrokerStatsRequest
from cometmq.codec.remoting import Command
from cometmq.model.codes import RequestCode, ResponseCode
from cometmq.model.errors import RequestError
from cometmq.net.answer import Answer
from cometmq.net.peer import Peer

# BrokerStatsManager's names.
TOPIC_PUTS, GROUP_GETS = "TOPIC_PUT_NUMS", "GROUP_GET_NUMS"
BROKER_PUTS, BROKER_GETS = "BROKER_PUT_NUMS", "BROKER_GET_NUMS"
_TOPICS_AT_ONCE = 200  # Then others have a turn.


class BrokerStats(Feature):
    """Answers 315."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._samples = GrowthSamples(parts.clock.monotonic())
        self._machines = Machines(parts.world, "broker stats")
        self.answers = {RequestCode.VIEW_BROKER_STATS_DATA: self.view}

    async def start(self) -> None:
        """Know what there is already, and begin to sample."""
        for key, value in self._totals():
            self._samples.begin(key, value)
        self._machines.keep("samples", self._sample, first_seconds=SAMPLE_SECONDS)

    async def close(self) -> None:
        """End that."""
        await self._machines.close()

    def view(self, command: Command, _peer: Peer) -> Answer:
        """Answer with the three windows of one number."""
        request = decode_fields(BrokerStatsRequest, command.fields)
        name, of = request.stats_name, request.stats_key
        value = self._total(name, of)
        if value is None:
            raise RequestError(
                ResponseCode.SYSTEM_ERROR, f"The stats <{name}> <{of}> not exist"
            )
        key = f"{name} {of}"
        self._begin_group(key, value)
        grown = self._samples.of(key, value, self._parts.clock.monotonic())
        minute, hour, day = [StatsWindow(each.sum, each.per_second) for each in grown]
        return Answer(body=encode_stats_windows(minute=minute, hour=hour, day=day))

    def _begin_group(self, key: str, value: int) -> None:
        # A group may begin anywhere, and what lies before that it never consumed; a topic begins empty.
        if key.startswith(GROUP_GETS) and not self._samples.knows(key):
            self._samples.begin(key, value)

    # --- totals

    def _total(self, name: str, of: str) -> int | None:
        """A number as it is now; None for one that there is not."""
        parts = self._parts
        if name == TOPIC_PUTS and parts.topics.get(of) is not None:
            return self._puts(of)
        if name == GROUP_GETS:
            return parts.offsets.consumed_count(of)
        if of == parts.settings.cluster_name:
            if name == BROKER_PUTS:
                return parts.counters.put_count
            if name == BROKER_GETS:
                return parts.counters.get_count
        return None

    def _puts(self, topic: str) -> int:
        return sum(queue.max_offset for queue in self._parts.store.queues_of(topic))

    def _totals(self) -> Iterator[tuple[str, int]]:
        """Every number under its key."""
        parts = self._parts
        for topic in list(parts.topics.table().topics):
            yield f"{TOPIC_PUTS} {topic}", self._puts(topic)
        for key, count in parts.offsets.consumed_counts().items():
            yield f"{GROUP_GETS} {key}", count
        cluster = parts.settings.cluster_name
        yield f"{BROKER_PUTS} {cluster}", parts.counters.put_count
        yield f"{BROKER_GETS} {cluster}", parts.counters.get_count

    def _sample(self) -> Steps[float]:
        now = self._parts.clock.monotonic()
        seen: set[str] = set()
        for number, (key, value) in enumerate(self._totals()):
            self._begin_group(key, value)
            self._samples.note(key, value, now)
            seen.add(key)
            if number % _TOPICS_AT_ONCE == 0:
                yield from turn_end()
        self._samples.forget(seen)
        return SAMPLE_SECONDS
