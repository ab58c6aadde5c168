"""The sender of one producer: limits the sends in flight, chooses queues, and waits for unreachable masters.

Above the limits of `ProducerSettings` sends wait here in order, except one-way sends. So a producer that is faster than
its broker holds messages back instead of flooding the connection.
"""

import asyncio
import math
from collections import deque
from collections.abc import Sequence

from cometmq.client.connection.instance import ClientInstance
from cometmq.client.connection.routes import KnownTopic
from cometmq.client.producer.encoded_send import EncodedSend
from cometmq.client.producer.fault_table import FaultTable
from cometmq.client.producer.queue_selector import Pick, RoundRobin
from cometmq.client.producer.send_attempts import PendingSend, header_pieces
from cometmq.client.results import DEFAULT_REGION, SendResult, SendStatus
from cometmq.client.settings import ProducerSettings
from cometmq.model.errors import ClientClosed, CometError, NetError, RequestTimeout, SendFailed
from cometmq.model.flags import ONEWAY
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes
from cometmq.net.tasks import Tasks

# Shortest time between two looks at the timeouts of sends that wait: thousands may wait, each with a timeout of its own.
_LOOK_SECONDS = 0.05
# Sends that take longer than this, or twice as long, make their masters doubtful.
_STUCK_SECONDS = 1.0
_NO_ROOM = (
    "too many sends are in flight; raise in_flight_max, in_flight_bytes_max or send_timeout_ms"
)
# Between attempts to reach a master, doubled from the first to the last, seconds.
_PAUSE_SECONDS = 0.02
_PAUSE_SECONDS_MAX = 0.5

_Place = tuple[str, str | None]  # Topic and broker name.


class Reconnections:
    """The masters that callers wait for: they share one attempt at a time for each broker, and for each topic without one.

    Each attempt fetches the route first, because another broker may be the master now. Thousands of sends may be in
    flight when a broker restarts or another one becomes the master. They must not open a connection each.
    """

    def __init__(self, instance: ClientInstance, default_queues: int) -> None:
        """`default_queues`: Most queues per broker of a missing topic, whose route comes from the default topic."""
        self._instance = instance
        self._default_queues = default_queues
        self._tasks = Tasks(f"{instance.client_id} reconnections")
        self._trying: dict[_Place, asyncio.Task[None]] = {}
        self._deadlines: dict[_Place, float] = {}

    async def wait(self, topic: str, broker_name: str | None, deadline: float) -> None:
        """Wait until there is a connection to a broker's master, or about until the latest deadline of its callers.

        Deadlines are monotonic seconds. Without a broker, wait until the topic has a queue to send to. Returns None in each
        case. Tries first after 20 ms. Raises ClientClosed if the client is closed, CancelledError at `close`.
        """
        place = topic if broker_name is None else "", broker_name
        self._deadlines[place] = max(deadline, self._deadlines.get(place, deadline))
        trying = self._trying.get(place)
        if trying is None:
            trying = self._tasks.spawn(self._try(place, topic), broker_name or topic)
            self._trying[place] = trying
        await asyncio.shield(trying)

    async def _try(self, place: _Place, topic: str) -> None:
        pause = _PAUSE_SECONDS
        try:
            while True:
                left = self._deadlines[place] - self._instance.clock.monotonic()
                if left <= 0:
                    return
                await asyncio.sleep(min(pause, left))
                pause = min(2 * pause, _PAUSE_SECONDS_MAX)
                if await self._is_ready(topic, place[1]):
                    return
        finally:
            del self._trying[place], self._deadlines[place]

    async def _is_ready(self, topic: str, broker_name: str | None) -> bool:
        instance = self._instance
        try:
            await instance.fresh_to_send(topic, default_queues=self._default_queues)
        except ClientClosed:
            raise
        except CometError:  # For example, a restarted nameserver knows no broker yet; the known address may still be right.
            pass
        if broker_name is None:
            known = instance.routes.get(topic)
            return known is not None and bool(known.write_queues)
        address = instance.routes.masters.get(broker_name)
        if address is None:
            return False
        try:
            await instance.channels.get(address)
        except NetError:
            return False
        return True

    def close(self) -> None:
        """Cancel all attempts; their waiting callers get CancelledError."""
        for trying in self._trying.values():
            trying.cancel()


