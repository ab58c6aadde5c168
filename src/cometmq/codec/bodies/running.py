"""The state of a consumer (307), and the outcome of one message that it was given (309).

Source: ConsumerRunningInfo, ProcessQueueInfo, PopProcessQueueInfo, ConsumeStatus and ConsumeMessageDirectlyResult of RocketMQ
5.3.3. Consoles read the texts of `properties` by the names PROP_….
"""

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from typing import Any

from cometmq.codec import fastjson
from cometmq.codec.bodies.heartbeat import subscription_json, subscription_of
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.bodies.queue_table import queue_table_json, queue_table_of
from cometmq.model.frozen import dataclass
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import Subscription

_MIB = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """One queue as its consumer sees it.

    Attributes:
        commit_offset: the next offset to consume.
        cached_count: messages pulled and not consumed.
        cached_size: bytes of their bodies.
        cached_min: smallest offset of them, 0 without one.
        cached_max: largest offset of them, 0 without one.
        pulled_ms: when it was last pulled, ms since 1970.
        consumed_ms: when a message of it was last consumed, ms since 1970.
        is_locked: whether it is locked for orderly consumption.
        is_dropped: whether it was given up.
    """

    commit_offset: int = 0
    cached_count: int = 0
    cached_size: int = 0
    cached_min: int = 0
    cached_max: int = 0
    pulled_ms: int = 0
    consumed_ms: int = 0
    is_locked: bool = False
    is_dropped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PopState:
    """One queue, or any of a broker's (id -1), as who pops it sees it.

    Attributes:
        waiting_count: messages popped and not acknowledged.
        popped_ms: when it was last popped, ms since 1970.
        is_dropped: whether it was given up.
    """

    waiting_count: int = 0
    popped_ms: int = 0
    is_dropped: bool = False


@dataclass(frozen=True, slots=True)
class ConsumeRates:
    """The rates at which a group consumes a topic.

    Attributes:
        pull_ms: mean time of a pull that found messages.
        pull_rate: messages pulled a second.
        consume_ms: mean time of a call of the listener.
        ok_rate: messages consumed a second.
        failed_rate: messages a second that must come again.
        failed_count: of them within the last hour.
    """

    pull_ms: float = 0.0
    pull_rate: float = 0.0
    consume_ms: float = 0.0
    ok_rate: float = 0.0
    failed_rate: float = 0.0
    failed_count: int = 0


@dataclass(frozen=True, slots=True)
class RunningState:
    """One consumer.

    Attributes:
        properties: its settings, and what the names PROP_… say.
        subscriptions: what it wants.
        queues: the queues that it pulls now.
        rates: by topic.
        stacks: what its threads are doing, where that was asked for.
        pops: the queues that it pops now.
    """

    properties: Mapping[str, str]
    subscriptions: tuple[Subscription, ...] = ()
    queues: Mapping[MessageQueue, QueueState] = field(default_factory=dict)
    rates: Mapping[str, ConsumeRates] = field(default_factory=dict)
    stacks: str | None = None
    pops: Mapping[MessageQueue, PopState] = field(default_factory=dict)


