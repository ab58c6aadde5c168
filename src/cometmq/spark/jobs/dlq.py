"""Job "dlq replay": sends dead letters of a group back to the topics they came from, or to one topic.

Inspecting dead letters needs no Spark: `cometmq dlq list`, `stats` and `show`.
"""

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq import Admin
from cometmq.connect import LetterId, ReplayCandidate, ReplayClaims
from cometmq.model import properties as keys_of
from cometmq.model.errors import GroupNotFound
from cometmq.model.names import DLQ_PREFIX, RETRY_PREFIX, dead_letter_topic, is_system_topic
from cometmq.model.text import in_quotes, plural
from cometmq.spark.jobs.connect_session import check_has_driver
from cometmq.spark.jobs.job import Job, Report
from cometmq.spark.jobs.options import option
from cometmq.spark.jobs.origin import ClusterOptions, FromOptions, plan, read_stream
from cometmq.spark.jobs.replay import STATE_DEFAULT
from cometmq.spark.jobs.run import read_before, running
from cometmq.spark.jobs.sending import SENT_COLUMNS, SendTarget, resent
from cometmq.spark.jobs.streaming import FlowOptions, drain

_PLACE = ("topic", "brokerName", "queueId", "queueOffset")
# Maximum number of messages in a micro-batch, which the driver keeps in memory while reserving them.
CLAIMED_MAX = 50_000


@dataclass(frozen=True, kw_only=True)
class ReplayDeadOptions(ClusterOptions, FlowOptions):
    """Options of the job `dlq replay`, which sends dead letters of a group back to their topics."""

    group: str = option("The consumer group.", is_argument=True)
    where: str = option(
        "Only messages that match this SQL condition on their columns and originTopic.", ""
    )
    since: str = option(
        "Only messages that became dead letters at or after this time: 2026-05-01T12:00, or ms.",
        "",
    )
    until: str = option(
        "Only messages that became dead letters before this time: 2026-05-01T12:00, or ms.", ""
    )
    to_topic: str = option("Send them to this topic. Default: the original topic of each.", "")
    state: str = option("Folder for manifest and checkpoint.", STATE_DEFAULT, is_what=False)


def replay_dead(spark: SparkSession, options: ReplayDeadOptions) -> Report:
    """Send dead letters of a group back to the topics where they came from, or all to one topic.

    Those that any run, or `cometmq dlq replay`, has sent are left out: a ledger in the cluster lists them. After a
    failed send one may be sent twice. Those without a recorded original topic are left out, too, unless `to_topic` is
    set; their number is a finding. Raises GroupNotFound if the group has no dead-letter topic.
    """
    check_has_driver(spark, options, "dlq replay")
    messages = _messages(options)
    if options.dry_run:
        return plan(messages, read_before("dlq replay", options, options.state))
    to = f.lit(options.to_topic) if options.to_topic else f.col("originTopic")
    with (
        running("dlq replay", options, place=options.state) as this,
        ReplayClaims(options.nameserver, group=options.group) as claims,
    ):
        rows_max = min(options.rows_max, CLAIMED_MAX)
        stream = read_stream(spark, messages, rows_max=rows_max, columns=",".join(SENT_COLUMNS))
        dead = _of_origin(stream, options.where)
        topics = [options.to_topic] if options.to_topic else _users_topics(options.nameserver)
        target = SendTarget(this, options.nameserver, topics)

        def write(batch: DataFrame, number: int) -> dict[str, int]:
            # The same if the batch is repeated, and different for every state folder.
            run = f"{this.short_id}-{this.manifest.started_ms}-{number}"
            claimed, homeless = _claimed(batch, to, claims, run)
            counts = target.send(resent(claimed, to), number)
            claims.end()
            return {**counts, "homeless": homeless}

        drain(dead, this, options, write)
    homeless = this.manifest.counts.get("homeless", 0)
    lacking = (
        f"{homeless} dead {plural(homeless, 'letter has', 'letters have')} no property with the original topic: name "
        "a topic with --to-topic"
    )
    return this.report(findings=[lacking] if homeless else [])


def _claimed(
    batch: DataFrame, to: Column, claims: ReplayClaims, run: str
) -> tuple[DataFrame, int]:
    """Reserve the dead letters of a micro-batch, waiting for other runs, and return those that no other run has sent.

    If the micro-batch is repeated, with the same `run`, they include those that it may have sent already. The second
    result is the number of dead letters that are left out because they have no target topic.
    """
    table = batch.select(
        *_PLACE, f.unix_millis("storeTimestamp").alias("ms"), "msgId", to.alias("to")
    ).toArrow()
    letters = [
        ReplayCandidate(
            LetterId(broker, queue, offset, stored_ms),
            goal,
            message_id,
            f"{topic}:{broker}:{queue}:{offset}",
        )
        for topic, broker, queue, offset, stored_ms, message_id, goal in zip(
            *(column.to_pylist() for column in table.columns), strict=True
        )
        if goal is not None
    ]
    homeless = table.num_rows - len(letters)
    claimed = claims.take(run, letters)
    if len(claimed) == table.num_rows:
        return batch, homeless
    places = batch.sparkSession.createDataFrame(
        [each[:3] for each in claimed], "brokerName string, queueId int, queueOffset long"
    )
    return batch.join(f.broadcast(places), list(_PLACE[1:]), "left_semi"), homeless


def origin() -> Column:
    """Return a column with a dead letter's original topic or null, like `cometmq.client.dead_letter_origin`."""
    named = (
        f.col("properties")[key] for key in (keys_of.DLQ_ORIGIN_TOPIC, keys_of.RETRY_TOPIC)
    )
    return f.coalesce(*(f.when(topic != "", topic) for topic in named))


def _of_origin(dead: DataFrame, where: str) -> DataFrame:
    named = dead.withColumn("originTopic", origin())
    return named.where(where) if where else named


def _users_topics(nameserver: str) -> list[str]:
    """Return the cluster's topics from which dead letters can come: all but system, retry and dead-letter topics."""
    with Admin(nameserver) as admin:
        return [
            topic
            for topic in admin.topics.list()
            if not is_system_topic(topic) and not topic.startswith((DLQ_PREFIX, RETRY_PREFIX))
        ]


def _messages(options: ReplayDeadOptions) -> FromOptions:
    """Return options that select the dead letters of the group; raise GroupNotFound without a dead-letter topic."""
    topic = dead_letter_topic(options.group)
    with Admin(options.nameserver) as admin:
        if topic not in admin.topics.list():
            raise GroupNotFound(
                f"group {in_quotes(options.group)} has no dead letters in this cluster; `cometmq dlq list` shows "
                "the groups that have"
            )
    return FromOptions(
        nameserver=options.nameserver, topic=topic, since=options.since, until=options.until
    )


JOB = Job("dlq replay", ReplayDeadOptions, replay_dead)
