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
from cometmq.codec.bodies.members import JsonMember, JsonMembers
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


def _size_of_mib(part: JsonObject, key: str) -> int:
    return part.int32(key, 0) * _MIB


def _direct_result(part: JsonObject, key: str) -> DirectResult:
    name = part.text(key, DirectResult.NULL)
    return DirectResult(name) if name in set(DirectResult) else DirectResult.NULL


_QUEUE = JsonMembers(
    QueueState,
    JsonMember("cachedMsgCount", "cached_count", JsonObject.int32, 0),
    JsonMember("cachedMsgMaxOffset", "cached_max", JsonObject.int64, 0),
    JsonMember("cachedMsgMinOffset", "cached_min", JsonObject.int64, 0),
    JsonMember(
        "cachedMsgSizeInMiB", "cached_size", _size_of_mib, write=lambda size: size // _MIB
    ),
    JsonMember("commitOffset", "commit_offset", JsonObject.int64, 0),
    JsonMember("droped", "is_dropped", JsonObject.flag, default=False),  # As Java spells it.
    JsonMember("lastConsumeTimestamp", "consumed_ms", JsonObject.int64, 0),
    JsonMember("lastPullTimestamp", "pulled_ms", JsonObject.int64, 0),
    JsonMember("locked", "is_locked", JsonObject.flag, default=False),
)
# Members of a queue that consumers of CometMQ do not use.
_ZEROS = dict.fromkeys(
    (
        "lastLockTimestamp", "transactionMsgCount", "transactionMsgMaxOffset",
        "transactionMsgMinOffset", "tryUnlockTimes",
    ), 0,
)  # fmt: skip
_POP = JsonMembers(
    PopState,
    JsonMember("droped", "is_dropped", JsonObject.flag, default=False),
    JsonMember("lastPopTimestamp", "popped_ms", JsonObject.int64, 0),
    JsonMember("waitAckCount", "waiting_count", JsonObject.int32, 0),
)
_RATES = JsonMembers(
    ConsumeRates,
    JsonMember("consumeFailedMsgs", "failed_count", JsonObject.int64, 0),
    JsonMember("consumeFailedTPS", "failed_rate", JsonObject.rate),
    JsonMember("consumeOKTPS", "ok_rate", JsonObject.rate),
    JsonMember("consumeRT", "consume_ms", JsonObject.rate),
    JsonMember("pullRT", "pull_ms", JsonObject.rate),
    JsonMember("pullTPS", "pull_rate", JsonObject.rate),
)
_OUTCOME = JsonMembers(
    DirectOutcome,
    JsonMember("consumeResult", "result", _direct_result),
    JsonMember("order", "is_orderly", JsonObject.flag, default=False),
    JsonMember("remark", "remark", JsonObject.maybe_text),
    JsonMember("spentTimeMills", "spent_ms", JsonObject.int64, 0),
)


def encode_running(state: RunningState) -> bytes:
    """Encode the body of the answer to GET_CONSUMER_RUNNING_INFO 307 in fastjson's form, with objects as keys."""
    return fastjson.dumps(
        {
            "jstack": state.stacks,
            "mqPopTable": queue_table_json(
                {queue: _POP.to_json(each) for queue, each in sorted(state.pops.items())}
            ),
            "mqTable": queue_table_json(
                {queue: _queue_json(each) for queue, each in sorted(state.queues.items())}
            ),
            "properties": dict(state.properties),
            "statusTable": {topic: _RATES.to_json(each) for topic, each in state.rates.items()},
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
        queue_table_of(body.member("mqTable"), _QUEUE.of),
        body.table("statusTable", _RATES.in_field),
        body.maybe_text("jstack"),
        queue_table_of(body.member("mqPopTable"), _POP.of),
    )


def encode_direct(outcome: DirectOutcome) -> bytes:
    """Encode the JSON body of the answer to CONSUME_MESSAGE_DIRECTLY 309."""
    return fastjson.dumps({"autoCommit": True, **_OUTCOME.to_json(outcome)})


def decode_direct(content: bytes | str) -> DirectOutcome:
    """Decode the answer to CONSUME_MESSAGE_DIRECTLY 309. Raises CodecError if it is malformed."""
    return _OUTCOME.of(load_object(content, "direct consumption"))


def _queue_json(state: QueueState) -> dict[str, Any]:
    return dict(sorted({**_QUEUE.to_json(state), **_ZEROS}.items()))
