"""Listeners: the functions that a push consumer calls with one message or a list, and the meaning of their results.

    def handle(message: StoredMessage) -> None: ...                     # listener=handle
    async def handle_all(messages: list[StoredMessage]) -> None: ...    # batch_listener=handle_all

None or True: consumed (with `commit_by_listener` see `OrderlyStatus`). False or an exception: usually retry later,
except with broadcasting. An exception can choose the delay, or prevent retries:

    raise RetryLater(timedelta(minutes=5))
    raise DeadLetter("no such customer")
"""

import inspect
import logging
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Collection
from contextvars import copy_context
from datetime import timedelta
from enum import Enum, auto
from typing import Any, NamedTuple, TypeAlias

from cometmq.client.user_calls import await_user, is_async_function, must_end_task, run_user
from cometmq.model.delay_levels import (
    BROKERS_CHOICE,
    DEAD_LETTER,
    DELAY_LEVELS,
    delay_levels_ms,
)
from cometmq.model.errors import BodyError, ListenerError, SettingsError
from cometmq.model.message import StoredMessage, message_name
from cometmq.model.text import as_given, plural

_log = logging.getLogger(__name__)

BATCH_COUNT = 32  # The number of messages that a pull returns (pullBatchSize).


class OrderlyStatus(Enum):
    """The further results of an orderly listener with `PushConsumerSettings.commit_by_listener` (ConsumeOrderlyStatus).

    Attributes:
        COMMIT: The messages of this call, and the earlier ones of the queue since the last commit, are consumed.
        ROLLBACK: The uncommitted messages of the queue, including those of this call, are delivered again.
    """

    COMMIT = auto()
    ROLLBACK = auto()


class DeadLetter(Exception):
    """An exception by which a listener makes its message a dead letter, without a retry if a broker accepts it.

    Args:
        reason: Why a retry would not help; written to the log, which is all that happens with broadcasting.
        messages: The message, or those of a batch, that become dead letters; all others of the call are retried as
            after any other exception. None or empty: all become dead letters. Anything else that is not messages
            raises SettingsError, which counts as a failed call.
    """

    def __init__(
        self,
        reason: str = "",
        messages: StoredMessage | Collection[StoredMessage] | None = None,
    ) -> None:
        given: object = [messages] if isinstance(messages, StoredMessage) else messages or ()
        if not isinstance(given, Collection) or not all(
            isinstance(each, StoredMessage) for each in given
        ):
            raise SettingsError(
                f"DeadLetter(messages={as_given(messages, 80)}): they must be messages of the listener's call; leave "
                "them out to reject all"
            )
        super().__init__(reason, messages)
        self.reason = reason
        self.messages: Collection[StoredMessage] = given

    def __str__(self) -> str:
        return self.reason


class RetryLater(Exception):
    """An exception by which a listener retries its message after a chosen delay; with broadcasting it is not retried.

    The delay is used as given if the queue is consumed in order, or popped and the broker accepts it. Otherwise the
    consumer asks for the shortest default delay level that is not shorter (1, 5, 10, 30 s; 1 to 10, 20, 30 min; 1,
    2 h), or for the longest. The retry counts like any other. A delay that is negative or no timedelta raises
    SettingsError.
    """

    def __init__(self, delay: timedelta) -> None:
        given: object = delay
        if not isinstance(given, timedelta) or given < timedelta(0):
            raise SettingsError(
                f"RetryLater({as_given(delay, 80)}): the delay must be a timedelta of 0 s or more"
            )
        super().__init__(delay)
        self.delay_ms = delay // timedelta(milliseconds=1)


class ListenerClosed(ListenerError):
    """Raised by a listener that can handle no further message, such as `InProcesses` after its `close`."""


class ListenerVerdict(NamedTuple):
    """The outcome of one listener call.

    Attributes:
        is_consumed: Whether the messages are consumed.
        status: The `OrderlyStatus` that the listener returned, or None.
        delay_ms: Delay before the retry that the listener chose, ms, or None.
        dead: Returns whether a refused message becomes a dead letter immediately.
        fault: Error because the listener returned an invalid result or was closed, after which consumption must stop, or
            None.
        error: Exception that the listener raised, or None.
    """

    is_consumed: bool
    status: OrderlyStatus | None = None
    delay_ms: int | None = None
    dead: Callable[[StoredMessage], bool] = lambda _message: False
    fault: ListenerError | None = None
    error: BaseException | None = None

    def delay_level(self, message: StoredMessage) -> int:
        """Return the delay level for sending a refused message back: -1 (dead letter), 0 (broker's choice), or 1 to 18."""
        if self.dead(message):
            return DEAD_LETTER
        if self.delay_ms is None:
            return BROKERS_CHOICE
        return min(bisect_left(_LEVELS_MS, self.delay_ms), len(_LEVELS_MS) - 1) + 1


_LEVELS_MS = delay_levels_ms(DELAY_LEVELS)
CONSUMED, REFUSED = ListenerVerdict(is_consumed=True), ListenerVerdict(is_consumed=False)

Said: TypeAlias = bool | OrderlyStatus | None
Listener: TypeAlias = Callable[[StoredMessage], Said | Awaitable[Said]]
BatchListener: TypeAlias = Callable[[list[StoredMessage]], Said | Awaitable[Said]]


