"""The pop feature: its requests, its background work, and the assignment of queues."""

import asyncio
from collections.abc import Callable, Iterator, Mapping

from cometmq.broker.counters.events import Gauge
from cometmq.broker.parts import Feature, Parts
from cometmq.broker.pop.acks import Acks
from cometmq.broker.pop.assignment import Assignments, RouteLookup
from cometmq.broker.pop.check_points import PERIOD_MS, CheckPoint
from cometmq.broker.pop.group_offsets import GroupOffsets
from cometmq.broker.pop.holding import Holding
from cometmq.broker.pop.journal import Journal
from cometmq.broker.pop.orders import Orders
from cometmq.broker.pop.peeking import Peeking
from cometmq.broker.pop.popping import Popping
from cometmq.broker.pop.reading import PopReader
from cometmq.broker.pop.requests import AckBatch, assignment_answers, pop_answers
from cometmq.broker.pop.revive import Revive
from cometmq.broker.pop.waiting import PopLongPolls
from cometmq.broker.registration.requests import NameserverChannels
from cometmq.broker.tables.master_table import MasterTable
from cometmq.codec.bodies.assignment import RequestModeConfig, decode_request_modes
from cometmq.model.clock import seconds_until
from cometmq.model.codes import RequestCode
from cometmq.steps.on_loop import Machines
from cometmq.steps.runner import NEVER
from cometmq.steps.steps import Steps, on_device

_PERIOD_SECONDS = PERIOD_MS / 1000

# Committed offsets on disk are at most this old (flushConsumerOffsetInterval, and the flush before a commit), so they are
# after all older check points.
_OFFSETS_AGE_MS = 30_000
_ORDERS_SECONDS = 5.0
# Longest wait for a flush when closing; without it, groups commit smaller offsets.
_FLUSH_SECONDS_MAX = 5


RequestModes = Mapping[tuple[str, str], RequestModeConfig]


