"""A send from its first attempt to its result: attempts, deadline and retries.

A send whose route and connection are available needs no task, coroutine or extra future: the channel calls
`PendingSend` with the answer, which sets the caller's future. Only waiting for a route or a connection takes a task.
Simple sends are sent together (`turn_sends`); each of them that fails becomes a `PendingSend`. Follows
DefaultMQProducerImpl.sendDefaultImpl of 5.3.3.
"""

import asyncio
from typing import TYPE_CHECKING

from cometmq.client.connection.master_search import NOT_MASTER_CODES
from cometmq.client.producer.encoded_send import EncodedSend
from cometmq.client.producer.fault_table import ISOLATION_LATENCY_MS
from cometmq.client.producer.queue_selector import Pick
from cometmq.client.results import SEND_STATUSES, SendResult, SendStatus
from cometmq.codec.remoting import RawCommand
from cometmq.codec.send_text import SendPieces, back_text
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import (
    BrokerNotFound,
    BrokerRefused,
    ClientClosed,
    CodecError,
    CometError,
    ConnectError,
    ConnectionLost,
    NetError,
    RequestTimeout,
    SendFailed,
)
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes, plural

if TYPE_CHECKING:
    from cometmq.client.producer.sender import EncodedSender

# retryResponseCodes of DefaultMQProducer 5.3.3: another broker may accept the message. A broker that is busy
# (FLOW_CONTROL) may accept it after a pause.
RETRIABLE_CODES = frozenset(
    (
        ResponseCode.SYSTEM_ERROR,
        ResponseCode.SYSTEM_BUSY,
        ResponseCode.FLOW_CONTROL,
        ResponseCode.SERVICE_NOT_AVAILABLE,
        ResponseCode.NO_PERMISSION,
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.NO_BUYER_ID,
        ResponseCode.NOT_IN_CURRENT_UNIT,
        ResponseCode.GO_AWAY,
    )
)
# Pauses while a broker group has no master that accepts messages, seconds.
_PAUSE_SECONDS = 0.02
_PAUSE_SECONDS_MAX = 0.5
Failure = tuple[MessageQueue | None, CometError]
_SUCCESS = int(ResponseCode.SUCCESS)

# SendResult(...) calls a Python-level __new__, which takes three times as long.
_result = tuple.__new__


def header_pieces(
    encoded: EncodedSend, queue: MessageQueue, command_flag: int = 0
) -> SendPieces:
    """Return the pieces of a send request's header for one queue: three texts, and the queue id as the second."""
    _, front, middle, _, _ = encoded
    return front, queue.queue_id, middle, back_text(queue.broker_name, command_flag)


