"""One send from its first attempt to its result: attempts, deadline, and what may be tried again.

No task and no coroutine stands behind a send that finds route and connection ready: the answer's
future calls `_Sending._answered`, which settles the caller's future. Only what must wait (a route,
a connection) is prepared in a task. Follows DefaultMQProducerImpl.sendDefaultImpl of 5.3.3.

Next: cometmq.net.channel
"""

import asyncio
from collections.abc import Sequence

from cometmq.client.choose_queue import Pick, RoundRobin
from cometmq.client.hub import Hub
from cometmq.client.latency import ISOLATION_LATENCY_MS, FaultTable
from cometmq.client.parcel import Parcel
from cometmq.client.results import SEND_STATUSES, SendResult, SendStatus
from cometmq.client.settings import ProducerSettings
from cometmq.codec.remoting import Command
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import (
    BrokerRefused,
    ClientClosed,
    CodecError,
    CometError,
    ConnectionLost,
    NetError,
    RequestTimeout,
    SendFailed,
)
from cometmq.model.queue import MessageQueue

# retryResponseCodes of DefaultMQProducer 5.3.3: another broker may take the message.
RETRIABLE_CODES = frozenset(
    (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    )
)


class Sender:
    """Sends parcels for one producer.

    Attributes:
        is_closed: whether further attempts are useless; set by the producer when it closes.

    Args:
        hub: routes and connections.
        settings: attempts and times.
    """

    def __init__(self, hub: Hub, settings: ProducerSettings) -> None:
        self.hub = hub
        self.settings = settings
        self.clock = hub.clock
        self.faults = FaultTable(hub.clock) if settings.is_latency_fault_enabled else None
        self.turn = RoundRobin(hub.chance, self.faults.is_available if self.faults else None)
        self.is_closed = False
        self._loop = asyncio.get_running_loop()

    def start(
        self, parcel: Parcel, pick: Pick | None, timeout_ms: int | None
    ) -> asyncio.Future[SendResult]:
        """Begin to send; the future fails with SendFailed, BrokerRefused or NetError."""
        result: asyncio.Future[SendResult] = self._loop.create_future()
        timeout_ms = self.settings.send_timeout_ms if timeout_ms is None else timeout_ms
        _Sending(self, parcel, pick, result, timeout_ms).attempt()
        return result

    async def queues(self, topic: str) -> tuple[MessageQueue, ...]:
        """The queues that a message of this topic may go to.

        Raises:
            TopicNotFound: there is no route, and no default topic to make one from.
            NetError, BrokerRefused, CodecError: the nameservers cannot be asked.
        """
        known = await self.hub.known_to_send(
            topic, default_queues=self.settings.default_topic_queues
        )
        return known.write_queues

    async def oneway(self, parcel: Parcel, pick: Pick | None) -> None:
        """Send a parcel that nobody answers; one attempt."""
        queue = self.choose(parcel.topic, await self.queues(parcel.topic), pick, None)
        channel = await self.hub.channel(self.hub.address(queue.broker_name))
        channel.oneway(make_command(parcel, queue))
        await channel.drain()

    def choose(
        self,
        topic: str,
        queues: Sequence[MessageQueue],
        pick: Pick | None,
        last_broker: str | None,
    ) -> MessageQueue:
        """The queue of the next attempt."""
        if not queues:
            raise SendFailed(
                f"no queue of {topic!r} can be written: its brokers took the permission or have no "
                "master; see cometmq topic describe"
            )
        return pick(queues) if pick else self.turn.choose(topic, queues, last_broker)


def make_command(parcel: Parcel, queue: MessageQueue) -> Command:
    """The request for one queue; the parcel's own fields are completed, never copied."""
    fields = parcel.fields
    fields["e"] = str(queue.queue_id)
    fields["n"] = queue.broker_name
    return Command(parcel.code, fields=fields, body=parcel.body)


