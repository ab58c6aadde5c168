"""Sending of a Spark job's micro-batches to topics; a repeated batch leaves out messages that the target has.

Before a batch is sent, the ends of the target's queues are recorded in the manifest; a repeated batch is sent without the
messages that have a copy after these ends. The property REPLAY_OF identifies the original of a copy; message ids cannot,
because messages of a producer's batch share one.
"""

import json
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq import Admin
from cometmq.model import properties as keys_of
from cometmq.model.errors import TopicNotFound
from cometmq.model.names import WHEEL_TIMER_TOPIC
from cometmq.spark.jobs.run import Run
from cometmq.spark.jobs.streaming import counted
from cometmq.spark.schema import message_schema

REPLAY_OF = "REPLAY_OF"
_COPIED = "copied"
SENT_COLUMNS = (
    "topic", "brokerName", "queueId", "queueOffset", "msgId", "keys", "tags", "body", "properties",
    "flag", "storeSize", "storeTimestamp",
)  # fmt: skip

Ends = dict[str, dict[str, dict[str, int]]]
"""Offsets by topic, broker and queue."""


class SendTarget:
    """The cluster and topics to which a job sends micro-batches; a repeated one skips messages that are already there.

    Args:
        run: Run of the job; its manifest records where the last batch begins in the target's queues.
        nameserver: Nameservers of the target.
        topics: All topics that may be written to.
        is_timed: Whether messages may have a delivery time; copies are then also sought in the timer's topic.
    """

    def __init__(
        self, run: Run, nameserver: str, topics: Sequence[str], *, is_timed: bool = False
    ) -> None:
        self._run = run
        self._nameserver = nameserver
        self._topics = (*topics, WHEEL_TIMER_TOPIC) if is_timed else tuple(topics)

    def send(self, batch: DataFrame, number: int) -> dict[str, int]:
        """Send a micro-batch of rows made by `resent`; return the counts "rows" and "bytes", also of rows sent before.

        Raises:
            PySparkException, CometError: The batch may not be stored completely; the next run starts with this batch.
        """
        whole, seen = counted(batch)
        sent_before = self._begin(number)
        if sent_before is not None:
            stored = self._copied(batch.sparkSession, sent_before)
            # With a broadcast the other side is not shuffled, so its rows keep their order.
            is_copied = f.col("properties")[REPLAY_OF] == f.col(_COPIED)
            whole = whole.join(f.broadcast(stored), is_copied, "left_anti")
        writer = whole.drop("storeSize").write.format("rocketmq")
        writer.option("auditDir", self._run.audit_of(number))
        writer.option("nameServer", self._nameserver).mode("append").save()
        return seen.get()

    def stored(self, spark: SparkSession, ends: Ends, columns: str) -> DataFrame:
        """Return a data frame of the messages in the topics from the offsets `ends` on; all of queues that `ends` lacks."""
        topics = [topic for topic in self._topics if topic in self._ends()]
        if not topics:
            return spark.createDataFrame([], message_schema(columns.split(",")))
        reader = spark.read.format("rocketmq").option("nameServer", self._nameserver)
        reader = reader.option("subscribe", ",".join(topics)).option("columns", columns)
        offsets = {topic: ends[topic] for topic in topics if topic in ends}
        return reader.option("startingOffsets", json.dumps(offsets)).load()

    def _copied(self, spark: SparkSession, ends: Ends) -> DataFrame:
        """Return the origins (REPLAY_OF) of the copies that the target has from the given offsets on."""
        copied = f.col("properties")[REPLAY_OF].alias(_COPIED)
        if WHEEL_TIMER_TOPIC not in self._topics:
            return self.stored(spark, ends, "properties").select(copied)
        stored = self.stored(spark, ends, "topic,properties")
        # Messages waiting there may be for other topics.
        is_waiting = f.col("topic") == WHEEL_TIMER_TOPIC
        goal = f.when(is_waiting, f.col("properties")[keys_of.REAL_TOPIC]).otherwise(
            f.col("topic")
        )
        return stored.where(goal.isin(*self._topics)).select(copied)

    def ends_before(self) -> Ends:
        """Return the end offsets of the target's queues before the last micro-batch was first sent; KeyError without one."""
        ends: Ends = self._run.manifest.ahead["ends"]
        return ends

    def _begin(self, number: int) -> Ends | None:
        """Record the ends of the queues and return None; if this batch was begun before, return the recorded ends."""
        manifest = self._run.manifest
        if manifest.ahead.get("batch") == number:
            return self.ends_before()
        manifest.ahead = {"batch": number, "ends": self._ends()}
        self._run.save()
        return None

    def _ends(self) -> Ends:
        ends: Ends = {}
        with Admin(self._nameserver) as admin:
            for topic in self._topics:
                try:
                    offsets = admin.topics.offsets(topic)
                except TopicNotFound:
                    continue  # The first message creates it.
                for queue, held in offsets.items():
                    brokers = ends.setdefault(topic, {})
                    brokers.setdefault(queue.broker_name, {})[str(queue.queue_id)] = (
                        held.max_offset
                    )
        return ends


def resent(
    messages: DataFrame,
    topic: Column,
    *,
    due: Column | None = None,
    keep: Sequence[str] = (),
) -> DataFrame:
    """Convert messages to rows for the sink; ids are kept, and REPLAY_OF gets the origin of each.

    Args:
        messages: Messages with `SENT_COLUMNS`.
        topic: Column with the target topic of each.
        due: Column with the delivery time of each; None for immediate delivery.
        keep: Further columns to keep.
    """
    place = f.concat_ws(":", "topic", "brokerName", "queueId", "queueOffset")
    added = f.create_map(f.lit(REPLAY_OF), place)
    own = f.map_filter("properties", lambda name, _: name != REPLAY_OF)
    return messages.select(
        topic.alias("topic"),
        "msgId",
        "keys",
        "tags",
        "body",
        f.map_concat(own, added).alias("properties"),
        f.col("properties")[keys_of.SHARDING_KEY].alias("shardingKey"),
        "flag",
        "storeSize",
        *(() if due is None else (due.alias("deliverTimestamp"),)),
        *keep,
    )
