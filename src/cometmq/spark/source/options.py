"""Options of a read of topics with the Spark format "rocketmq": `SOURCE_OPTIONS`, and the values of `admission`."""

from collections.abc import Mapping
from enum import StrEnum

from cometmq.connect import ReadFrom
from cometmq.model.durations import duration_ms
from cometmq.offline.columns.names import PropertiesFormat
from cometmq.spark.options import (
    NAME_SERVER,
    PASSED_ON,
    Option,
    group,
    moment,
    one_of,
    read_options,
    size,
    text,
    truth,
    whole,
    words,
)
from cometmq.spark.sink.options import SINK_OPTIONS


class AdmittedBy(StrEnum):
    """Division of a limited micro-batch among queues: to about one store TIME, or in proportion to waiting OFFSETS."""

    TIME = "time"
    OFFSETS = "offsets"


DEFAULT_GROUP = "spark-rocketmq-source"

SOURCE_OPTIONS = (
    NAME_SERVER,
    Option("subscribe", text, None, "Topics, separated by commas. One of `subscribe`, `subscribePattern`, `assign` is required.", ("topic",)),
    Option("subscribePattern", text, None, "A regular expression for whole topic names. System, retry and dead-letter topics only when it begins with their prefix."),
    Option("assign", text, None, 'Queues: `{"orders": {"broker-a": [0, 1]}}`, or `{"orders": [0, 1]}` for these of every broker.'),
    Option("startingOffsets", text, None, 'Where to start: `earliest` (default of a batch), `latest` (default of a stream), `committed` (the committed offsets of `group`) or JSON `{"orders": {"broker-a": {"0": 23}}}` with -2 earliest, -1 latest; the tree may end at a topic or broker. Naming a topic, broker or queue that is not read is an error.'),
    Option("endingOffsets", text, None, "Where a batch ends: `latest` (default) or JSON as above. Batches only."),
    Option("startingTimestamp", moment, None, "Start at the first message stored at or after this time, in ms since 1970; values in seconds or microseconds are refused. It overrides the other two options for the start."),
    Option("endingTimestamp", moment, None, "End before the first message stored at or after this time, in ms since 1970. Batches only."),
    Option("startingOffsetsByTimestamp", text, None, 'Times for each queue, a tree like `startingOffsets`: `{"orders": 1700000000000}`. It overrides `startingOffsets`.'),
    Option("endingOffsetsByTimestamp", text, None, "Times for each queue where a batch ends. Batches only."),
    Option("startingOffsetsByTimestampStrategy", one_of("latest", "error"), "latest", "For a queue without a message at or after that time: `latest` starts at its end, `error` fails the query. (Spark's Kafka source fails by default; in RocketMQ quiet queues are normal.)"),
    Option("failOnDataLoss", truth, "true", "Fail if messages that should be read are lost (deleted, or a queue disappeared or was truncated), or if a broker that has some is unavailable when a batch or an AvailableNow run starts. `false`: log a warning with the number of messages and continue with the rest."),
    Option("brokers", words, "", "Names of the brokers that must be available, separated by commas: if a read finds no queue at one of them, it fails, unless `failOnDataLoss` is `false`. Default: the brokers that the cluster is known to have (see [delivery guarantees](delivery.md))."),
    Option("maxOffsetsPerTrigger", whole(1), None, "Maximum number of messages in one micro-batch. Streams only."),
    Option("admission", one_of(*AdmittedBy), None, "How a limited micro-batch divides its messages between queues. `time` (default): it ends at about the same store time in all queues, so a watermark treats a backlog like new messages. `offsets`: in proportion to the messages that wait in each queue, as Spark's Kafka source. Streams only."),
    Option("maxBytesPerTrigger", size, None, "Approximate maximum number of stored bytes in one micro-batch, like `64m`; estimated from the mean size of the first waiting messages. Streams only."),
    Option("minOffsetsPerTrigger", whole(1), None, "Wait until this number of messages is available, or `maxTriggerDelay` is over. Streams only."),
    Option("maxTriggerDelay", duration_ms, "15m", "Maximum time to wait for `minOffsetsPerTrigger`."),
    Option("minPartitions", whole(1), None, "Split long queues until there are this many Spark partitions. Default: one for each queue."),
    Option("maxRecordsPerPartition", whole(1), None, "Split ranges with more messages than this."),
    Option("minRecordsPerTask", whole(), "10000", "Combine short ranges of queues into one task until it has this many messages, because a task costs 30 ms. 0: never combine."),
    Option("propertiesFormat", one_of("map", "raw", "json"), "map", "Column `properties`: MAP<STRING,STRING>, the stored text (`raw`, fastest), or a JSON object as text."),
    Option("columns", words, "", "The columns to read, in order, separated by commas. Default: all. Fewer are much faster."),
    Option("decompress", truth, "true", "Decompress bodies. `false`: return them as stored."),
    Option("subExpression", text, "*", "Filter of the broker: tags, such as `UA || AA`, or an SQL92 expression."),
    Option("subExpressionType", one_of("TAG", "SQL92"), "TAG", "Type of `subExpression`. SQL92, such as `delay > 30 AND carrier IN ('UA', 'AA')`, needs a broker with enablePropertyFilter=true."),
    Option("indexLookup", truth, "true", "Use the index of the brokers for push-down of `msgId = '...'` and `keys = '...'`, if it finds messages. `false`: never use the index."),
    Option("group", group, DEFAULT_GROUP, "The consumer group that brokers see; `committed` and `commitOffsets` use it.", ("groupId",)),
    Option("groupIdPrefix", group, None, "Instead of `group`: each query gets its own group with this prefix and a random suffix."),
    Option("commitOffsets", one_of("none", "batch"), "none", "`batch`: commit the offsets of each finished micro-batch to `group`, including the last one, so that administration tools show the lag. A stream always continues from its checkpoint. Streams only."),
    Option("pull.batchSize", whole(1, 65536), "1024", "Maximum number of messages in one pull. Brokers may limit it further (Java: 32)."),
    Option("pull.pipelineDepth", whole(1, 64), "4", "Maximum number of concurrent pulls for each queue."),
    Option("readFrom", one_of(*ReadFrom), str(ReadFrom.SUGGESTED), "Which replica of a broker is read: `master`, `slave` (a slave; the master if there is no slave or it lacks messages), or `suggested` (the one that the broker suggests: with slaveReadEnable a slave for old messages). Offsets always come from the master."),
    Option("pullTimeoutMs", whole(1), "30000", "How long a task retries when a broker is unreachable."),
    Option("fetchOffset.numRetries", whole(), "3", "Number of retries for offsets and routes before the query fails."),
    Option("fetchOffset.retryIntervalMs", whole(), "10", "Pause before such a retry."),
    *PASSED_ON,
    Option("rocketmq.pool.maxIdleMs", whole(), "300000", "Idle time after which a Python worker closes its connections to a cluster."),
    Option("rocketmq.pool.capacity", whole(1), "64", "Maximum number of clusters, one per group, to which a Python worker keeps connections."),
)  # fmt: skip


def read_columns(options: Mapping[str, str]) -> tuple[tuple[str, ...], PropertiesFormat]:
    """Return the options `columns` (tuple) and `propertiesFormat`; SettingsError for an unknown option or invalid value."""
    value = read_options(options, SOURCE_OPTIONS, SINK_OPTIONS)
    return value["columns"], value["propertiesFormat"]
