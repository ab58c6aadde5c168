"""Settings of a Spark read of topics: its options, typed and checked together, and the choice of its queues."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from cometmq import Filter, Sql, Tag
from cometmq.connect import ReadFrom
from cometmq.model.credentials import Credentials
from cometmq.model.errors import ExpressionError, SettingsError, SubscriptionError
from cometmq.model.names import DLQ_PREFIX, RETRY_PREFIX, is_system_topic, topic_fault
from cometmq.model.queue import MessageQueue
from cometmq.model.subscription import ALL, TAG
from cometmq.model.text import in_quotes
from cometmq.model.tls import TlsSettings
from cometmq.offline.columns.names import PropertiesFormat
from cometmq.spark.options import (
    credentials_of,
    moment_fault,
    name_servers_of,
    read_options,
    tls_of,
)
from cometmq.spark.pool import PoolLimits
from cometmq.spark.sink.options import SINK_OPTIONS
from cometmq.spark.source.offsets import COMMITTED, EARLIEST, LATEST, QueueValues, slip
from cometmq.spark.source.options import DEFAULT_GROUP, SOURCE_OPTIONS, AdmittedBy

Assignment = Mapping[str, Mapping[str | None, tuple[int, ...]]]
"""topic -> broker (None: every broker) -> queue numbers."""


@dataclass(frozen=True)
class TopicChoice:
    """Topics or queues to read; exactly one attribute is set.

    Attributes:
        names: Topics.
        pattern: Regular expression for whole topic names; excludes system, retry and dead-letter topics
            unless it begins with "%", "rmq_sys_" or "RMQ_SYS_" (or one of these behind "^").
        assignment: Queue numbers by topic and broker (None: every broker).
    """

    names: tuple[str, ...] = ()
    pattern: str = ""
    assignment: Assignment | None = None

    @classmethod
    def by_name(cls, text: str) -> "TopicChoice":
        """Choose topics by a list like "orders, payments"; raise SettingsError if it is empty or a name is illegal."""
        names = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
        for fault in (topic_fault(name) for name in names or ("",)):
            if fault is not None:
                raise SettingsError(f"subscribe: {fault}")
        return cls(names=names)

    @classmethod
    def by_pattern(cls, text: str) -> "TopicChoice":
        """Choose topics by a regular expression; raise SettingsError if it is empty or invalid."""
        if not text:
            raise SettingsError("subscribePattern is empty; .* chooses all topics")
        try:
            re.compile(text)
        except re.error as error:
            raise SettingsError(f"subscribePattern {in_quotes(text)}: {error}") from error
        return cls(pattern=text)

    @classmethod
    def by_assignment(cls, text: str) -> "TopicChoice":
        """Choose the queues of topics by JSON text; raise SettingsError if it has another form.

        It maps topics to brokers to queue numbers, as `{"orders": {"broker-a": [0, 1]}}`, or topics to numbers at every
        broker, as `{"orders": [0, 1]}`.
        """
        try:
            return cls(assignment=_assigned(json.loads(text)))
        except (ValueError, AttributeError, TypeError) as error:
            raise SettingsError(
                f'assign: {in_quotes(text)} must be like {{"topic": {{"broker": [0, 1]}}}}: {error}'
            ) from error

    def wanted(self, all_topics: Callable[[], Sequence[str]]) -> list[str]:
        """Return the names of the topics to read now, sorted; `all_topics` is called only for a pattern."""
        if not self.pattern:
            return sorted(self.assignment or self.names)
        is_named = self.pattern.lstrip("^").startswith(("%", "rmq_sys_", "RMQ_SYS_"))
        match = re.compile(self.pattern).fullmatch
        return sorted(
            topic
            for topic in all_topics()
            if match(topic) and (is_named or not _is_inner(topic))
        )

    def covers(self, queue: MessageQueue) -> bool:
        """Return whether to read a queue of a wanted topic: if an assignment names it, or there is no assignment."""
        if self.assignment is None:
            return True
        brokers = self.assignment.get(queue.topic, {})
        return queue.queue_id in brokers.get(queue.broker_name, brokers.get(None, ()))


def _is_inner(topic: str) -> bool:
    return is_system_topic(topic) or topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def _assigned(topics: Any) -> Assignment:
    if not topics:
        raise ValueError("it names no topic")
    return {topic: _queues_of(each) for topic, each in topics.items()}


def _queues_of(value: Any) -> dict[str | None, tuple[int, ...]]:
    by_broker = value if isinstance(value, dict) else {None: value}
    for queues in by_broker.values():
        if not isinstance(queues, list) or not queues or not all(map(_is_number, queues)):
            raise ValueError(f"{json.dumps(queues)[:200]} is not a list of queue numbers")
    if not by_broker:
        raise ValueError("a topic has no broker")
    return {broker: tuple(queues) for broker, queues in by_broker.items()}


def _is_number(queue: Any) -> bool:
    return isinstance(queue, int) and not isinstance(queue, bool) and queue >= 0


@dataclass(frozen=True)
class RangeBound:
    """Start or end of the queues of a read: a time for all, times or offsets for single queues, or else `otherwise`.

    Attributes:
        timestamp_ms: Time for every queue, ms since 1970; None if not set.
        by_timestamp: Times for single queues, ms since 1970; None if not set.
        offsets: Offsets for single queues, -2 earliest, -1 latest; None if not set.
        otherwise: `EARLIEST`, `LATEST` or `COMMITTED`, for all other queues.
        is_late_allowed: Whether a queue with no message at or after its time uses its end; otherwise that is an error.
    """

    timestamp_ms: int | None
    by_timestamp: QueueValues | None
    offsets: QueueValues | None
    otherwise: int
    is_late_allowed: bool

    def named(self, queue: MessageQueue) -> tuple[int | None, int | None]:
        """Return the time or else the offset that the user gave for a queue, as a pair with at least one None."""
        timestamp = self.timestamp_ms
        if timestamp is None and self.by_timestamp is not None:
            timestamp = self.by_timestamp.of(queue)
        if timestamp is not None or self.offsets is None:
            return timestamp, None
        return None, self.offsets.of(queue)


_WORDS = {"earliest": EARLIEST, "latest": LATEST, "committed": COMMITTED}


@dataclass(frozen=True)
class SourceSettings:
    """Settings of a Spark read of topics, parsed from the options of `SOURCE_OPTIONS`."""

    name_servers: tuple[str, ...]
    topics: TopicChoice
    starting: RangeBound
    ending: RangeBound
    fail_on_data_loss: bool
    brokers: tuple[str, ...]
    admission: AdmittedBy
    trigger_rows_max: int | None
    trigger_bytes_max: int | None
    trigger_rows_min: int | None
    trigger_delay_ms: int
    partitions_min: int | None
    partition_rows_max: int | None
    task_rows_min: int
    properties_format: PropertiesFormat
    columns: tuple[str, ...]
    is_decompressed: bool
    expression: Filter
    is_index_asked: bool
    group: str
    is_committing: bool
    namespace: str
    credentials: Credentials | None
    tls: TlsSettings | None
    read_from: ReadFrom
    pull_rows: int
    pull_depth: int
    pull_timeout_ms: int
    retries: int
    retry_interval_ms: int
    pool: PoolLimits

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool) -> "SourceSettings":
        """Parse the options of a read; raise SettingsError if one is unknown, invalid, missing or in conflict."""
        value = read_options(options, SOURCE_OPTIONS, SINK_OPTIONS)
        _refuse_other_mode(value, is_stream=is_stream)
        return cls(
            name_servers=name_servers_of(value),
            topics=_topics(value),
            starting=_bound(value, "starting", "latest" if is_stream else "earliest"),
            ending=_bound(value, "ending", "latest"),
            fail_on_data_loss=value["failOnDataLoss"],
            brokers=value["brokers"],
            admission=AdmittedBy(value["admission"] or AdmittedBy.TIME),
            trigger_rows_max=value["maxOffsetsPerTrigger"],
            trigger_bytes_max=value["maxBytesPerTrigger"],
            trigger_rows_min=value["minOffsetsPerTrigger"],
            trigger_delay_ms=value["maxTriggerDelay"],
            partitions_min=value["minPartitions"],
            partition_rows_max=value["maxRecordsPerPartition"],
            task_rows_min=value["minRecordsPerTask"],
            properties_format=value["propertiesFormat"],
            columns=value["columns"],
            is_decompressed=value["decompress"],
            expression=_expression(value),
            is_index_asked=value["indexLookup"],
            group=_group(value),
            is_committing=value["commitOffsets"] == "batch",
            namespace=value["rocketmq.namespace"],
            credentials=credentials_of(value),
            tls=tls_of(value),
            read_from=ReadFrom(value["readFrom"]),
            pull_rows=value["pull.batchSize"],
            pull_depth=value["pull.pipelineDepth"],
            pull_timeout_ms=value["pullTimeoutMs"],
            retries=value["fetchOffset.numRetries"],
            retry_interval_ms=value["fetchOffset.retryIntervalMs"],
            pool=PoolLimits(value["rocketmq.pool.maxIdleMs"], value["rocketmq.pool.capacity"]),
        )


_ONLY_BATCH = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_ONLY_STREAM = (
    "admission",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
)


def _refuse_other_mode(value: Mapping[str, Any], *, is_stream: bool) -> None:
    wrong = [
        name for name in (_ONLY_BATCH if is_stream else _ONLY_STREAM) if value[name] is not None
    ]
    if not is_stream and value["commitOffsets"] == "batch":
        wrong.append("commitOffsets")
    for name in wrong:
        mode = "stream" if is_stream else "batch"
        raise SettingsError(f"option {in_quotes(name)} has no effect for a {mode}; remove it")


def _expression(value: Mapping[str, Any]) -> Filter:
    expression: str = value["subExpression"]
    if value["subExpressionType"] == TAG:
        try:
            return Tag(expression)
        except SubscriptionError as error:
            raise SettingsError(f"option 'subExpression': {error}") from error
    if expression.strip() in ("", ALL):
        raise SettingsError("subExpressionType=SQL92 needs a subExpression, e.g. price > 10")
    try:
        return Sql(expression)
    except ExpressionError as error:
        raise SettingsError(f"option 'subExpression': {error}") from error


def _group(value: Mapping[str, Any]) -> str:
    """Return the consumer group, or with `groupIdPrefix` a unique name; SettingsError if `group` is then not the default."""
    group, prefix = value["group"], value["groupIdPrefix"]
    if prefix is None:
        return str(group)
    if group != DEFAULT_GROUP:
        raise SettingsError("options 'group' and 'groupIdPrefix' are both set; keep one")
    return f"{prefix}-{uuid4().hex}"


def _topics(value: Mapping[str, Any]) -> TopicChoice:
    makers = {
        "subscribe": TopicChoice.by_name,
        "subscribePattern": TopicChoice.by_pattern,
        "assign": TopicChoice.by_assignment,
    }
    given = [name for name in makers if value[name] is not None]
    if len(given) != 1:
        which = f"not {' and '.join(given)}" if given else 'e.g. .option("subscribe", "orders")'
        raise SettingsError(f"exactly one of {', '.join(makers)} is required, {which}")
    return makers[given[0]](value[given[0]])


def _bound(value: Mapping[str, Any], side: str, default: str) -> RangeBound:
    by_time, offsets = f"{side}OffsetsByTimestamp", f"{side}Offsets"
    given: str | None = value[offsets]
    text = (default if given is None else given).strip()
    word = _WORDS.get(text.lower())
    if side == "ending" and word in (EARLIEST, COMMITTED):
        raise SettingsError(f"{offsets}: {in_quotes(text)} is not an end; use latest or JSON")
    if word is None and not text.startswith("{"):
        words = [each for each in _WORDS if side == "starting" or each == "latest"]
        raise SettingsError(
            f"{offsets}: {in_quotes(text)} is neither JSON nor {', '.join(words)}{slip(text, words)}"
        )
    times: str | None = value[by_time]
    fault = _end_fault if side == "ending" else _start_fault
    return RangeBound(
        timestamp_ms=value[f"{side}Timestamp"],
        by_timestamp=QueueValues.parse(times, by_time, moment_fault)
        if times is not None
        else None,
        offsets=QueueValues.parse(text, offsets, fault) if word is None else None,
        otherwise=word if word is not None else _WORDS[default],
        is_late_allowed=side == "ending"
        or value["startingOffsetsByTimestampStrategy"] == "latest",
    )


def _start_fault(offset: int) -> str | None:
    return (
        None
        if offset >= EARLIEST
        else f"{offset} is not an offset; -2 means earliest, -1 means latest"
    )


def _end_fault(offset: int) -> str | None:
    return (
        None if offset >= LATEST else f"{offset} is not an end; use an offset, or -1 for latest"
    )