class EncodedSender:
    """Sends the encoded messages of one producer; all but one-way sends within its limits on sends in flight.

    Attributes:
        faults: Brokers to avoid; None without `latency_fault`.
        turn: Round robin over the queues of each topic.
        returns: Waits for masters that are unreachable or unknown.
        is_closed: Whether no further attempt may start.
    """

    def __init__(self, instance: ClientInstance, settings: ProducerSettings) -> None:
        self.instance = instance
        self.settings = settings
        self.clock = instance.clock
        self.faults = FaultTable(instance.clock) if settings.latency_fault else None
        self.returns = Reconnections(instance, settings.default_topic_queues)
        self.is_closed = False
        self.loop = asyncio.get_running_loop()
        self._timeout_seconds = settings.send_timeout_ms / 1000
        self._monotonic = instance.clock.monotonic
        self.turn = RoundRobin(
            instance.chance, self.faults.is_available if self.faults else None
        )
        self._count_left = settings.in_flight_max
        self._size_left = settings.in_flight_bytes_max
        self._waiting: deque[PendingSend] = deque()
        self._room_before = self.room
        # Set while there are sends in flight.
        self._watching: asyncio.TimerHandle | None = None
        self._looks_at = math.inf  # Time of the next look, monotonic seconds.
        self._next_look: asyncio.TimerHandle | None = None

    def start(
        self,
        encoded: EncodedSend,
        pick: Pick | None,
        timeout_ms: int | None,
        result: asyncio.Future[SendResult] | None = None,
    ) -> asyncio.Future[SendResult]:
        """Start a send, or let it wait if too many sends or bytes are in flight, and return its future.

        Without `pick`: round robin, with retries. The future fails with a CometError or with an error of `pick`.
        """
        if result is None:
            result = self.loop.create_future()
        seconds = self._timeout_seconds if timeout_ms is None else timeout_ms / 1000
        now = self._monotonic()
        sending = PendingSend(self, encoded, pick, result, now, now + seconds)
        if self._count_left <= 0 or self._size_left <= 0:
            self._wait(sending, now)
        else:
            self._count_left -= 1
            self._size_left -= len(encoded[3])
            if self._watching is None:
                self._watch()
            sending.attempt()
        return result

    def _wait(self, sending: PendingSend, now: float) -> None:
        self._waiting.append(sending)
        due = max(sending.deadline, now + _LOOK_SECONDS)
        if due < self._looks_at:
            self._looks_at = due
            if self._next_look is not None:
                self._next_look.cancel()
            self._next_look = self.loop.call_later(due - now, self._look)

    def _look(self) -> None:
        """Fail the waiting sends whose deadline has passed; the others wait on."""
        now, self._looks_at = self._monotonic(), math.inf
        waiting, self._waiting = self._waiting, deque()
        for sending in waiting:
            if sending.deadline > now:
                self._wait(sending, now)
            else:
                self.began(1, len(sending.encoded.body))  # `failed` counts it as ended.
                sending.failed(RequestTimeout(_NO_ROOM))

    def _watch(self) -> None:
        self._room_before = self.room
        self._watching = self.loop.call_later(_STUCK_SECONDS, self._doubt_if_stuck)

    def _doubt_if_stuck(self) -> None:
        """Look for other masters if no send has begun or ended since the last look, but some are in flight.

        A master that hangs keeps its connections, and its place at the nameserver until that notices it.
        """
        before, self._watching = self._room_before, None
        if self.is_idle or self.is_closed:
            return
        if before == self.room:
            for name in self.instance.routes.masters:
                self.instance.masters.doubt(name)
        self._watch()

    @property
    def is_idle(self) -> bool:
        """Whether no send is in flight or waits; one-way sends are not counted."""
        return self._count_left == self.settings.in_flight_max

    @property
    def room(self) -> tuple[int, int]:
        """The number of sends that may start, and the number of bytes of bodies until further sends must wait."""
        return self._count_left, self._size_left

    def began(self, count: int, size: int) -> None:
        """Count sends that were started without `start`; `size` is the total of their bodies in bytes."""
        self._count_left -= count
        self._size_left -= size
        if self._watching is None:
            self._watch()

    def ended(self, size: int, count: int = 1) -> None:
        """Count completed sends and start sends that wait; `size` is the total of the completed bodies in bytes."""
        self._count_left += count
        self._size_left += size
        while self._waiting and self._count_left > 0 and self._size_left > 0:
            sending = self._waiting.popleft()
            self.began(1, len(sending.encoded.body))
            # In the next iteration: a send that fails immediately would call `ended` recursively.
            self.loop.call_soon(sending.attempt)

    def close(self) -> None:
        """Prevent further attempts, including retries; sends that wait to be started fail with ClientClosed."""
        self.is_closed = True
        self.returns.close()
        waiting, self._waiting = self._waiting, deque()
        for sending in waiting:
            self.began(1, len(sending.encoded.body))
            sending.attempt()

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """Return the queues that a message of this topic may be sent to.

        Raises TopicNotFound without a route or default topic, NetError if no nameserver answers, and BrokerRefused or
        CodecError if the first that answers refuses or its route is invalid.
        """
        known = await self.instance.known_to_send(
            topic, default_queues=self.settings.default_topic_queues
        )
        return known.write_queues

    async def oneway(self, encoded: EncodedSend, pick: Pick | None) -> SendResult:
        """Write a message to a connection without acknowledgement or retry; the result has offset -1, no offset message id."""
        queue = self.choose(encoded.topic, await self.queues(encoded.topic), pick)
        channel = await self.instance.channels.get(self.instance.address(queue.broker_name))
        channel.send_oneway(header_pieces(encoded, queue, ONEWAY), encoded.body)
        await channel.drain()
        return SendResult(
            SendStatus.OK, encoded.message_id, "", queue, -1, region=DEFAULT_REGION
        )

    def share_of(self, seconds: float, tries: int, known: KnownTopic | None) -> float:
        """Return the seconds that an attempt may take, so that an unresponsive broker leaves time for another.

        Differs: RocketMQ gives an attempt all remaining time, unless sendMsgMaxTimeoutPerRequest is set.

        Args:
            seconds: Remaining time of all attempts.
            tries: Number of remaining attempts, including this one.
            known: Route of the topic; with a single broker an attempt may take all the time.
        """
        if tries < 2 or known is None or not known.has_other_brokers:
            return seconds
        most_ms = self.settings.attempt_timeout_ms
        return min(seconds, most_ms / 1000) if most_ms else seconds / tries

    def choose(
        self,
        topic: str,
        queues: Sequence[MessageQueue],
        pick: Pick | None,
        failed: Sequence[str] = (),
    ) -> MessageQueue:
        """Choose the queue of the next attempt, with `pick` or by turns; raise SendFailed if none is writable.

        By turns, the brokers in `failed` are avoided if there is another one.
        """
        if not queues:
            raise SendFailed(
                f"topic {in_quotes(topic)} has no writable queue: its brokers have withdrawn the write permission or "
                "have no master; see cometmq topic show"
            )
        return pick(queues) if pick else self.turn.choose(topic, queues, failed)
