"""Statistics of a broker: of a topic (202), of a group's progress (208), and their times (303).

Source: TopicStatsTable, ConsumeStats, OffsetWrapper, QueryConsumeTimeSpanBody and GroupList of
RocketMQ 5.3.3. Offsets count messages; times are ms since 1970, 0 or -1 where there is no message.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import load_object
from cometmq.codec.bodies.queue_table import queue_json, queue_table_json, queue_table_of
from cometmq.model.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """What a queue holds.

    Attributes:
        min_offset: of its oldest message.
        max_offset: what the next message gets.
        updated_ms: when its last message was stored; 0 without one.
    """

    min_offset: int
    max_offset: int
    updated_ms: int = 0


@dataclass(frozen=True, slots=True)
class TopicStats:
    """The queues of a topic at one broker, and messages put a second."""

    queues: Mapping[MessageQueue, QueueBounds] = field(default_factory=dict)
    put_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """How far a group is in a queue.

    Attributes:
        broker_offset: what the next message of the queue gets.
        consumer_offset: the next that the group consumes.
        pull_offset: the next that it pulls.
        consumed_ms: store time of the last message it consumed; 0 without one.
    """

    broker_offset: int
    consumer_offset: int
    pull_offset: int = 0
    consumed_ms: int = 0

    @property
    def lag(self) -> int:
        """Messages that are not consumed yet."""
        return self.broker_offset - self.consumer_offset


@dataclass(frozen=True, slots=True)
class ConsumeStats:
    """The queues of a group at one broker, and messages consumed a second."""

    queues: Mapping[MessageQueue, QueueProgress] = field(default_factory=dict)
    rate: float = 0.0

    @property
    def lag(self) -> int:
        """Messages of all its queues that are not consumed yet."""
        return sum(progress.lag for progress in self.queues.values())


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Where a group stands in a queue, told in times.

    Attributes:
        queue: which.
        min_ms: store time of the oldest message.
        max_ms: of the newest.
        consumed_ms: of the last that was consumed, or of the oldest.
        delay_ms: age of the next one to be consumed; 0 without one.
    """

    queue: MessageQueue
    min_ms: int
    max_ms: int
    consumed_ms: int
    delay_ms: int


def encode_topic_stats(stats: TopicStats) -> bytes:
    """The body of the answer to 202."""
    table = {
        queue: {
            "lastUpdateTimestamp": bounds.updated_ms,
            "maxOffset": bounds.max_offset,
            "minOffset": bounds.min_offset,
        }
        for queue, bounds in stats.queues.items()
    }
    return fastjson.dumps(
        {"offsetTable": queue_table_json(table), "topicPutTps": float(stats.put_rate)}
    )


def decode_topic_stats(content: bytes | str) -> TopicStats:
    """The statistics in such a body.

    Raises:
        CodecError: it is none; the message names the field.
    """
    body = load_object(content, "topic statistics")
    queues = queue_table_of(
        body.member("offsetTable"),
        lambda part: QueueBounds(
            part.int64("minOffset"),
            part.int64("maxOffset"),
            part.int64("lastUpdateTimestamp", 0),
        ),
    )
    return TopicStats(queues, _rate(body.raw().get("topicPutTps")))


def consume_stats_json(stats: ConsumeStats) -> dict[str, Any]:
    """A group's progress as JSON values."""
    table = {
        queue: {
            "brokerOffset": progress.broker_offset,
            "consumerOffset": progress.consumer_offset,
            "lastTimestamp": progress.consumed_ms,
            "pullOffset": progress.pull_offset,
        }
        for queue, progress in stats.queues.items()
    }
    return {"consumeTps": float(stats.rate), "offsetTable": queue_table_json(table)}


def encode_consume_stats(stats: ConsumeStats) -> bytes:
    """The body of the answer to 208."""
    return fastjson.dumps(consume_stats_json(stats))


def decode_consume_stats(content: bytes | str) -> ConsumeStats:
    """The progress in such a body.

    Raises:
        CodecError: it is none; the message names the field.
    """
    body = load_object(content, "consume statistics")
    queues = queue_table_of(
        body.member("offsetTable"),
        lambda part: QueueProgress(
            part.int64("brokerOffset"),
            part.int64("consumerOffset"),
            part.int64("pullOffset", 0),
            part.int64("lastTimestamp", 0),
        ),
    )
    return ConsumeStats(queues, _rate(body.raw().get("consumeTps")))


def encode_all_consume_stats(
    address: str, groups: Mapping[str, Iterable[ConsumeStats]]
) -> bytes:
    """The body of the answer to GET_BROKER_CONSUME_STATS 317: each group, each of its topics."""
    listed = {group: list(topics) for group, topics in groups.items()}
    every = [stats for topics in listed.values() for stats in topics]
    return fastjson.dumps(
        {
            "brokerAddr": address,
            "consumeStatsList": [
                {group: [consume_stats_json(stats) for stats in topics]}
                for group, topics in listed.items()
            ],
            "totalDiff": sum(stats.lag for stats in every),
            "totalInflightDiff": sum(
                progress.pull_offset - progress.consumer_offset
                for stats in every
                for progress in stats.queues.values()
            ),
        }
    )


def encode_time_spans(spans: Iterable[TimeSpan]) -> bytes:
    """The body of the answer to QUERY_CONSUME_TIME_SPAN 303."""
    return fastjson.dumps(
        {
            "consumeTimeSpanSet": [
                {
                    "consumeTimeStamp": span.consumed_ms,
                    "consumeTimeStampStr": _time_text(span.consumed_ms),
                    "delayTime": span.delay_ms,
                    "maxTimeStamp": span.max_ms,
                    "maxTimeStampStr": _time_text(span.max_ms),
                    "messageQueue": queue_json(span.queue),
                    "minTimeStamp": span.min_ms,
                    "minTimeStampStr": _time_text(span.min_ms),
                }
                for span in spans
            ]
        }
    )


def encode_group_list(groups: Iterable[str]) -> bytes:
    """The body of the answer to QUERY_TOPIC_CONSUME_BY_WHO 300."""
    return fastjson.dumps({"groupList": sorted(groups)})


def decode_group_list(content: bytes | str) -> tuple[str, ...]:
    """The groups in such a body.

    Raises:
        CodecError: it is none.
    """
    return load_object(content, "group list").texts("groupList")


class StatsWindow(NamedTuple):
    """A number in a window (BrokerStatsItem): how much it grew, and how much a second."""

    sum: int
    per_second: float


def encode_stats_windows(*, minute: StatsWindow, hour: StatsWindow, day: StatsWindow) -> bytes:
    """The body of the answer to VIEW_BROKER_STATS_DATA 315 (BrokerStatsData)."""
    windows = {"statsDay": day, "statsHour": hour, "statsMinute": minute}
    return fastjson.dumps(
        {
            # Of `avgpt`, the messages of a call, nothing is counted.
            name: {"avgpt": 0.0, "sum": window.sum, "tps": window.per_second}
            for name, window in windows.items()
        }
    )


def _time_text(time_ms: int) -> str:
    """As UtilAll.timeMillisToHumanString2 of RocketMQ: local time to the ms."""
    moment = datetime.fromtimestamp(max(time_ms, 0) / 1000).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"


def _rate(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