def first_key(message: StoredMessage) -> str:
    """Return the first key of a message, or its id if it has none; for use as `PushConsumerSettings.order_key`."""
    return next(iter(message.keys), message.message_id)


class ListenerCall(NamedTuple):
    """A listener in the form in which workers call it; each call has its own copy of the context variables.

    Attributes:
        function: Called with the messages of a call; returns the listener's result or an awaitable of it.
        is_async: Whether the result must be awaited.
        batch_count: Maximum number of messages per call.
        listener: The user's function.
    """

    function: Callable[[list[StoredMessage]], Any]
    is_async: bool
    batch_count: int
    listener: Callable[..., Any]

    def run(self, messages: list[StoredMessage]) -> ListenerVerdict:
        """Call a `def` listener with messages and return its verdict, which also reports the listener's exception."""
        try:
            return verdict_of(copy_context().run(self.function, messages))
        except BaseException as error:  # noqa: BLE001  Even sys.exit() must not end a worker's thread.
            return _verdict_of_error(error, messages)

    async def run_on_loop(self, messages: list[StoredMessage]) -> ListenerVerdict:
        """Call a listener of either kind on the loop and return its verdict, which also reports its exception.

        Raises CancelledError if the worker is cancelled, GeneratorExit if its coroutine is closed, and KeyboardInterrupt
        if the user interrupts the listener in the main thread.
        """
        try:
            if self.is_async:
                return verdict_of(await await_user(self.function, messages))
            return verdict_of(copy_context().run(run_user, self.function, messages))
        except BaseException as error:
            if must_end_task(error):
                raise
            return _verdict_of_error(error, messages)


def _verdict_of_error(error: BaseException, messages: list[StoredMessage]) -> ListenerVerdict:
    if isinstance(error, RetryLater):
        return ListenerVerdict(is_consumed=False, delay_ms=error.delay_ms, error=error)
    if isinstance(error, ListenerClosed):
        _log.error("%s", error)
        return ListenerVerdict(is_consumed=False, fault=error)
    if isinstance(error, DeadLetter | BodyError):
        dead: Collection[StoredMessage] = getattr(error, "messages", ()) or messages
        offsets = {(each.queue, each.queue_offset) for each in dead}
        _log.warning(
            "The listener rejected %d %s, which become dead letters; the first is %s: %s",
            len(dead),
            plural(len(dead), "message"),
            message_name(next(iter(dead))),
            error,
        )
        return ListenerVerdict(
            is_consumed=False,
            dead=lambda message: (message.queue, message.queue_offset) in offsets,
            error=error,
        )
    _log.error(
        "The listener failed on %s; the message is retried later",
        message_name(messages[0]),
        exc_info=error,
    )
    return ListenerVerdict(is_consumed=False, error=error)


def listener_call(
    listener: Listener | None, batch_listener: BatchListener | None, batch_count: int | None
) -> ListenerCall:
    """Return the `ListenerCall` for a function of one message, or for one of at most `batch_count` messages (None: 32).

    Raises SettingsError if none or both functions are given, the given one is not callable, or `batch_count` comes
    without a `batch_listener`.
    """
    if (listener is None) == (batch_listener is None):
        both = "none is" if listener is None else "both are"
        raise SettingsError(
            "a push consumer needs listener= (a function of one message) or batch_listener= (of a list); "
            f"{both} given"
        )
    if listener is None:
        assert batch_listener is not None, "one of them is given"
        _check("batch_listener", batch_listener, "a list of messages")
        count = BATCH_COUNT if batch_count is None else batch_count
        is_async = is_async_function(batch_listener)
        return ListenerCall(_of_copy(batch_listener), is_async, count, batch_listener)
    _check("listener", listener, "a message")
    if batch_count is not None:
        raise SettingsError(
            f"batch_count={batch_count} sets the number of messages for a batch_listener; a listener gets one "
            "message per call. Use batch_listener=, or leave out batch_count"
        )
    return ListenerCall(_of_one(listener), is_async_function(listener), 1, listener)


def _check(name: str, listener: object, given: str) -> None:
    if not callable(listener):
        raise SettingsError(
            f"{name} is {as_given(listener)}; it must be a function that takes {given}"
        )


def _of_copy(listener: BatchListener) -> Callable[[list[StoredMessage]], Any]:
    """Return a function that calls the listener with a copy of the list, so that the listener may change it."""
    return lambda messages: listener([*messages])


def _of_one(listener: Listener) -> Callable[[list[StoredMessage]], Any]:
    return lambda messages: listener(messages[0])


def is_consuming(answer: object) -> bool:
    """Return whether a listener's result means that its messages are consumed: None, True or COMMIT."""
    return answer is None or answer is True or answer is OrderlyStatus.COMMIT


def verdict_of(answer: object) -> ListenerVerdict:
    """Convert a listener's result to a verdict; an invalid result is logged and becomes the verdict's `fault`."""
    if answer is None or answer is True:
        return CONSUMED
    if answer is False:
        return REFUSED
    if isinstance(answer, OrderlyStatus):
        return ListenerVerdict(answer is OrderlyStatus.COMMIT, answer)
    if inspect.iscoroutine(answer):
        answer.close()
    fault = ListenerError(
        f"the listener returned {as_given(answer)}; it must return None or True (consumed) or False (try again later). "
        "The consumer stops; after a restart it gets the message again"
    )
    _log.error("%s", fault)
    return ListenerVerdict(is_consumed=False, fault=fault)
