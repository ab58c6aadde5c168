"""Transactions of a producer: send a half message, do your own work, then commit or roll back.

    async with producer.transaction(Message("orders", b"...")) as transaction:
        await book_the_order()      # an exception rolls back, the end of the block commits

A broker that receives neither a commit nor a rollback checks the transaction later (CHECK_TRANSACTION_STATE). A producer
answers for its latest 20,000 transactions from memory. For others, and if `execute` failed or returned UNKNOWN, it asks
your `TransactionListener`; without one it answers UNKNOWN. So a listener can complete the transactions of a producer of
its group that died. Most follows DefaultMQProducerImpl of RocketMQ 5.3.3.
"""

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from cometmq.client.api.transactions import HalfMessage, TransactionApi
from cometmq.client.bounded_tasks import BoundedTasks
from cometmq.client.connection.instance import ClientInstance
from cometmq.client.consumer.pull.received import unpack
from cometmq.client.producer.encoded_send import SendEncoder
from cometmq.client.producer.queue_selector import Pick
from cometmq.client.producer.sender import EncodedSender
from cometmq.client.results import SendResult, SendStatus
from cometmq.client.tracing.interceptors import Interceptor, Messages, TransactionEnd, watched
from cometmq.client.user_calls import call_user, must_end_task
from cometmq.codec.fields import decode_fields
from cometmq.codec.headers.transaction import CheckTransaction
from cometmq.codec.record import decode_record
from cometmq.codec.remoting import Command
from cometmq.codec.trace import TracedMessage
from cometmq.model import properties as keys_of
from cometmq.model.errors import BrokerNotFound, CometError, MessageError, NetError, SendFailed
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_PREPARED, TRANSACTION_ROLLBACK
from cometmq.model.message import Message, StoredMessage
from cometmq.model.namespace import Namespace
from cometmq.model.queue import MessageQueue
from cometmq.model.text import as_given
from cometmq.net.channel import Channel

_log = logging.getLogger(__name__)

# Number of remembered transactions, to recognise copies of half messages that retried sends left on other brokers.
_REMEMBERED_MAX = 20_000


class TransactionState(IntEnum):
    """The outcome of a local transaction (LocalTransactionState): unknown yet, commit or rollback; numbers of the protocol."""

    UNKNOWN = 0
    COMMIT = TRANSACTION_COMMIT
    ROLLBACK = TRANSACTION_ROLLBACK


class TransactionListener(Protocol):
    """The user's code for transactions: does the work and knows its outcome; methods may be `def` (run in a thread) or `async def`."""

    def execute(
        self, message: Message, argument: Any
    ) -> TransactionState | Awaitable[TransactionState]:
        """Do the work of `send_in_transaction` and return its outcome; UNKNOWN or an exception leads to a check."""
        ...

    def check(self, message: StoredMessage) -> TransactionState | Awaitable[TransactionState]:
        """Return a transaction's outcome; called if a broker checks one of which the producer has no record.

        The broker checks again later after UNKNOWN or an exception, a limited number of times.
        """
        ...


class TransactionResult(NamedTuple):
    """The result of `send_in_transaction`: that of the half message, and the listener's outcome (failed: UNKNOWN)."""

    send: SendResult
    state: TransactionState


@dataclass(slots=True)
class _Known:
    """A transaction that this producer began; `state` is None while undecided, `broker_name` has the valid half message.

    Attributes:
        is_confirmed: Whether the broker has acknowledged the outcome.
    """

    broker_name: str
    state: TransactionState | None = None
    is_confirmed: bool = False