class PopFeature(Feature):
    """The feature of pop: puts its services, check points and revival together, and starts and stops them.

    Attributes:
        popping: The service for pops.
        acks: The service for acknowledgements and changes of the invisible time.
        holding: Extends and ends the invisible time of popped messages under their old handles.
    """

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._journal = Journal(parts)
        self._check_points = self._journal.check_points
        self._offsets = GroupOffsets(parts, self._check_points)
        self._orders = Orders(parts)
        self._waiting = PopLongPolls(parts)
        self._revive = Revive(parts, journal=self._journal, waiting=self._waiting)
        reader = PopReader(
            parts,
            journal=self._journal,
            offsets=self._offsets,
            orders=self._orders,
        )
        self.popping = Popping(
            parts,
            reader=reader,
            waiting=self._waiting,
            check_points=self._check_points,
            orders=self._orders,
        )
        self.acks = Acks(
            parts, journal=self._journal, orders=self._orders, waiting=self._waiting
        )
        self.holding = Holding(
            parts, journal=self._journal, orders=self._orders, waiting=self._waiting
        )
        peeking = Peeking(parts, self.popping, reader, self._offsets)
        self.logged_tables = (self._orders.logged_table(),)
        parts.counters.events.gauges.append(self._gauges)
        parts.positions.pops = self._offsets
        self._machines = Machines(parts.world, "pop")
        self._is_running = False
        self.answers = {
            **pop_answers(self.popping, peeking, self.acks, self.holding),
            RequestCode.ACK_MESSAGE: AckBatch(self._check_points, self.acks),
        }

    async def start(self) -> None:
        """Restore the check points of messages that were popped before, and start the background jobs.

        Raises:
            CodecError: Only damaged copies of consumerOrderInfo.json exist, or a record of the revive topic cannot
                be decoded as a record (one with a wrong body is skipped).
            OSError: The disk failed.
        """
        self._is_running = True
        self._orders.load()
        self._orders.truncated(self._journal.end_of)  # The log may have been truncated since.
        oldest = self._parts.offsets.table().version.timestamp - _OFFSETS_AGE_MS
        found = await self._machines.run(self._journal.read_on())
        for point in sorted(found, key=_pop_time):
            if point.body.pop_time_ms >= oldest:
                self._offsets.restore(point)
        records, revive = (
            self._machines.keep(
                name,
                step,
                first_seconds=_PERIOD_SECONDS,
                rest_seconds=_PERIOD_SECONDS,
                period_seconds=_PERIOD_SECONDS,
            )
            for name, step in (("records", self._keep), ("revive", self._hand_on))
        )
        orders = self._machines.keep(
            "orders", self._save_orders, period_seconds=_ORDERS_SECONDS
        )
        self._orders.saver.on_dirty.append(orders.wake)
        self._waiting.on_hold = records.wake

        def wake() -> None:
            records.wake()
            revive.wake()

        self._check_points.on_work = wake
        self._parts.store.on_truncated.append(self.truncated)
        for queue in self._journal.queues():
            self._parts.polls.watch(queue, lambda _: revive.wake())

    def _gauges(self) -> Iterator[Gauge]:
        yield Gauge("rocketmq_pop_checkpoint_buffer_size", (), len(self._check_points))

    def truncated(self, end: int) -> None:
        """Adapt to a truncated log, for example forget popped messages that it has lost."""
        self._journal.truncated(end)
        self._orders.truncated(self._journal.end_of)

    def forget_topic(self, topic: str) -> None:
        """Forget the check points and pops in order of a deleted topic, and try pops that wait for it again."""
        self._forget(lambda name, _group: name == topic)

    def forget_group(self, group: str) -> None:
        """Forget the check points and pops in order of a deleted group, and try its waiting pops again."""
        self._forget(lambda _topic, name: name == group)

    def _forget(self, is_gone: Callable[[str, str], bool]) -> None:
        self._check_points.forget(is_gone)
        self._orders.forget_all(is_gone)
        self._waiting.forget(is_gone)

    async def follow(self) -> None:
        """Read consumerOrderInfo.json; the log has the check points, which are read when this slave becomes the master.

        Raises CodecError if only damaged copies of the file exist.
        """
        self._orders.load()

    async def close(self) -> None:
        """On a master, answer waiting pops, record acknowledgements, commit offsets, and save the state of pops in order.

        If check points are open, this waits up to 5 s for a flush of the log, because the offsets after them may only be
        committed then.
        """
        await self._machines.close()
        if self._is_running:
            self._waiting.close()
            self._write_and_say()
            await self._flushed()
            self._write_and_say()
        await self._orders.saver.close()

    async def _flushed(self) -> None:
        """Wait up to 5 s for a flush if check points are open; the store logs a flush that fails."""
        if len(self._check_points):
            flushed = self._machines.run(on_device())
            await asyncio.wait([flushed], timeout=_FLUSH_SECONDS_MAX)

    def _write_and_say(self) -> None:
        self._journal.record_acknowledgements()
        self._journal.rewrite_old()
        self._offsets.say()
        self._journal.say_done()

    def _keep(self) -> float:
        """Write records, commit offsets, answer or retry waiting pops; return the seconds to the next call."""
        self._check_points.look()
        clock = self._parts.clock
        self._write_and_say()
        self._waiting.wake_ordered()
        self._waiting.expire(clock.monotonic())
        if not (self._check_points.is_at_rest and self._journal.is_whole):
            return _PERIOD_SECONDS
        return max(self._waiting.pause_seconds(clock.monotonic()), _PERIOD_SECONDS)

    def _save_orders(self) -> float:
        self._orders.saver.save_if_dirty()
        return NEVER

    def _hand_on(self) -> Steps[float]:
        """Read other brokers' records of the revive topic, redeliver due messages; return seconds to the next call."""
        self._check_points.look()
        yield from self._journal.read_on()
        clock = self._parts.clock
        yield from self._revive.hand_on(self._check_points.pop_due(clock.now_ms()))
        due_ms = self._check_points.next_due_ms()
        pause = NEVER if due_ms is None else seconds_until(clock, due_ms)
        return max(pause, _PERIOD_SECONDS)


def _pop_time(point: CheckPoint) -> int:
    return point.body.pop_time_ms


class AssignmentFeature(Feature):
    """The broker's feature that answers which queues a consumer gets.

    It also keeps whether a group pulls or pops a topic.
    """

    def __init__(self, parts: Parts) -> None:
        routes = RouteLookup(parts.settings, NameserverChannels(parts.channels))
        self._assignments = Assignments(parts, routes.read_queues)
        self.answers = assignment_answers(self._assignments)
        self.master_tables = (
            MasterTable(
                RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
                lambda body: decode_request_modes(body.decode(errors="replace")),
                self._take_modes,
            ),
        )
        self.logged_tables = (self._assignments.logged_table(),)

    async def start(self) -> None:
        """Read the request modes from messageRequestMode.json; raises CodecError if only damaged copies exist."""
        self._assignments.load()

    def forget_topic(self, topic: str) -> None:
        """Forget whether groups pull or pop a deleted topic."""
        self._assignments.forget(lambda name, _group: name == topic)

    def forget_group(self, group: str) -> None:
        """Forget whether a deleted group pulls or pops topics."""
        self._assignments.forget(lambda _topic, name: name == group)

    def _take_modes(self, modes: RequestModes, _end: int | None) -> Steps[None]:
        self._assignments.take(modes)
        yield from ()

    async def close(self) -> None:
        """Save the request modes (pull or pop) to disk a last time if the file lacks changes."""
        await self._assignments.saver.close()
