"""Settings of a Spark read of topics: its options, typed and checked together."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from cometmq import Filter, Sql, Tag
from cometmq.connect import ReadFrom
from cometmq.model.credentials import Credentials
from cometmq.model.errors import ExpressionError, SettingsError, SubscriptionError
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
from cometmq.spark.source.subscription import TopicChoice


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