class ProducerTransactions:
    """The transactions of one producer.

    Args:
        check: Returns the outcome of a transaction of which this producer has no record; None: the answer is UNKNOWN.
        namespace: Namespace to remove from topics before the listener sees them.
        body_size_max: Maximum length of a body after decompression, bytes; None: `check` gets messages without bodies.
        interceptors: Interceptors of the producer.
        mark: Name of a property; only checks of half messages with this property are answered.
    """

    def __init__(
        self,
        group: str,
        instance: ClientInstance,
        encoder: SendEncoder,
        check: Callable[[StoredMessage], Any] | None,
        *,
        namespace: Namespace,
        body_size_max: int | None,
        interceptors: Sequence[Interceptor] = (),
        mark: str = keys_of.PRODUCER_GROUP,
    ) -> None:
        self._group = group
        self._interceptors = interceptors
        self._instance = instance
        self._api = TransactionApi(instance, group)
        self._encoder = encoder
        self._asked = check
        self._mark = mark
        self._namespace = namespace
        self._body_size_max = body_size_max
        self._known: dict[str, _Known] = {}
        self._checks = BoundedTasks(f"{group} transactions")
        self._checking: set[tuple[str, str]] = set()  # Address and message id.

    async def close(self) -> None:
        """Cancel the answers to checks that are in progress; a listener that runs in a thread continues."""
        await self._checks.close()

    # --- begin and end

    async def begin(
        self, sender: EncodedSender, message: Message, pick: Pick | None, timeout_ms: int | None
    ) -> SendResult:
        """Send the half message of a transaction and return its result.

        Raises:
            MessageError: The message has a delay, which transactions do not support, or cannot be sent.
            CometError: As in `AsyncProducer.send`; also SendFailed after a rollback, if not flushed or replicated in time.
        """
        if message.delay_level or message.deliver is not None:
            raise MessageError(
                "a message of a transaction cannot have a delay; leave out delay_level and deliver"
            )
        marks = {keys_of.TRAN_MSG: "true", keys_of.PRODUCER_GROUP: self._group}

        def start(those: Messages) -> asyncio.Future[SendResult]:
            encoded = self._encoder.pack(those[0], marks, sys_flag=TRANSACTION_PREPARED)
            return sender.start(encoded, pick, timeout_ms)

        half = await watched(self._interceptors, [message], start, TracedMessage.HALF)
        self._remember(half)
        if half.status is not SendStatus.OK:
            # Follows RocketMQ: a half message that a power failure could lose must not start a transaction.
            await self.end(half, message, TransactionState.ROLLBACK)
            raise SendFailed(
                f"the half message {half.message_id} is stored, but {half.status.value}; the "
                "transaction was rolled back"
            )
        return half

    def _remember(self, half: SendResult) -> None:
        self._known[half.message_id] = _Known(half.queue.broker_name)
        if len(self._known) > _REMEMBERED_MAX:
            del self._known[next(iter(self._known))]

    async def end(
        self, half: SendResult, message: Message, state: TransactionState, remark: str = ""
    ) -> None:
        """Report the outcome of a transaction to its broker; if it does not answer, only log this, as it will check later.

        Raises BrokerRefused if the broker refuses, for example as it has lost the transaction, CodecError if an answer
        is malformed, and ClientClosed after close.
        """
        known = self._known.get(half.message_id)
        if known is not None:
            known.state = state
        it = HalfMessage.of(half)
        try:
            address = self._instance.address(it.broker_name)
            with self._ending(
                _end_of(half, message, address, state), is_traced=half.is_trace_on
            ):
                await self._api.end(address, it, state, remark=remark)
        except (NetError, BrokerNotFound) as error:
            _log.warning(
                "The end (%s) of transaction %s did not reach its broker, which will check the transaction: %s",
                state.name, half.message_id, error,
            )  # fmt: skip
        else:
            if known is not None:
                known.is_confirmed = True

    async def execute(
        self, half: SendResult, message: Message, work: Callable[..., Any], argument: Any
    ) -> TransactionState:
        """Run the listener's `work`, report a commit or rollback to the broker, and return the outcome.

        After an exception of the listener the outcome is UNKNOWN. Raises the errors of `end`, and what the listener raises
        that is no Exception.
        """
        try:
            state = await _run(work, message, argument)
        except BaseException as error:
            # The listener answers when the broker checks the transaction.
            self._known.pop(half.message_id, None)
            if not isinstance(error, Exception):
                raise
            _log.exception(
                "The work of transaction %s failed; its broker will check the transaction",
                half.message_id,
            )
            state = TransactionState.UNKNOWN
        if state is TransactionState.UNKNOWN:
            # UNKNOWN is not reported; the listener answers when the broker checks the transaction.
            self._known.pop(half.message_id, None)
        else:
            await self.end(half, message, state)
        return state

    @contextlib.contextmanager
    def _ending(self, end: TransactionEnd, *, is_traced: bool) -> Iterator[None]:
        """If `is_traced`, let interceptors observe the `with` block, which reports a transaction's end to a broker."""
        ends = [each.ending(end) for each in self._interceptors] if is_traced else []
        try:
            yield
        except BaseException as error:
            for ended in ends:
                ended(error)
            raise
        for ended in ends:
            ended(None)

    # --- checks by brokers

    def take_check(self, command: Command, channel: Channel) -> bool:
        """Answer CHECK_TRANSACTION_STATE 39 in the background; return False if it does not concern this group.

        A check is skipped if the same one is in progress or too many wait, since the broker repeats it.
        """
        record = decode_record(command.body)
        properties = record.properties()
        if (
            properties.get(keys_of.PRODUCER_GROUP) != self._group
            or self._mark not in properties
        ):
            return False
        header = decode_fields(CheckTransaction, command.fields)
        queue = MessageQueue(record.topic, header.broker_name or "", record.queue_id)
        size_max = self._body_size_max
        if size_max is None:  # A body that need not be seen may have any size or form.
            record, size_max = record._replace(body=b"", sys_flag=0), 0
        message = unpack(record, queue, body_size_max=size_max, namespace=self._namespace)
        size = len(command.body) + len(message.body)
        key = channel.address, message.message_id
        if key in self._checking:
            return True  # The listener is already checking it.
        if not self._checks.has_room(size):
            _log.warning(
                "The check of transaction %.200s is skipped, its broker will repeat it: too many checks "
                "wait for the transaction_listener",
                message.message_id,
            )
            return True
        self._checking.add(key)
        self._checks.spawn(self._check(header, message, channel), "check", size)
        return True

    async def _check(
        self, asked: CheckTransaction, message: StoredMessage, channel: Channel
    ) -> None:
        try:
            await self._answer_check(asked, message, channel)
        finally:
            self._checking.discard((channel.address, message.message_id))

    async def _answer_check(
        self, asked: CheckTransaction, message: StoredMessage, channel: Channel
    ) -> None:
        state, remark = await self._state_of(message, channel)
        is_traced = message.properties.get(keys_of.TRACE_ON) != "false"
        try:
            with self._ending(
                _end_of_check(asked, message, channel.address, state), is_traced=is_traced
            ):
                self._api.answer_check(channel, asked, state, message.message_id, remark)
        except CometError as error:
            _log.warning(
                "The check of transaction %s could not be answered, its broker will repeat it: %s",
                message.message_id,
                error,
            )

    async def _state_of(
        self, message: StoredMessage, channel: Channel
    ) -> tuple[TransactionState, str]:
        known = self._known.get(message.message_id)
        if known is not None:
            return self._state_known(known, channel), ""
        if self._asked is None:
            _log.warning(
                "A broker checks transaction %s, which this process did not begin; give "
                "the producer a transaction_listener that knows its outcome",
                message.message_id,
            )
            return TransactionState.UNKNOWN, "the producer does not know this transaction"
        try:
            return await _run(self._asked, message), ""
        except BaseException as error:
            if must_end_task(error):
                raise
            _log.exception(
                "The transaction_listener failed on the check of transaction %s",
                message.message_id,
            )
            return TransactionState.UNKNOWN, f"{type(error).__name__}: {error}"

    def _state_known(self, known: _Known, channel: Channel) -> TransactionState:
        """Return the state to answer when a broker checks a transaction of this producer.

        A half message on a broker with another address, or one that is checked after its outcome was acknowledged, counts
        as a copy made by a retried send. It must not become a second message, so it is rolled back.
        """
        address = self._instance.routes.address(known.broker_name)
        if known.is_confirmed or address not in (None, channel.address):
            return TransactionState.ROLLBACK
        return TransactionState.UNKNOWN if known.state is None else known.state


