"""Job "mirror": copies topics of one cluster to another, and records a map of the offsets.

A queue that the source has at a run's start is copied to one queue of the target, in order; later runs use the same
target queue while it exists.
The map in `offsets/` tells where a consumer group that moves to the target has to start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq import Admin
from cometmq.model.errors import SettingsError, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.model.route import TopicRoute
from cometmq.model.text import in_quotes
from cometmq.offline.place import hadoop_place
from cometmq.spark.jobs.connect_session import check_has_driver
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import JobOptions, cluster_addresses, option
from cometmq.spark.jobs.origin import FromOptions, plan, read_stream
from cometmq.spark.jobs.replay import STATE_DEFAULT
from cometmq.spark.jobs.run import Run, read_before, running
from cometmq.spark.jobs.sending import REPLAY_OF, SENT_COLUMNS, SendTarget, resent
from cometmq.spark.jobs.streaming import FlowOptions, drain
from cometmq.spark.options import words

OFFSETS_FOLDER = "offsets"
_MAP_COLUMNS = (
    "topic", "sourceBroker", "sourceQueue", "sourceOffset",
    "targetBroker", "targetQueue", "targetOffset",
)  # fmt: skip

_SAME_CLUSTER = "--source and --target are the same cluster: the job would read what it writes; name two clusters"
Places = Mapping[tuple[str, str, int], MessageQueue]
"""Where the queue of a topic, broker and number goes."""


@dataclass(frozen=True, kw_only=True)
class MirrorOptions(FlowOptions, JobOptions):
    """Options of the job `mirror`, which copies topics to another cluster."""

    source: str = option("Nameservers of the cluster to read from.")
    target: str = option("Nameservers of the cluster to write to.")
    topics: str = option("Topics, separated by commas.")
    state: str = option(
        "Folder for checkpoint and map of offsets.", STATE_DEFAULT, is_what=False
    )


def run(spark: SparkSession, options: MirrorOptions) -> Report:
    """Copy topics of one cluster to another, and record a map of their offsets.

    Message ids are kept, and the order of each queue that exists at a run's start. The next run continues a killed one.

    Raises:
        SettingsError: Source and target share a nameserver or a broker, an option is invalid, or `prepare` finds
            unusable queues.
    """
    check_has_driver(spark, options, "mirror")
    if cluster_addresses(options.source) & cluster_addresses(options.target):
        raise SettingsError(_SAME_CLUSTER)
    messages = FromOptions(nameserver=options.source, topic=options.topics)
    if options.dry_run:
        return plan(messages, read_before("mirror", options, options.state))
    topics = words(options.topics)
    with running("mirror", options, place=options.state) as this:
        places = prepare(options.source, options.target, topics, _kept(this.manifest.ranges))
        this.manifest.ranges = [
            [*key, goal.broker_name, goal.queue_id] for key, goal in places.items()
        ]
        this.save()
        target = SendTarget(this, options.target, topics)
        columns = ",".join(SENT_COLUMNS)
        stream = read_stream(spark, messages, rows_max=options.rows_max, columns=columns)

        def write(batch: DataFrame, number: int) -> dict[str, int]:
            counts = target.send(_placed(batch, places), number)
            note_offsets(this, target, spark, number)
            return counts

        drain(stream, this, options, write)
    note = f"the map of offsets: {this.folder_of(OFFSETS_FOLDER)}"
    return this.report(notes=[note])


def _kept(ranges: Sequence[Sequence[Any]]) -> Places:
    """Return by source queue (topic, broker, number) its target queue, from the records of earlier runs (`ranges`)."""
    return {
        (topic, broker, number): MessageQueue(topic, goal_broker, goal_number)
        for topic, broker, number, goal_broker, goal_number in ranges
    }


def prepare(source: str, target: str, topics: Sequence[str], kept: Places) -> Places:
    """Create the topics that the target cluster lacks, and return a target queue for each readable source queue.

    Args:
        source: Nameservers of the source cluster.
        target: Nameservers of the target cluster.
        topics: Topics to copy.
        kept: The places of earlier runs; they remain while the target has the queue, so that the order does.

    Raises:
        SettingsError: The clusters share a broker, or a topic has no readable queue in the source, or no readable and
            writable one in the target.
        CometError: The source has no such topic (TopicNotFound), or a server does not answer or refuses.
    """
    places: dict[tuple[str, str, int], MessageQueue] = {}
    with Admin(source) as here, Admin(target) as there:
        for topic in topics:
            origin = here.topics.route(topic)
            queues = origin.read_queues(topic)
            if not queues:
                raise SettingsError(
                    f"--source {source}: topic {in_quotes(topic)} has no readable queue there; give it read queues and "
                    f"the read permission (`cometmq topic set {topic} --queues N --read`), or leave it out"
                )
            try:
                route = there.topics.route(topic)
            except TopicNotFound:
                most = max(queue.queue_id for queue in queues) + 1
                there.topics.create(topic, queues=most)
                route = there.topics.route(topic)
            # Sent messages are read again, for the map and for a repeated batch.
            if _brokers(origin) & _brokers(route):
                raise SettingsError(_SAME_CLUSTER)
            goals = sorted({*route.write_queues(topic)} & {*route.read_queues(topic)})
            if not goals:
                raise SettingsError(
                    f"--target {target}: topic {in_quotes(topic)} has no queue there that is writable and readable; "
                    f"give it queues and both permissions (`cometmq topic set {topic} --queues N --read --write`), "
                    "or leave it out"
                )
            for place, queue in enumerate(queues):
                key = queue.topic, queue.broker_name, queue.queue_id
                goal = kept.get(key)
                places[key] = goal if goal in goals else goals[place % len(goals)]
    return places


def _brokers(route: TopicRoute) -> set[str]:
    """Return the addresses of the brokers that have a topic."""
    return {address for broker in route.brokers for address in broker.addresses.values()}


def note_offsets(run: Run, target: SendTarget, spark: SparkSession, number: int) -> None:
    """Write a micro-batch's offset map as Parquet: for each source queue in it, its last copied offset and that of the copy."""
    stored = target.stored(
        spark, target.ends_before(), "topic,brokerName,queueId,queueOffset,properties"
    )
    origin = f.split(f.col("properties")[REPLAY_OF], ":")
    pairs = stored.where(f.size(origin) == 4).select(
        "topic",
        origin[1].alias("sourceBroker"),
        origin[2].cast("int").alias("sourceQueue"),
        origin[3].cast("bigint").alias("sourceOffset"),
        f.col("brokerName").alias("targetBroker"),
        f.col("queueId").alias("targetQueue"),
        f.col("queueOffset").alias("targetOffset"),
    )
    last = f.max_by(f.struct(*_MAP_COLUMNS[3:]), "sourceOffset").alias("last")
    table = pairs.groupBy(*_MAP_COLUMNS[:3]).agg(last).select(*_MAP_COLUMNS[:3], "last.*")
    name = f"{run.folder_of(OFFSETS_FOLDER)}/batch={run.short_id}-{number}"
    table.coalesce(1).write.mode("overwrite").parquet(hadoop_place(name))


def _placed(batch: DataFrame, places: Places) -> DataFrame:
    """Convert messages to rows for the sink, each with its target queue; null if `places` lacks the source queue."""

    def chosen(values: Mapping[str, str]) -> Column:
        pairs = [f.lit(text) for pair in values.items() for text in pair]
        key = f.concat_ws("/", "topic", "brokerName", "queueId")
        return f.create_map(*pairs)[key]

    keys = {"/".join(map(str, key)): queue for key, queue in places.items()}
    brokers = chosen({key: queue.broker_name for key, queue in keys.items()})
    numbers = chosen({key: str(queue.queue_id) for key, queue in keys.items()})
    placed = batch.withColumns({"goalBroker": brokers, "goalQueue": numbers.cast("int")})
    sent = resent(placed, f.col("topic"), keep=("goalBroker", "goalQueue"))
    named = {"goalBroker": "brokerName", "goalQueue": "queueId"}
    return sent.drop("shardingKey").withColumnsRenamed(named)


JOB = Job("mirror", MirrorOptions, run)
