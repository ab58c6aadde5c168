"""Listeners: functions that a push consumer calls, with one message or with a list, and what their answers mean.

    def handle(message: StoredMessage) -> None: ...                     # listener=handle
    async def handle_all(messages: list[StoredMessage]) -> None: ...    # batch_listener=handle_all

None or True: consumed. False, or any exception: not now, once more later.
"""

import inspect
import logging
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from typing import Any, NamedTuple, TypeAlias

from cometmq.model.errors import SettingsError
from cometmq.model.message import StoredMessage

_log = logging.getLogger(__name__)

BATCH_COUNT = 32  # As many as a pull brings (pullBatchSize).


class OrderlyStatus(Enum):
    """Further answers of a listener in order, with `PushSettings.commit_by_listener` (ConsumeOrderlyStatus).

    Attributes:
        COMMIT: this message is consumed, and with it all before it since the last commit.
        ROLLBACK: all since the last commit are given again, this one included.
    """

    COMMIT = auto()
    ROLLBACK = auto()


Said: TypeAlias = bool | OrderlyStatus | None
Listener: TypeAlias = Callable[[StoredMessage], Said | Awaitable[Said]]
BatchListener: TypeAlias = Callable[[list[StoredMessage]], Said | Awaitable[Said]]


def first_key(message: StoredMessage) -> str:
    """The first of a message's keys, to order by (`PushSettings.order_key`); its own id without keys."""
    return next(iter(message.keys), message.message_id)


class ListenerCall(NamedTuple):
    """A listener of either kind, as workers call it.

    Attributes:
        function: takes the messages of a call; gives what the listener said, or an awaitable of that.
        is_async: whether that must be awaited.
        batch_count: messages of a call at most.
        listener: the user's own.
    """

    function: Callable[[list[StoredMessage]], Any]
    is_async: bool
    batch_count: int
    listener: Callable[..., Any]


def listener_call(
    listener: Listener | None, batch_listener: BatchListener | None, batch_count: int | None
) -> ListenerCall:
    """The one listener of a consumer.

    Args:
        listener: takes one message.
        batch_listener: takes a list.
        batch_count: messages in a list at most; None: 32.

    Raises:
        SettingsError: none or both are given, it is no function, or `batch_count` has no list to count.
    """
    if (listener is None) == (batch_listener is None):
        both = "none" if listener is None else "both"
        raise SettingsError(
            "a push consumer needs listener= (a function of one message) or batch_listener= (of a list); "
            f"{both} is given"
        )
    if listener is None:
        assert batch_listener is not None, "one of them is given"
        _check("batch_listener", batch_listener, "a list of messages")
        count = BATCH_COUNT if batch_count is None else batch_count
        is_async = is_async_listener(batch_listener)
        return ListenerCall(batch_listener, is_async, count, batch_listener)
    _check("listener", listener, "a message")
    if batch_count is not None:
        raise SettingsError(
            f"batch_count={batch_count} counts the messages of a batch_listener; a listener gets one a call"
        )
    return ListenerCall(_of_one(listener), is_async_listener(listener), 1, listener)


def _check(name: str, listener: object, given: str) -> None:
    if not callable(listener):
        raise SettingsError(
            f"{name} is {listener!r:.200}; it must be a function that takes {given}"
        )


def _of_one(listener: Listener) -> Callable[[list[StoredMessage]], Any]:
    return lambda messages: listener(messages[0])


def is_async_listener(listener: Callable[..., Any]) -> bool:
    """Whether what a listener gives must be awaited."""
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
        getattr(listener, "__call__", None)  # noqa: B004  Objects with an async __call__.
    )


def is_consumed(said: object) -> bool:
    """Whether a listener's answer means that its messages are consumed."""
    if said is None or said is True or said is OrderlyStatus.COMMIT:
        return True
    if said is not False and said is not OrderlyStatus.ROLLBACK:
        _log.warning("a listener must return None, True or False, not %r; trying later", said)
    return False