class DirectResult(StrEnum):
    """The outcome of a message that was given to a consumer directly (CMResult)."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    EXCEPTION = "CR_THROW_EXCEPTION"
    NULL = "CR_RETURN_NULL"


@dataclass(frozen=True, slots=True)
class DirectOutcome:
    """The outcome of one message at a listener, with time and reason.

    Attributes:
        result: its verdict.
        spent_ms: how long it took.
        remark: its exception, in words.
        is_orderly: whether it is an orderly listener.
    """

    result: DirectResult
    spent_ms: int
    remark: str | None = None
    is_orderly: bool = False


def encode_running(state: RunningState) -> bytes:
    """The body of the answer to GET_CONSUMER_RUNNING_INFO 307."""
    return fastjson.dumps(
        {
            "jstack": state.stacks,
            "mqPopTable": queue_table_json(
                {queue: _pop_json(each) for queue, each in sorted(state.pops.items())}
            ),
            "mqTable": queue_table_json(
                {queue: _queue_json(each) for queue, each in sorted(state.queues.items())}
            ),
            "properties": dict(state.properties),
            "statusTable": {topic: _rates_json(each) for topic, each in state.rates.items()},
            "subscriptionSet": [subscription_json(each) for each in state.subscriptions],
            "userConsumerInfo": {},
        }
    )


def decode_running(content: bytes | str) -> RunningState:
    """The consumer in such a body.

    Raises:
        CodecError: it is none; the message names the field.
    """
    body = load_object(content, "consumer running info")
    return RunningState(
        {name: str(value) for name, value in body.member("properties").raw().items()},
        tuple(subscription_of(part) for part in body.objects("subscriptionSet")),
        queue_table_of(body.member("mqTable"), _queue_state),
        body.table("statusTable", lambda part, name: _rates(part.member(name))),
        body.maybe_text("jstack"),
        queue_table_of(body.member("mqPopTable"), _pop_state),
    )


def encode_direct(outcome: DirectOutcome) -> bytes:
    """The body of the answer to CONSUME_MESSAGE_DIRECTLY 309."""
    return fastjson.dumps(
        {
            "autoCommit": True,
            "consumeResult": outcome.result.value,
            "order": outcome.is_orderly,
            "remark": outcome.remark,
            "spentTimeMills": outcome.spent_ms,
        }
    )


def decode_direct(content: bytes | str) -> DirectOutcome:
    """The outcome in such a body.

    Raises:
        CodecError: it is none; the message names the field.
    """
    body = load_object(content, "direct consumption")
    name = body.text("consumeResult", DirectResult.NULL)
    known = {each.value for each in DirectResult}
    result = DirectResult(name) if name in known else DirectResult.NULL
    return DirectOutcome(
        result,
        body.int64("spentTimeMills", 0),
        body.maybe_text("remark"),
        body.flag("order", default=False),
    )


def _queue_json(state: QueueState) -> dict[str, Any]:
    return {
        "cachedMsgCount": state.cached_count,
        "cachedMsgMaxOffset": state.cached_max,
        "cachedMsgMinOffset": state.cached_min,
        "cachedMsgSizeInMiB": state.cached_size // _MIB,
        "commitOffset": state.commit_offset,
        "droped": state.is_dropped,  # As Java spells it.
        "lastConsumeTimestamp": state.consumed_ms,
        "lastLockTimestamp": 0,
        "lastPullTimestamp": state.pulled_ms,
        "locked": state.is_locked,
        "transactionMsgCount": 0,
        "transactionMsgMaxOffset": 0,
        "transactionMsgMinOffset": 0,
        "tryUnlockTimes": 0,
    }


def _queue_state(part: JsonObject) -> QueueState:
    return QueueState(
        commit_offset=part.int64("commitOffset", 0),
        cached_count=part.int32("cachedMsgCount", 0),
        cached_size=part.int32("cachedMsgSizeInMiB", 0) * _MIB,
        cached_min=part.int64("cachedMsgMinOffset", 0),
        cached_max=part.int64("cachedMsgMaxOffset", 0),
        pulled_ms=part.int64("lastPullTimestamp", 0),
        consumed_ms=part.int64("lastConsumeTimestamp", 0),
        is_locked=part.flag("locked", default=False),
        is_dropped=part.flag("droped", default=False),
    )


def _pop_json(state: PopState) -> dict[str, Any]:
    return {
        "droped": state.is_dropped,  # As Java spells it.
        "lastPopTimestamp": state.popped_ms,
        "waitAckCount": state.waiting_count,
    }


def _pop_state(part: JsonObject) -> PopState:
    return PopState(
        waiting_count=part.int32("waitAckCount", 0),
        popped_ms=part.int64("lastPopTimestamp", 0),
        is_dropped=part.flag("droped", default=False),
    )


def _rates_json(rates: ConsumeRates) -> dict[str, Any]:
    return {
        "consumeFailedMsgs": rates.failed_count,
        "consumeFailedTPS": rates.failed_rate,
        "consumeOKTPS": rates.ok_rate,
        "consumeRT": rates.consume_ms,
        "pullRT": rates.pull_ms,
        "pullTPS": rates.pull_rate,
    }


def _rates(part: JsonObject) -> ConsumeRates:
    values = part.raw()

    def number(name: str) -> float:
        value = values.get(name)
        return float(value) if isinstance(value, int | float) else 0.0

    return ConsumeRates(
        number("pullRT"),
        number("pullTPS"),
        number("consumeRT"),
        number("consumeOKTPS"),
        number("consumeFailedTPS"),
        part.int64("consumeFailedMsgs", 0),
    )
