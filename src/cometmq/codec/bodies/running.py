"""Answers of a consumer to GET_CONSUMER_RUNNING_INFO 307 (its state) and CONSUME_MESSAGE_DIRECTLY 309 (a result).

Source: ConsumerRunningInfo, ProcessQueueInfo, PopProcessQueueInfo, ConsumeStatus and ConsumeMessageDirectlyResult of
RocketMQ 5.3.3. Consoles read the entries of `properties` with names PROP_….
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
    """A queue as its consumer sees it.

    Attributes:
        commit_offset: Next queue offset to consume; 0 if unknown.
        cached_count: Number of messages that are pulled but not consumed.
        cached_size: Bytes of their bodies; a multiple of 1 MiB if decoded.
        cached_min: Smallest queue offset of them; 0 if there are none.
        cached_max: Largest queue offset of them or of the newest pull; 0 if there are none.
        pulled_ms: When it was last pulled, ms since 1970; 0 if never or unknown.
        consumed_ms: When a message was last consumed, ms since 1970.
        is_locked: Whether it is locked for orderly consumption; consumers of CometMQ always report False.
        is_dropped: Whether the consumer has given it up.
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
    """A queue, or any queue of a broker (id -1), as a popping consumer sees it.

    Attributes:
        waiting_count: Number of messages that are popped but not acknowledged.
        popped_ms: Time of the last pop request, at first that of the consumer's start with it, ms since 1970.
        is_dropped: Whether the consumer has given it up.
    """

    waiting_count: int = 0
    popped_ms: int = 0
    is_dropped: bool = False


@dataclass(frozen=True, slots=True)
class ConsumeRates:
    """The rates at which one consumer consumes a topic, over about a minute.

    Attributes:
        pull_ms: Mean duration of a pull that found messages, ms.
        pull_rate: Messages pulled per second.
        consume_ms: Mean duration of a listener call, ms.
        ok_rate: Messages consumed per second.
        failed_rate: Messages per second whose listener call failed, whether or not they are redelivered.
        failed_count: Such messages within about the last hour.
    """

    pull_ms: float = 0.0
    pull_rate: float = 0.0
    consume_ms: float = 0.0
    ok_rate: float = 0.0
    failed_rate: float = 0.0
    failed_count: int = 0


@dataclass(frozen=True, slots=True)
class RunningState:
    """The state of a consumer.

    Attributes:
        properties: Its settings, and the entries named PROP_….
        queues: Queues that it currently pulls.
        rates: Rates by topic.
        stacks: Stack traces of the threads of its process; None unless requested.
        pops: Queues that it currently pops.
    """

    properties: Mapping[str, str]
    subscriptions: tuple[Subscription, ...] = ()
    queues: Mapping[MessageQueue, QueueState] = field(default_factory=dict)
    rates: Mapping[str, ConsumeRates] = field(default_factory=dict)
    stacks: str | None = None
    pops: Mapping[MessageQueue, PopState] = field(default_factory=dict)


class DirectResult(StrEnum):
    """A directly delivered message's result (CMResult): SUCCESS, LATER, ROLLBACK, COMMIT, EXCEPTION or NULL."""

    SUCCESS = "CR_SUCCESS"
    LATER = "CR_LATER"
    ROLLBACK = "CR_ROLLBACK"
    COMMIT = "CR_COMMIT"
    EXCEPTION = "CR_THROW_EXCEPTION"
    NULL = "CR_RETURN_NULL"


@dataclass(frozen=True, slots=True)
class DirectOutcome:
    """The result of a message that a listener consumed directly, with time and reason.

    Attributes:
        result: Result of the listener.
        spent_ms: Duration of the call, ms.
        remark: Text of its exception or fault, or None.
        is_orderly: Whether the listener is an orderly one; consumers of CometMQ always report False.
    """

    result: DirectResult
    spent_ms: int
    remark: str | None = None
    is_orderly: bool = False


def encode_running(state: RunningState) -> bytes:
    """Encode the body of the answer to GET_CONSUMER_RUNNING_INFO 307 in fastjson's form, with objects as keys."""
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
    """Decode the answer to GET_CONSUMER_RUNNING_INFO 307. Raises CodecError if it is malformed."""
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
    """Encode the JSON body of the answer to CONSUME_MESSAGE_DIRECTLY 309."""
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
    """Decode the answer to CONSUME_MESSAGE_DIRECTLY 309. Raises CodecError if it is malformed."""
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
