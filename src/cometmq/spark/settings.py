"""What a source or a sink is told to do: the options, checked together and typed.

Next: cometmq.spark.planning
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cometmq.model.errors import SettingsError
from cometmq.model.names import group_fault
from cometmq.spark.offsets import EARLIEST, LATEST, QueueValues
from cometmq.spark.options import (
    Option,
    duration_ms,
    name_servers,
    one_of,
    read_options,
    truth,
    whole,
    words,
)
from cometmq.spark.schema import PropertiesFormat
from cometmq.spark.subscription import Topics

DEFAULT_SOURCE_GROUP = "spark-rocketmq-source"
DEFAULT_SINK_GROUP = "spark-rocketmq-sink"

_NAME_SERVER = Option(
    "nameServer",
    name_servers,
    None,
    "Required. Nameserver addresses, `host:port`, several separated by `;`.",
    ("namesrvAddr", "rocketmq.namesrvAddr", "rocketmq.nameServer"),
)


def _text(text: str) -> str:
    return text


def _group(text: str) -> str:
    fault = group_fault(text)
    if fault is not None:
        raise ValueError(fault)
    return text


SOURCE_OPTIONS = (
    _NAME_SERVER,
    Option("subscribe", _text, None, "Topics, separated by commas. One of `subscribe`, `subscribePattern`, `assign` is required.", ("topic",)),
    Option("subscribePattern", _text, None, "A regular expression for whole topic names. System, retry and dead-letter topics only when it begins with their prefix."),
    Option("assign", _text, None, 'Queues: `{"orders": {"broker-a": [0, 1]}}`, or `{"orders": [0, 1]}` for these of every broker.'),
    Option("startingOffsets", _text, None, 'Where to begin: `earliest` (default of a batch), `latest` (default of a stream), `committed` (what `group` has committed) or JSON `{"orders": {"broker-a": {"0": 23}}}` with -2 earliest, -1 latest; the tree may end at a topic or broker.'),
    Option("endingOffsets", _text, None, "Where a batch ends: `latest` (default) or JSON as above. Batches only."),
    Option("startingTimestamp", whole(), None, "Begin at the first message stored at or after this time, ms since 1970. Goes before the other two."),
    Option("endingTimestamp", whole(), None, "End before the first message stored at or after this time, ms since 1970. Batches only."),
    Option("startingOffsetsByTimestamp", _text, None, 'Times for each queue, a tree like `startingOffsets`: `{"orders": 1700000000000}`. Goes before `startingOffsets`.'),
    Option("endingOffsetsByTimestamp", _text, None, "Times for each queue where a batch ends. Batches only."),
    Option("startingOffsetsByTimestampStrategy", one_of("latest", "error"), "latest", "A queue with no message that late begins at its end, or fails the query. (Spark's Kafka source fails by default; in RocketMQ quiet queues are normal.)"),
    Option("failOnDataLoss", truth, "true", "Fail when messages that should be read are gone (deleted, or a queue vanished or went back). `false`: warn and go on with what there is."),
    Option("maxOffsetsPerTrigger", whole(1), None, "The most messages in one micro-batch, shared out by what waits in each queue. Streams only."),
    Option("minOffsetsPerTrigger", whole(1), None, "Wait until so many messages are there, or `maxTriggerDelay` is over. Streams only."),
    Option("maxTriggerDelay", duration_ms, "15m", "The longest wait for `minOffsetsPerTrigger`."),
    Option("minPartitions", whole(1), None, "Split long queues until there are so many Spark partitions. Default: one for each queue."),
    Option("maxRecordsPerPartition", whole(1), None, "Split ranges longer than this."),
    Option("minRecordsPerTask", whole(), "10000", "Join short ranges of queues into one task until it has so many messages: a task costs 30 ms. 0: never join."),
    Option("propertiesFormat", one_of("map", "raw"), "map", "Column `properties`: MAP<STRING,STRING>, or the stored text (faster)."),
    Option("columns", words, "", "The columns to read, in order, separated by commas. Default: all. Fewer are much faster."),
    Option("decompress", truth, "true", "Unpack compressed bodies. `false`: as they are stored."),
    Option("subExpression", _text, "*", "Which messages the broker sends, by their tags: `UA || AA`."),
    Option("group", _group, DEFAULT_SOURCE_GROUP, "The consumer group that brokers see. Offsets are kept in Spark's checkpoint, not in the group.", ("groupId",)),
    Option("pull.batchSize", whole(1, 65536), "1024", "Messages in one pull. Brokers bound it themselves (Java: 32)."),
    Option("pull.pipelineDepth", whole(1, 64), "4", "Pulls under way at once for each queue."),
    Option("pullTimeoutMs", whole(1), "30000", "How long a task waits, trying again, for a broker that cannot be reached."),
    Option("fetchOffset.numRetries", whole(), "3", "How often offsets and routes are asked for again before the query fails."),
    Option("fetchOffset.retryIntervalMs", whole(), "10", "The wait before asking again."),
)  # fmt: skip

SINK_OPTIONS = (
    _NAME_SERVER,
    Option("topic", _text, None, "Where all rows go. Goes before the column `topic`; one of the two is required."),
    Option("group", _group, DEFAULT_SINK_GROUP, "The producer group that brokers see."),
    Option("batch.maxMessages", whole(1, 65536), "1024", "The most messages in one request."),
    Option("batch.maxBytes", whole(1024, 64 << 20), "1048576", "The most bytes in one request; a broker refuses more than its maxMessageSize (4 MiB)."),
    Option("maxInflight", whole(1, 1024), "8", "Requests of a task that may wait for their acknowledgement at once."),
    Option("retries", whole(), "3", "How often a request is tried again, on another broker where the row names no queue and there is one."),
    Option("sendTimeoutMs", whole(1), "10000", "How long one acknowledgement may take."),
)  # fmt: skip


@dataclass(frozen=True)
class Bound:
    """Where queues begin or end: a time for all, a time for each, or offsets, in this order.

    Attributes:
        timestamp_ms: for every queue; ms since 1970.
        by_timestamp: for queues one by one, ms since 1970.
        offsets: for queues one by one; -2 earliest, -1 latest.
        otherwise: for the rest, `EARLIEST`, `LATEST` or `COMMITTED`.
        is_late_allowed: a queue with no message at or after its time stands at its end.
    """

    timestamp_ms: int | None
    by_timestamp: QueueValues | None
    offsets: QueueValues | None
    otherwise: int
    is_late_allowed: bool


COMMITTED = -3
_WORDS = {"earliest": EARLIEST, "latest": LATEST, "committed": COMMITTED}


@dataclass(frozen=True)
class SourceSettings:
    """What a read does; the fields are the options of `SOURCE_OPTIONS`."""

    name_servers: tuple[str, ...]
    topics: Topics
    starting: Bound
    ending: Bound
    fail_on_data_loss: bool
    trigger_rows_max: int | None
    trigger_rows_min: int | None
    trigger_delay_ms: int
    partitions_min: int | None
    partition_rows_max: int | None
    task_rows_min: int
    properties_format: PropertiesFormat
    columns: tuple[str, ...]
    is_decompressed: bool
    expression: str
    group: str
    pull_rows: int
    pull_depth: int
    pull_timeout_ms: int
    retries: int
    retry_interval_ms: int

    @classmethod
    def parse(cls, options: Mapping[str, str], *, is_stream: bool) -> "SourceSettings":
        """From the options of a read.

        Raises:
            SettingsError: for an option that is unknown, wrong, missing or does not fit another.
        """
        value = read_options(options, SOURCE_OPTIONS, SINK_OPTIONS)
        _require(value, "nameServer")
        _refuse_other_mode(value, is_stream=is_stream)
        return cls(
            name_servers=value["nameServer"],
            topics=_topics(value),
            starting=_bound(value, "starting", "latest" if is_stream else "earliest"),
            ending=_bound(value, "ending", "latest"),
            fail_on_data_loss=value["failOnDataLoss"],
            trigger_rows_max=value["maxOffsetsPerTrigger"],
            trigger_rows_min=value["minOffsetsPerTrigger"],
            trigger_delay_ms=value["maxTriggerDelay"],
            partitions_min=value["minPartitions"],
            partition_rows_max=value["maxRecordsPerPartition"],
            task_rows_min=value["minRecordsPerTask"],
            properties_format=value["propertiesFormat"],
            columns=value["columns"],
            is_decompressed=value["decompress"],
            expression=value["subExpression"],
            group=value["group"],
            pull_rows=value["pull.batchSize"],
            pull_depth=value["pull.pipelineDepth"],
            pull_timeout_ms=value["pullTimeoutMs"],
            retries=value["fetchOffset.numRetries"],
            retry_interval_ms=value["fetchOffset.retryIntervalMs"],
        )


@dataclass(frozen=True)
class SinkSettings:
    """What a write does; the fields are the options of `SINK_OPTIONS`."""

    name_servers: tuple[str, ...]
    topic: str | None
    group: str
    batch_rows_max: int
    batch_bytes_max: int
    inflight_max: int
    retries: int
    timeout_ms: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SinkSettings":
        """From the options of a write.

        Raises:
            SettingsError: for an option that is unknown, wrong or missing.
        """
        value = read_options(options, SINK_OPTIONS, SOURCE_OPTIONS)
        _require(value, "nameServer")
        return cls(
            name_servers=value["nameServer"],
            topic=value["topic"],
            group=value["group"],
            batch_rows_max=value["batch.maxMessages"],
            batch_bytes_max=value["batch.maxBytes"],
            inflight_max=value["maxInflight"],
            retries=value["retries"],
            timeout_ms=value["sendTimeoutMs"],
        )


def _require(value: Mapping[str, Any], name: str) -> None:
    if value[name] is None:
        raise SettingsError(
            f'option {name!r} is required, e.g. .option("{name}", "localhost:9876")'
        )


_ONLY_BATCH = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_ONLY_STREAM = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger")


def _refuse_other_mode(value: Mapping[str, Any], *, is_stream: bool) -> None:
    for name in _ONLY_BATCH if is_stream else _ONLY_STREAM:
        if value[name] is not None:
            mode = "stream" if is_stream else "batch"
            raise SettingsError(f"option {name!r} means nothing for a {mode}; remove it")


def _topics(value: Mapping[str, Any]) -> Topics:
    makers = {
        "subscribe": Topics.by_name,
        "subscribePattern": Topics.by_pattern,
        "assign": Topics.by_assignment,
    }
    given = [name for name in makers if value[name] is not None]
    if len(given) != 1:
        which = f"not {' and '.join(given)}" if given else 'e.g. .option("subscribe", "orders")'
        raise SettingsError(f"exactly one of {', '.join(makers)} is required, {which}")
    return makers[given[0]](value[given[0]])


def _bound(value: Mapping[str, Any], side: str, default: str) -> Bound:
    by_time, offsets = f"{side}OffsetsByTimestamp", f"{side}Offsets"
    text: str = (value[offsets] or default).strip()
    word = _WORDS.get(text.lower())
    if side == "ending" and word in (EARLIEST, COMMITTED):
        raise SettingsError(f"{offsets}: {text!r} is no end; it is latest or JSON")
    times: str | None = value[by_time]
    return Bound(
        timestamp_ms=value[f"{side}Timestamp"],
        by_timestamp=QueueValues.parse(times, by_time) if times is not None else None,
        offsets=QueueValues.parse(text, offsets) if word is None else None,
        otherwise=word if word is not None else _WORDS[default],
        is_late_allowed=side == "ending"
        or value["startingOffsetsByTimestampStrategy"] == "latest",
    )


def read_columns(options: Mapping[str, str]) -> tuple[tuple[str, ...], PropertiesFormat]:
    """The columns that the options ask for, and how properties look.

    Raises:
        SettingsError: for an option that is unknown or wrong.
    """
    value = read_options(options, SOURCE_OPTIONS, SINK_OPTIONS)
    return value["columns"], value["propertiesFormat"]
