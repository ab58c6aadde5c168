"""Simple sends of one iteration of the event loop, encoded and written together if possible; others go alone.

`kernel.pipelined_sends` decides which messages are simple. A send that gets no simple answer of success becomes a
`PendingSend`, so that attempts, faults and deadlines are implemented only once.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from cometmq.client.connection.routes import KnownTopic
from cometmq.client.producer.encoded_send import SendEncoder
from cometmq.client.producer.send_attempts import PendingSend
from cometmq.client.producer.sender import EncodedSender
from cometmq.client.results import SendResult, SendStatus
from cometmq.codec.remoting import RawCommand
from cometmq.kernel import PipelinedSends
from cometmq.kernel.rows import Settled, Target
from cometmq.model.errors import MessageError
from cometmq.model.message import Message
from cometmq.net.channel import Channel

# Number of sends that are written before the iteration ends, so that the broker starts with these while the caller makes more.
_AT_ONCE = 128

# SendResult(...) calls a Python-level __new__, which takes three times as long.
_result = partial(tuple.__new__, SendResult)
_OK = SendStatus.OK  # Looking up an Enum member takes as long as a function call.


class TopicTargets(NamedTuple):
    """Writable queues of a topic, with prepared data for sending to them in the form that the compiled code (kernel) takes.

    Attributes:
        known: Route that contains the queues.
        full: Topic name with its namespace.
        front: Encoded request header up to the queue id.
        targets: Each queue, its id and its broker's name.
        seconds: Time limit of the first attempt; the rest of the send timeout is left for other attempts.
    """

    known: KnownTopic
    full: str
    front: bytes
    targets: tuple[Target, ...]
    seconds: float


class TurnSends:
    """Collects the simple sends of one producer during an iteration of the event loop, and writes them together.

    Attributes:
        encoder: Encodes sends that go alone.
        sender: Sends them, and counts the sends in flight.
        seconds: Timeout of a send with all its attempts.

    Args:
        encoder: Encodes sends that go alone.
        sender: Sends them.
        check_running: Raises ClientClosed if the producer is not running, or on another event loop.
    """

    def __init__(
        self, encoder: SendEncoder, sender: EncodedSender, check_running: Callable[[], None]
    ) -> None:
        self.encoder = encoder
        self.sender = sender
        self._check_running = check_running
        self._waiting: list[tuple[Message, asyncio.Future[SendResult]]] = []
        self._by_topic: dict[str, TopicTargets] = {}
        self._new_future = sender.loop.create_future
        self._call_soon = sender.loop.call_soon
        self.seconds = sender.settings.send_timeout_ms / 1000

    def add(self, message: Message) -> asyncio.Future[SendResult]:
        """Collect a message and return its future, which also gets errors; send it in the next loop iteration or sooner.

        Sooner: in this call, if nothing else is collected or in flight, or at the 128th message or a call of `send_now`.

        Raises:
            ClientClosed: This is the first message, and the producer is not running, or on another event loop.
        """
        if not self._waiting:
            self._check_running()
        result: asyncio.Future[SendResult] = self._new_future()
        waiting = self._waiting
        waiting.append((message, result))
        count = len(waiting)
        if count == 1:
            if self.sender.is_idle:
                self.send_now()
            else:
                self._call_soon(self.send_now)
        elif count == _AT_ONCE:
            self.send_now()
        return result

    def cannot_fail(self, message: Message) -> bool:
        """Return whether a message certainly passes the checks before sending, for callers that must raise errors at once."""
        return (
            message.topic in self._by_topic
            and len(message.body) <= self.encoder.plain_size_max
            and not (message.properties or message.keys or message.tag)
        )

    def send_now(self) -> None:
        """Start to send all collected messages in their order; some may wait for a route, a connection or other sends."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        channels: set[Channel] = set()
        start = 0
        while start < len(waiting):
            count = self._send_together(waiting, start, channels)
            if not count:
                self._send_alone(*waiting[start])
                count = 1
            start += count
        for channel in channels:
            channel.write_sent()

    def _send_together(
        self,
        waiting: list[tuple[Message, asyncio.Future[SendResult]]],
        start: int,
        channels: set[Channel],
    ) -> int:
        """Send consecutive simple messages of one topic to one broker and return their number; 0 if the first must go alone."""
        sender = self.sender
        of = self._targets(waiting[start][0])
        if of is None:
            return 0
        index = sender.turn.next_index(of.full, len(of.targets))
        _, _, broker_name = of.targets[index % len(of.targets)]
        address = sender.instance.routes.masters.get(broker_name)
        channel = None if address is None else sender.instance.channels.peek(address)
        if channel is None or not channel.takes_pipelined:
            return 0
        born_ms, began = sender.clock.now_ms(), sender.clock.monotonic()
        sends = PendingSends(self, of.targets, index, born_ms, began)
        head = self.encoder.pipelined_head(
            waiting[start][0].topic, of.front, broker_name, born_ms
        )
        max_count, size_max = sender.room
        limits = max_count, self.encoder.plain_size_max, size_max
        count = channel.send_pipelined(sends, waiting, start, head, limits, began + of.seconds)
        if count:
            sender.turn.went_to(of.full, index + count - 1)
            sender.began(count, sends.size)
            channels.add(channel)
        return count

    def _targets(self, message: Message) -> TopicTargets | None:
        """Return a message's `TopicTargets`; None for a subclass, a refused topic, or no known writable queue."""
        if message.__class__ is not Message:
            return None
        routes = self.sender.instance.routes
        found = self._by_topic.get(message.topic)
        if found is not None and routes.get(found.full) is found.known:
            return found
        try:
            full, front = self.encoder.topic_front(message.topic)
        except MessageError:  # `_send_alone` reports it.
            return None
        known = routes.get(full)
        if known is None or not known.write_queues:
            return None
        targets = tuple((each, each.queue_id, each.broker_name) for each in known.write_queues)
        tries = 1 + self.sender.settings.retries
        seconds = self.sender.share_of(self.seconds, tries, known)
        found = self._by_topic[message.topic] = TopicTargets(
            known, full, front, targets, seconds
        )
        return found

    def _send_alone(self, message: Message, result: asyncio.Future[SendResult]) -> None:
        try:
            self.sender.start(self.encoder.pack(message), None, None, result)
        except Exception as error:  # noqa: BLE001  The caller gets any error.
            if not result.done():
                result.set_exception(error)