class _Sending:
    """One send under way."""

    __slots__ = (
        "began",
        "deadline",
        "failures",
        "parcel",
        "pick",
        "queue",
        "result",
        "sender",
        "tries_left",
    )

    def __init__(
        self,
        sender: Sender,
        parcel: Parcel,
        pick: Pick | None,
        result: asyncio.Future[SendResult],
        timeout_ms: int,
    ) -> None:
        self.sender = sender
        self.parcel = parcel
        self.pick = pick
        self.result = result
        self.queue: MessageQueue | None = None
        self.failures: list[tuple[MessageQueue | None, CometError]] = []
        self.began = sender.clock.monotonic()
        self.deadline = self.began + timeout_ms / 1000
        # Follows RocketMQ: a message for a certain queue is not sent to another one.
        self.tries_left = 1 if pick else 1 + sender.settings.retries

    def attempt(self) -> None:
        """Send now if route and connection are there, else when they are."""
        sender = self.sender
        if sender.is_closed:
            self.settle(
                ClientClosed("the producer was closed; the message may be stored or not")
            )
            return
        try:
            if self.queue is None:
                known = sender.hub.routes.get(self.parcel.topic)
                if known is None:
                    self._prepare()
                    return
                last = self.failures[-1][0] if self.failures else None
                self.queue = sender.choose(
                    self.parcel.topic,
                    known.write_queues,
                    self.pick,
                    last.broker_name if last else None,
                )
            channel = sender.hub.channels.peek(sender.hub.address(self.queue.broker_name))
            if channel is None:
                self._prepare()
                return
            self.began = sender.clock.monotonic()
            left_ms = (self.deadline - self.began) * 1000
            if left_ms <= 0:
                self._failed(RequestTimeout("no time was left for another attempt"))
                return
            waiter = channel.start_call(
                make_command(self.parcel, self.queue), timeout_ms=left_ms
            )
        except CometError as error:
            self._failed(error)
        except Exception as error:  # noqa: BLE001  A selector of the user's that fails.
            self.settle(error)
        else:
            waiter.add_done_callback(self._answered)

    def _prepare(self) -> None:
        self.sender.hub.tasks.spawn(self._wait_ready(), "send")

    async def _wait_ready(self) -> None:
        sender = self.sender
        left = self.deadline - sender.clock.monotonic()
        try:
            async with asyncio.timeout(max(left, 0)):
                if self.queue is None:
                    await sender.queues(self.parcel.topic)
                else:
                    address = sender.hub.address(self.queue.broker_name)
                    await sender.hub.channel(address)
        except asyncio.CancelledError:
            self.settle(ClientClosed("the producer was closed before this message was sent"))
            raise
        except TimeoutError:
            self._failed(RequestTimeout("no route or connection within the time of the send"))
        except CometError as error:
            self._failed(error)
        else:
            self.attempt()

    def _answered(self, waiter: asyncio.Future[Command]) -> None:
        error = waiter.exception()
        if self.result.done():  # Cancelled by its caller.
            return
        if error is not None:
            self._failed(error)
            return
        try:
            self._take(waiter.result())
        except Exception as trouble:  # noqa: BLE001  Whatever it is, the caller learns of it.
            self.settle(trouble)

    def _take(self, answer: Command) -> None:
        queue = self.queue
        assert queue is not None, "an answer comes from a queue"
        if self.sender.faults is not None:
            self._note_latency(queue)
        status = SEND_STATUSES.get(answer.code)
        if status is None:
            address = self.sender.hub.routes.address(queue.broker_name) or queue.broker_name
            self._failed(BrokerRefused(answer.code, answer.remark or "", address))
        elif (
            status is not SendStatus.OK
            and self.sender.settings.is_retried_when_not_ok
            and self.tries_left > 1
        ):
            self._failed(BrokerRefused(ResponseCode.SYSTEM_ERROR, status, queue.broker_name))
        else:
            self.result.set_result(read_answer(answer, status, self.parcel.message_id, queue))

    def _note_latency(self, queue: MessageQueue, latency_ms: float | None = None) -> None:
        assert self.sender.faults is not None
        took_ms = (self.sender.clock.monotonic() - self.began) * 1000
        self.sender.faults.note(queue.broker_name, latency_ms or took_ms)

    def _failed(self, error: BaseException) -> None:
        if not isinstance(error, CometError):
            self.settle(error)
            return
        self.failures.append((self.queue, error))
        self.tries_left -= 1
        if self.sender.faults is not None and self.queue and isinstance(error, NetError):
            self._note_latency(self.queue, ISOLATION_LATENCY_MS)
        if self.tries_left > 0 and self._is_retriable(error):
            self.queue = None
            self.attempt()
        else:
            self.settle(self._final_error(error))

    def _is_retriable(self, error: CometError) -> bool:
        if self.deadline - self.sender.clock.monotonic() <= 0:
            return False
        if isinstance(error, BrokerRefused):
            return error.code in RETRIABLE_CODES
        # What was answered, but cannot be read, may well be stored: it is the caller's to judge.
        return isinstance(error, NetError) and self.queue is not None

    def _final_error(self, error: CometError) -> CometError:
        if len(self.failures) == 1 and not isinstance(error, ConnectionLost | RequestTimeout):
            return error
        tried = "; ".join(f"{queue or 'no queue yet'}: {why}" for queue, why in self.failures)
        failed = SendFailed(
            f"message {self.parcel.message_id} for {self.parcel.topic!r} was not acknowledged in "
            f"{len(self.failures)} attempt(s): {tried}"
        )
        failed.__cause__ = error
        return failed

    def settle(self, error: BaseException) -> None:
        """End with an error."""
        if not self.result.done():
            self.result.set_exception(error)


def read_answer(
    answer: Command, status: SendStatus, message_id: str, queue: MessageQueue
) -> SendResult:
    """The result of a send that a broker took.

    Raises:
        CodecError: the answer lacks its offset.
    """
    fields = answer.fields
    try:
        queue_id = int(fields["queueId"])
        queue_offset = int(fields["queueOffset"])
    except (KeyError, ValueError) as error:
        raise CodecError(f"the answer to a send has no queue or offset: {error!r}") from None
    if queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, queue_id)
    return SendResult(
        status,
        message_id,
        fields.get("msgId", ""),
        queue,
        queue_offset,
        fields.get("transactionId"),
        fields.get("MSG_REGION"),
    )