class PendingSend:
    """A send from its first attempt to its result, with retries.

    Args:
        sender: Sender of the producer.
        pick: Chooses the queue; None: round robin, with retries.
        result: Future for the caller.
        began: Start of the current attempt, monotonic seconds.
        deadline: Deadline of all attempts together, monotonic seconds.
        queue: Queue of an attempt that is already sent, whose `answered` or `failed` will be called; None: not sent
            yet.
    """

    __slots__ = (
        "_began",
        "_failures",
        "_pick",
        "_queue",
        "_refused_at",
        "_result",
        "_sender",
        "deadline",
        "encoded",
    )

    def __init__(
        self,
        sender: "EncodedSender",
        encoded: EncodedSend,
        pick: Pick | None,
        result: asyncio.Future[SendResult],
        began: float,
        deadline: float,
        queue: MessageQueue | None = None,
    ) -> None:
        self.encoded = encoded
        self._sender = sender
        self._pick = pick
        self._result = result
        self._queue = queue
        self._failures: tuple[Failure, ...] = ()
        self._refused_at = (
            0.0  # Of the first refusal by a broker that was no master, monotonic seconds.
        )
        self._began = began
        self.deadline = deadline

    def attempt(self) -> None:
        """Send now, or once route and connection are available in time; fail the send if the sender is closed.

        A send that its caller has cancelled is not sent, only counted as completed.
        """
        sender = self._sender
        if self._result.done():  # The caller has cancelled it.
            sender.ended(len(self.encoded.body))
            return
        if sender.is_closed:
            self._settle(
                ClientClosed("the producer was closed; the message may or may not be stored")
            )
            return
        try:
            instance = sender.instance
            encoded, queue = self.encoded, self._queue
            if queue is None:
                known = instance.routes.get(encoded.topic)
                if known is None or known.is_without_master:
                    self._prepare()
                    return
                failed = self._failed_brokers() if self._failures else ()
                self._queue = queue = sender.choose(
                    encoded.topic, known.write_queues, self._pick, failed
                )
            name = queue.broker_name
            address = instance.routes.masters.get(name)
            channel = None if address is None else instance.channels.peek(address)
            if channel is None:
                self._prepare()
                return
            self._began = sender.clock.monotonic()
            if self._began >= self.deadline:
                self.failed(RequestTimeout("no time is left; raise send_timeout_ms"))
                return
            _, front, middle, body, _ = encoded  # Written out for speed.
            pieces = front, queue.queue_id, middle, back_text(name)
            channel.send(pieces, body, self, self._attempt_deadline(self._began))
        except CometError as error:
            self.failed(error)
        except BaseException as error:  # noqa: BLE001  The user's selector may raise anything.
            self._settle(error)

    def _failed_brokers(self) -> list[str]:
        return [queue.broker_name for queue, _ in self._failures if queue]

    def _attempt_deadline(self, now: float) -> float:
        """Return the deadline of an attempt that begins now; it usually leaves time if another broker may be tried."""
        tries = self._tries_left()
        if tries < 2:
            return self.deadline
        sender = self._sender
        known = sender.instance.routes.get(self.encoded.topic)
        return now + sender.share_of(self.deadline - now, tries, known)

    def _tries_left(self) -> int:
        # Follows RocketMQ: a message for a chosen queue is not sent to another one.
        tries = 1 if self._pick else 1 + self._sender.settings.retries
        return tries - len(self._failures)

    def _prepare(self) -> None:
        preparing = self._sender.instance.tasks.spawn(self._wait_ready(), "send")
        preparing.add_done_callback(self._prepared)

    def _prepared(self, preparing: asyncio.Task[None]) -> None:
        # Not in `_wait_ready`: a task that is cancelled before its first step does not run at all.
        if preparing.cancelled():
            self._settle(ClientClosed("the producer was closed before this message was sent"))

    async def _wait_ready(self) -> None:
        sender = self._sender
        now = sender.clock.monotonic()
        deadline = self.deadline if self._queue is None else self._attempt_deadline(now)
        missing = "no route or connection within the send timeout"
        try:
            async with asyncio.timeout(max(deadline - now, 0)):
                if self._queue is None:
                    if not await sender.queues(self.encoded.topic) and self._lacks_master():
                        missing = f"no broker of {in_quotes(self.encoded.topic)} had a master within the send timeout"
                        await sender.returns.wait(self.encoded.topic, None, self.deadline)
                else:
                    name = self._queue.broker_name
                    try:
                        await sender.instance.channels.get(sender.instance.address(name))
                    except (ConnectError, BrokerNotFound) as error:
                        # Without another broker, wait for a restarting or another master. Not an attempt: nothing was sent.
                        if self._may_not_wait():
                            raise
                        missing = f"{error} It did not return within the send timeout"
                        await sender.returns.wait(self.encoded.topic, name, self.deadline)
        except TimeoutError:
            self.failed(RequestTimeout(missing))
        except CometError as error:
            self.failed(error)
        else:
            self.attempt()

    def _lacks_master(self) -> bool:
        known = self._sender.instance.routes.get(self.encoded.topic)
        return known is not None and known.is_without_master

    def _may_not_wait(self) -> bool:
        """Return whether the send must not wait for a new master: another broker can be tried, or its queue was chosen.

        A later message for a chosen queue could overtake one that waits.
        """
        return self._pick is not None or len(self._brokers()) > 1

    # --- called by the channel (net.waiters.Waiter)

    def answered(self, answer: RawCommand, /) -> None:
        """Handle the broker's answer: set the result, retry or fail; a send cancelled by its caller only counts as completed."""
        queue, sender = self._queue, self._sender
        try:
            if answer[0] != _SUCCESS or sender.faults is not None or queue is None:
                self._take(answer)
                return
            encoded = self.encoded
            done = read_answer(answer, SendStatus.OK, encoded[4], queue)
            sender.ended(len(encoded[3]))
            if not self._result.done():  # False if the caller cancelled it.
                self._result.set_result(done)
        except Exception as trouble:  # noqa: BLE001  The caller gets any error.
            self._settle(trouble)

    def _take(self, answer: RawCommand) -> None:
        queue = self._queue
        assert queue is not None, "an answer comes from a queue"
        sender = self._sender
        if sender.faults is not None:
            self._note_latency(queue)
        status = SEND_STATUSES.get(answer[0])
        if status is None:
            address = sender.instance.routes.address(queue.broker_name) or queue.broker_name
            self.failed(BrokerRefused(answer[0], answer[5] or "", address))
        elif (
            status is not SendStatus.OK
            and sender.settings.retry_when_not_ok
            and self._tries_left() > 1
        ):
            self.failed(BrokerRefused(ResponseCode.SYSTEM_ERROR, status, queue.broker_name))
        else:
            done = read_answer(answer, status, self.encoded.message_id, queue)
            sender.ended(len(self.encoded.body))
            if not self._result.done():  # False if the caller cancelled it.
                self._result.set_result(done)

    def _note_latency(self, queue: MessageQueue, latency_ms: float | None = None) -> None:
        assert self._sender.faults is not None
        took_ms = (self._sender.clock.monotonic() - self._began) * 1000
        self._sender.faults.note(queue.broker_name, latency_ms or took_ms)

    # --- failures

    def failed(self, error: BaseException, _opaque: int = 0, /) -> None:
        """Handle a failed attempt: try again if the error permits it and attempts and time are left, or fail the send.

        There is only one attempt if the queue was chosen, and none more if the caller has cancelled the send.
        """
        if not isinstance(error, CometError):
            self._settle(error)
            return
        sender = self._sender
        if self._queue is not None and self._waits_for_master(error):
            return
        self._failures = (*self._failures, (self._queue, error))
        if sender.faults is not None and self._queue and isinstance(error, NetError):
            self._note_latency(self._queue, ISOLATION_LATENCY_MS)
        if self._tries_left() > 0 and not self._result.done() and self._is_retriable(error):
            pause_seconds = self._pause_seconds()
            self._queue = None
            if pause_seconds:
                sender.loop.call_later(pause_seconds, self.attempt)
            else:
                self.attempt()
        else:
            self._settle(self._final_error(error))

    def _waits_for_master(self, error: CometError) -> bool:
        """Look for a new master if the error may mean that there is one; return whether a new try has been scheduled.

        It is only scheduled if the broker refused as not being the master, the send may wait, and time is left. The
        refused try does not count as an attempt.
        """
        assert self._queue is not None
        sender = self._sender
        is_refused = isinstance(error, BrokerRefused) and error.code in NOT_MASTER_CODES
        if is_refused or isinstance(error, NetError):
            sender.instance.masters.doubt(self._queue.broker_name)
        if not is_refused or self._result.done() or self._may_not_wait():
            return False
        now = sender.clock.monotonic()
        self._refused_at = self._refused_at or now
        # Half of what has passed since the first refusal, and half of that is random.
        pause = min(max((now - self._refused_at) / 2, _PAUSE_SECONDS), _PAUSE_SECONDS_MAX)
        pause *= 0.5 + sender.instance.chance.random() / 2
        if now + pause >= self.deadline:
            return False
        self._queue = None
        sender.loop.call_later(pause, self.attempt)
        return True

    def _is_retriable(self, error: CometError) -> bool:
        if self.deadline - self._sender.clock.monotonic() <= 0:
            return False
        if isinstance(error, BrokerRefused):
            return error.code in RETRIABLE_CODES
        # An answer that cannot be decoded may mean that the message is stored: the caller must decide.
        return isinstance(error, NetError) and self._queue is not None

    def _pause_seconds(self) -> float:
        """Return the seconds until the next attempt: 0 while there are fewer failures than brokers, then partly random."""
        instance = self._sender.instance
        rounds = len(self._failures) // max(len(self._brokers()), 1)
        if not rounds:
            return 0.0
        # Half of the pause is random, so that many senders that failed together do not retry together.
        pause_ms: float = self._sender.settings.retry_pause_ms * 2 ** (rounds - 1)
        return pause_ms * (0.5 + instance.chance.random() / 2) / 1000

    def _brokers(self) -> set[str]:
        known = self._sender.instance.routes.get(self.encoded.topic)
        return {queue.broker_name for queue in known.write_queues} if known else set()

    def _final_error(self, error: CometError) -> CometError:
        if len(self._failures) == 1 and not isinstance(error, ConnectionLost | RequestTimeout):
            return error
        tried = "; ".join(f"{queue or 'no queue yet'}: {why}" for queue, why in self._failures)
        failed = SendFailed(
            f"message {self.encoded.message_id} for {in_quotes(self.encoded.topic)} was not acknowledged in "
            f"{len(self._failures)} {plural(len(self._failures), 'attempt')}: {tried}"
        )
        failed.__cause__ = error
        return failed

    def _settle(self, error: BaseException) -> None:
        self._sender.ended(len(self.encoded.body))
        if not self._result.done():
            if isinstance(error, StopIteration):  # Refused by futures.
                error = RuntimeError("the queue selector raised StopIteration")
            self._result.set_exception(error)


def read_answer(
    answer: RawCommand, status: SendStatus, message_id: str, queue: MessageQueue
) -> SendResult:
    """Make the result of a send from the broker's answer; raise CodecError without valid queue id and offset."""
    fields = answer[6]
    try:
        queue_id = int(fields["queueId"])
        queue_offset = int(fields["queueOffset"])
    except (KeyError, ValueError):
        raise CodecError("the answer to a send has no valid queueId or queueOffset") from None
    if queue_id != queue.queue_id:
        queue = MessageQueue(queue.topic, queue.broker_name, queue_id)
    get = fields.get
    values = (
        status,
        message_id,
        get("msgId", ""),
        queue,
        queue_offset,
        get("transactionId"),
        get("MSG_REGION"),
        get("TRACE_ON") != "false",
        get("recallHandle"),
    )
    return _result(SendResult, values)