class PendingSends(PipelinedSends):
    """Sends that were written together and wait for their answers (`net.waiters.PipelinedSendsWaiter`).

    Args:
        sends: The collection that they are from.
        targets: Queues of their topic.
        turn: Index in `targets`, modulo its length, of the first message's queue.
        born_ms: Time at which they were encoded, ms since 1970.
        began: The same time in monotonic seconds.
    """

    __slots__ = ("_began", "_born_ms", "_sends")

    def __init__(
        self,
        sends: TurnSends,
        targets: tuple[Target, ...],
        turn: int,
        born_ms: int,
        began: float,
    ) -> None:
        super().__init__(0, targets, turn, _OK, _result)
        self._sends = sends
        self._born_ms = born_ms
        self._began = began

    def settled(self, results: list[Settled], size: int, /) -> None:
        """Set the results of acknowledged sends; a send that its caller cancelled is counted as completed, too."""
        for result, done in results:
            if not result.done():
                result.set_result(done)
        self._sends.sender.ended(size, len(results))

    def answered(self, answer: RawCommand, /) -> None:
        """Handle an answer that is not a simple success: set the result, retry or fail the send, as if sent alone."""
        self._alone(answer[2]).answered(answer)

    def failed(self, error: BaseException, opaque: int, /) -> None:
        """Handle a failure of the send with this opaque as if it had been sent alone: retry it, or fail its future."""
        self._alone(opaque).failed(error)

    def _alone(self, opaque: int) -> PendingSend:
        """Return the send whose request had this opaque as a `PendingSend`, as if it had been sent alone."""
        index = opaque - self.first
        sent = self.sent[index]
        assert sent is not None, "each is answered once"
        self.sent[index] = None
        message, result, _, message_id = sent
        if message.properties:
            # It was empty when sent; the user has filled the mapping since.
            message = replace(message, properties={})
        sends = self._sends
        encoded = sends.encoder.pack(message, made=(self._born_ms, message_id))
        queue, _, _ = self.targets[(self.turn + index) % len(self.targets)]
        deadline = self._began + sends.seconds
        return PendingSend(sends.sender, encoded, None, result, self._began, deadline, queue)
