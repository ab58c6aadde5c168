"""Micro-batches into topics, each message once though its batch may be sent twice.

Before a batch is sent, the manifest notes where the target's queues end; a batch that comes again is sent without the
messages of which a copy stands behind these ends. A copy says by REPLAY_OF of which message it is: ids do not tell them
apart, for the messages of a producer's batch have one.
"""

import json
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from cometmq.client import Admin
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
    """The cluster and topics to which messages are sent.

    Args:
        run: whose batches they are.
        nameserver: of the target.
        topics: all that may be written to.
        is_timed: they have a time of delivery, until which they wait in another topic.
    """

    def __init__(
        self, run: Run, nameserver: str, topics: Sequence[str], *, is_timed: bool = False
    ) -> None:
        self._run = run
        self._nameserver = nameserver
        self._topics = (*topics, WHEEL_TIMER_TOPIC) if is_timed else tuple(topics)

    def send(self, batch: DataFrame, number: int) -> dict[str, int]:
        """Send a micro-batch of rows of `resent`; counts all of them.

        Raises:
            PySparkException: a message was not stored; the next run begins with this batch.
        """
        whole, seen = counted(batch)
        sent_before = self._begin(number)
        if sent_before is not None:
            stored = self._copied(batch.sparkSession, sent_before)
            # Broadcast: the other side is not shuffled, so its rows keep their order.
            is_copied = f.col("properties")[REPLAY_OF] == f.col(_COPIED)
            whole = whole.join(f.broadcast(stored), is_copied, "left_anti")
        writer = whole.drop("storeSize").write.format("rocketmq")
        writer.option("auditDir", self._run.audit_of(number))
        writer.option("nameServer", self._nameserver).mode("append").save()
        return seen.get()

    def stored(self, spark: SparkSession, ends: Ends, columns: str) -> DataFrame:
        """Messages that stand behind the ends now."""
        topics = [topic for topic in self._topics if topic in self._ends()]
        if not topics:
            return spark.createDataFrame([], message_schema(columns.split(",")))
        reader = spark.read.format("rocketmq").option("nameServer", self._nameserver)
        reader = reader.option("subscribe", ",".join(topics)).option("columns", columns)
        offsets = {topic: ends[topic] for topic in topics if topic in ends}
        return reader.option("startingOffsets", json.dumps(offsets)).load()

    def _copied(self, spark: SparkSession, ends: Ends) -> DataFrame:
        """The places of messages of which a copy stands behind the ends."""
        copied = f.col("properties")[REPLAY_OF].alias(_COPIED)
        if WHEEL_TIMER_TOPIC not in self._topics:
            return self.stored(spark, ends, "properties").select(copied)
        stored = self.stored(spark, ends, "topic,properties")
        # What waits there for its time may be for a topic that is none of ours.
        is_waiting = f.col("topic") == WHEEL_TIMER_TOPIC
        goal = f.when(is_waiting, f.col("properties")[keys_of.REAL_TOPIC]).otherwise(
            f.col("topic")
        )
        return stored.where(goal.isin(*self._topics)).select(copied)

    def ends_before(self) -> Ends:
        """The ends of the queues before the batch that was sent last."""
        ends: Ends = self._run.manifest.ahead["ends"]
        return ends

    def _begin(self, number: int) -> Ends | None:
        """Note where the queues end; what was noted, if this batch was begun before."""
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
                    offsets = admin.topic_offsets(topic)
                except TopicNotFound:
                    continue  # It is made when the first message comes.
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
    """Messages as the sink takes them: ids kept, `REPLAY_OF` says where each was read.

    Args:
        messages: with `SENT_COLUMNS`.
        topic: a column, where each goes.
        due: a column, when each is delivered; None: at once.
        keep: columns that stay beside those.
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