class AsyncTransaction:
    """A transaction, from its half message to its commit or rollback; made by `AsyncProducer.transaction`."""

    def __init__(
        self,
        transactions: ProducerTransactions,
        message: Message,
        begin: Callable[[], Awaitable[SendResult]],
    ) -> None:
        self._transactions = transactions
        self._message = message
        self._begin = begin
        self._half: SendResult | None = None
        self._end: asyncio.Future[None] | None = None

    @property
    def half(self) -> SendResult:
        """The result of the half message, with the transaction's `message_id`; raises MessageError before the block begins."""
        if self._half is None:
            raise MessageError("the transaction has not begun; use it inside `async with`")
        return self._half

    def commit(self) -> asyncio.Future[None]:
        """Begin to commit, so that consumers receive the message; return a future of None. The block's end also commits.

        The future also succeeds if the broker does not answer: it will check the transaction later.

        Raises:
            MessageError: The transaction has ended already, or has not begun.
            BrokerRefused, CodecError, ClientClosed: Raised by the future: refused, malformed answer, or client closed.
        """
        return self._finish(TransactionState.COMMIT)

    def rollback(self) -> asyncio.Future[None]:
        """Begin to roll back, so that no consumer receives the message, and return a future of None.

        An exception in the block also rolls back, unless `commit` was called before. Errors, and a broker that does not
        answer, are as in `commit`.
        """
        return self._finish(TransactionState.ROLLBACK)

    def _finish(self, state: TransactionState, remark: str = "") -> asyncio.Future[None]:
        if self._end is not None:
            raise MessageError(f"the transaction {self.half.message_id} has ended already")
        work = self._transactions.end(self.half, self._message, state, remark)
        self._end = asyncio.get_running_loop().create_task(work)
        return self._end

    async def __aenter__(self) -> Self:
        self._half = await self._begin()
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        """Commit, or roll back after an exception, unless the block began either, and wait for that to end."""
        if error is None:
            await (self._end or self.commit())
            return
        remark = f"{type(error).__name__}: {error}"
        end = self._end or self._finish(TransactionState.ROLLBACK, remark)
        try:
            await end
        except CometError as trouble:
            _log.warning("The end of transaction %s failed: %s", self.half.message_id, trouble)


def _end_of(
    half: SendResult, message: Message, address: str, state: TransactionState
) -> TransactionEnd:
    return TransactionEnd(
        message.topic, half.message_id, half.transaction_id or half.message_id,
        message.tag or "", message.key_words, address, half.region, state.name,
        is_from_check=False,
    )  # fmt: skip


def _end_of_check(
    asked: CheckTransaction, message: StoredMessage, address: str, state: TransactionState
) -> TransactionEnd:
    return TransactionEnd(
        message.properties.get(keys_of.REAL_TOPIC, message.topic), message.message_id,
        asked.transaction_id or message.message_id, message.tag or "", message.keys, address,
        message.properties.get(keys_of.MSG_REGION), state.name, is_from_check=True,
    )  # fmt: skip


async def _run(function: Callable[..., Any], *args: Any) -> TransactionState:
    """Call a listener's method, in a thread if it is a `def`; raise TypeError if it returns no `TransactionState`."""
    state = await call_user(function, *args)
    if not isinstance(state, TransactionState):
        raise TypeError(f"the listener must return a TransactionState, not {as_given(state)}")
    return state
