"""Job "mirror": copies topics of one cluster to another, and records a map of the offsets.

In a run, a queue that the source has at its start is copied to one queue of the target, in order.
The map in `offsets/` tells where a consumer group that moves to the target has to start.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.client import Admin
from cometmq.model.errors import SettingsError, TopicNotFound
from cometmq.model.queue import MessageQueue
from cometmq.model.text import in_quotes
from cometmq.offline.place import hadoop_place
from cometmq.spark.jobs.connect_session import check_has_driver
from cometmq.spark.jobs.field import option
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import JobOptions
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

    Message ids are kept and, in a run, the order of each queue that exists at its start. The next run continues a killed one.

    Raises:
        SettingsError: Source and target are the same text, an option is invalid, or `prepare` finds unusable queues.
    """
    check_has_driver(spark, options, "mirror")
    if options.source == options.target:
        raise SettingsError(
            "--source and --target are the same cluster: the job would read what it writes; name two clusters"
        )
    messages = FromOptions(nameserver=options.source, topic=options.topics)
    if options.dry_run:
        return plan(messages, read_before("mirror", options, options.state))
    topics = words(options.topics)
    with running("mirror", options, place=options.state) as this:
        places = prepare(options.source, options.target, topics)
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


def prepare(source: str, target: str, topics: Sequence[str]) -> Places:
    """Create the topics that the target cluster lacks, and return a target queue for each readable source queue.

    Raises:
        SettingsError: A topic has no readable queue in the source, or no readable and writable one in the target.
        CometError: The source has no such topic (TopicNotFound), or a server does not answer or refuses.
    """
    places: dict[tuple[str, str, int], MessageQueue] = {}
    with Admin(source) as here, Admin(target) as there:
        for topic in topics:
            queues = here.route(topic).read_queues(topic)
            if not queues:
                raise SettingsError(
                    f"--source {source}: topic {in_quotes(topic)} has no readable queue there; give it read queues and "
                    f"the read permission (`cometmq topic create {topic}`), or leave it out"
                )
            try:
                route = there.route(topic)
            except TopicNotFound:
                most = max(queue.queue_id for queue in queues) + 1
                there.create_topic(topic, queues=most)
                route = there.route(topic)
            # Sent messages are read again, for the map and for a repeated batch.
            goals = sorted({*route.write_queues(topic)} & {*route.read_queues(topic)})
            if not goals:
                raise SettingsError(
                    f"--target {target}: topic {in_quotes(topic)} has no queue there that is writable and readable; "
                    f"give it queues and both permissions (`cometmq topic create {topic}`), or leave it out"
                )
            for place, queue in enumerate(queues):
                key = queue.topic, queue.broker_name, queue.queue_id
                places[key] = goals[place % len(goals)]
    return places


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
