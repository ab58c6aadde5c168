"""Options of a read."""

from enum import StrEnum

from cometmq.client import ReadFrom
from cometmq.model.durations import duration_ms
from cometmq.spark.options import (
    NAME_SERVER,
    PASSED_ON,
    Option,
    group,
    moment,
    one_of,
    size,
    text,
    truth,
    whole,
    words,
)


class AdmittedBy(StrEnum):
    """Rule by which a limited micro-batch is divided among the queues."""

    TIME = "time"
    OFFSETS = "offsets"


DEFAULT_GROUP = "spark-rocketmq-source"

SOURCE_OPTIONS = (
    NAME_SERVER,
    Option("subscribe", text, None, "Topics, separated by commas. One of `subscribe`, `subscribePattern`, `assign` is required.", ("topic",)),
    Option("subscribePattern", text, None, "A regular expression for whole topic names. System, retry and dead-letter topics only when it begins with their prefix."),
    Option("assign", text, None, 'Queues: `{"orders": {"broker-a": [0, 1]}}`, or `{"orders": [0, 1]}` for these of every broker.'),
    Option("startingOffsets", text, None, 'Where to begin: `earliest` (default of a batch), `latest` (default of a stream), `committed` (what `group` has committed) or JSON `{"orders": {"broker-a": {"0": 23}}}` with -2 earliest, -1 latest; the tree may end at a topic or broker. A topic, broker or queue that is not read is an error.'),
    Option("endingOffsets", text, None, "Where a batch ends: `latest` (default) or JSON as above. Batches only."),
    Option("startingTimestamp", moment, None, "Begin at the first message stored at or after this time, ms since 1970; seconds or microseconds are refused. Goes before the other two."),
    Option("endingTimestamp", moment, None, "End before the first message stored at or after this time, ms since 1970. Batches only."),
    Option("startingOffsetsByTimestamp", text, None, 'Times for each queue, a tree like `startingOffsets`: `{"orders": 1700000000000}`. Goes before `startingOffsets`.'),
    Option("endingOffsetsByTimestamp", text, None, "Times for each queue where a batch ends. Batches only."),
    Option("startingOffsetsByTimestampStrategy", one_of("latest", "error"), "latest", "A queue with no message that late begins at its end, or fails the query. (Spark's Kafka source fails by default; in RocketMQ quiet queues are normal.)"),
    Option("failOnDataLoss", truth, "true", "Fail when messages that should be read are gone (deleted, or a queue vanished or went back), or a broker that has some is away when a batch or an AvailableNow run begins. `false`: warn, with how many, and go on with what there is."),
    Option("brokers", words, "", "Names of the brokers that must be there, separated by commas: a read that finds no queue at one of them fails as `failOnDataLoss` says. Default: those that the cluster is known to have (see [what is promised](delivery.md))."),
    Option("maxOffsetsPerTrigger", whole(1), None, "The most messages in one micro-batch. Streams only."),
    Option("admission", one_of(*AdmittedBy), None, "What a limited micro-batch takes of each queue: `time` (default): it ends at about one store time in all queues, so a watermark drops nothing of a backlog that it keeps of news. `offsets`: a share by what waits in each queue, as Spark's Kafka source. Streams only."),
    Option("maxBytesPerTrigger", size, None, "About the most bytes of stored messages in one micro-batch, like `64m`: messages by the mean size of those that wait first. Streams only."),
    Option("minOffsetsPerTrigger", whole(1), None, "Wait until so many messages are there, or `maxTriggerDelay` is over. Streams only."),
    Option("maxTriggerDelay", duration_ms, "15m", "The longest wait for `minOffsetsPerTrigger`."),
    Option("minPartitions", whole(1), None, "Split long queues until there are so many Spark partitions. Default: one for each queue."),
    Option("maxRecordsPerPartition", whole(1), None, "Split ranges longer than this."),
    Option("minRecordsPerTask", whole(), "10000", "Join short ranges of queues into one task until it has so many messages: a task costs 30 ms. 0: never join."),
    Option("propertiesFormat", one_of("map", "raw", "json"), "map", "Column `properties`: MAP<STRING,STRING>, the stored text (`raw`, fastest), or a JSON object as text."),
    Option("columns", words, "", "The columns to read, in order, separated by commas. Default: all. Fewer are much faster."),
    Option("decompress", truth, "true", "Unpack compressed bodies. `false`: as they are stored."),
    Option("subExpression", text, "*", "Which messages the broker sends: tags, `UA || AA`, or SQL92."),
    Option("subExpressionType", one_of("TAG", "SQL92"), "TAG", "What `subExpression` is. SQL92, `delay > 30 AND carrier IN ('UA', 'AA')`, needs a broker with enablePropertyFilter=true."),
    Option("indexLookup", truth, "true", "With push-down: `msgId = '...'` and `keys = '...'` read what the brokers' index names, if it names anything. `false`: never ask the index."),
    Option("group", group, DEFAULT_GROUP, "The consumer group that brokers see; `committed` and `commitOffsets` mean it.", ("groupId",)),
    Option("groupIdPrefix", group, None, "Instead of `group`: a group of its own for each query, this and a random end."),
    Option("commitOffsets", one_of("none", "batch"), "none", "`batch`: store the offsets of each finished micro-batch in `group`, the last one's too, so that a broker's tools show the lag. The checkpoint alone decides where a stream goes on. Streams only."),
    Option("pull.batchSize", whole(1, 65536), "1024", "Messages in one pull. Brokers bound it themselves (Java: 32)."),
    Option("pull.pipelineDepth", whole(1, 64), "4", "Pulls under way at once for each queue."),
    Option("readFrom", one_of(*ReadFrom), str(ReadFrom.SUGGESTED), "Who gives the messages where a broker has replicas: `master`, `slave` (a replica, and the master what it lacks or where none is), or `suggested` (whom the broker names: with slaveReadEnable a replica for what lies far back). Offsets are always asked of the master."),
    Option("pullTimeoutMs", whole(1), "30000", "How long a task waits, trying again, for a broker that cannot be reached."),
    Option("fetchOffset.numRetries", whole(), "3", "How often offsets and routes are asked for again before the query fails."),
    Option("fetchOffset.retryIntervalMs", whole(), "10", "The wait before asking again."),
    *PASSED_ON,
    Option("rocketmq.pool.maxIdleMs", whole(), "300000", "A Python worker closes the connections to a cluster that nothing used for so long."),
    Option("rocketmq.pool.capacity", whole(1), "64", "Clusters (with a group each) to which a Python worker keeps connections."),
)  # fmt: skip
