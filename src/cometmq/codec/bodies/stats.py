"""Statistics of a broker: of a topic (202), of a group's progress (208), and their times (303).

Source: TopicStatsTable, ConsumeStats, OffsetWrapper, QueryConsumeTimeSpanBody and GroupList of
RocketMQ 5.3.3. Offsets count messages; times are ms since 1970, 0 or -1 where there is no message.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import NamedTuple

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.bodies.queue_table import (
    load_queue_tables,
    queue_json,
    queue_table_json,
    queue_table_of,
    queue_table_text,
)
from cometmq.model.frozen import dataclass
from cometmq.model.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """The smallest and the next offset of a queue, and the time of its last message.

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
    """The progress of a group in a queue.

    Attributes:
        broker_offset: what the next message of the queue gets.
        consumer_offset: the next that the group consumes.
        pull_offset: the next that it pulls.
        consumed_ms: store time of the last message it consumed; 0 without one.
        is_committed: Whether the group has committed an offset. If not, `consumer_offset` is where it would begin.
    """

    broker_offset: int
    consumer_offset: int
    pull_offset: int = 0
    consumed_ms: int = 0
    is_committed: bool = True

    @property
    def lag(self) -> int:
        """Messages that are not consumed yet."""
        return max(self.broker_offset - self.consumer_offset, 0)


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
    """The progress of a group in a queue, told in times.

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
    body = load_queue_tables(content, "topic statistics")
    queues = queue_table_of(
        body.member("offsetTable"),
        lambda part: QueueBounds(
            part.int64("minOffset"),
            part.int64("maxOffset"),
            part.int64("lastUpdateTimestamp", 0),
        ),
    )
    return TopicStats(queues, _rate(body.raw().get("topicPutTps")))


def encode_consume_stats(stats: ConsumeStats) -> bytes:
    """The body of the answer to 208."""
    return _consume_stats_text(stats).encode()


def _consume_stats_text(stats: ConsumeStats) -> str:
    """A group's progress as JSON."""
    rate = fastjson.dumps(float(stats.rate)).decode()
    return f'{{"consumeTps":{rate},"offsetTable":{queue_table_text(stats.queues, _progress_text)}}}'


def _progress_text(progress: QueueProgress) -> str:
    own = "" if progress.is_committed else '"committed":false,'
    return (
        f'{{"brokerOffset":{progress.broker_offset},{own}"consumerOffset":{progress.consumer_offset}'
        f',"lastTimestamp":{progress.consumed_ms},"pullOffset":{progress.pull_offset}}}'
    )


def decode_consume_stats(content: bytes | str) -> ConsumeStats:
    """The progress in such a body.

    Raises:
        CodecError: it is none; the message names the field.
    """
    return _consume_stats(load_queue_tables(content, "consume statistics"))


def _consume_stats(body: JsonObject) -> ConsumeStats:
    queues = queue_table_of(
        body.member("offsetTable"),
        lambda part: QueueProgress(
            part.int64("brokerOffset"),
            part.int64("consumerOffset"),
            part.int64("pullOffset", 0),
            part.int64("lastTimestamp", 0),
            part.raw().get("committed") is not False,
        ),
    )
    return ConsumeStats(queues, _rate(body.raw().get("consumeTps")))


def encode_all_consume_stats(
    address: str, groups: Mapping[str, Iterable[ConsumeStats]]
) -> bytes:
    """The body of the answer to GET_BROKER_CONSUME_STATS 317: each group, each of its topics."""
    parts, lag, in_flight = [], 0, 0
    for group, topics in groups.items():
        listed = list(topics)
        name = fastjson.dumps(group).decode()
        parts.append(f"{{{name}:[{','.join(map(_consume_stats_text, listed))}]}}")
        for stats in listed:
            lag += stats.lag
            in_flight += sum(
                each.pull_offset - each.consumer_offset for each in stats.queues.values()
            )
    return (
        f'{{"brokerAddr":{fastjson.dumps(address).decode()},"consumeStatsList":[{",".join(parts)}]'
        f',"totalDiff":{lag},"totalInflightDiff":{in_flight}}}'
    ).encode()


def decode_all_consume_stats(content: bytes | str) -> dict[str, tuple[ConsumeStats, ...]]:
    """The progress of every group in such a body: one part for each of its topics.

    Raises:
        CodecError: it is none; the message names the field.
    """
    body = load_queue_tables(content, "consume statistics of a broker")
    return {
        str(group): tuple(_consume_stats(topic) for topic in part.objects(group))
        for part in body.objects("consumeStatsList")
        for group in part.names()
    }


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
    """A number in a window (BrokerStatsItem): how much it grew, how much a second, and how much each time."""

    sum: int
    per_second: float
    each: float = 0.0


def encode_stats_windows(*, minute: StatsWindow, hour: StatsWindow, day: StatsWindow) -> bytes:
    """The body of the answer to VIEW_BROKER_STATS_DATA 315 (BrokerStatsData)."""
    windows = {"statsDay": day, "statsHour": hour, "statsMinute": minute}
    return fastjson.dumps(
        {
            name: {"avgpt": window.each, "sum": window.sum, "tps": window.per_second}
            for name, window in windows.items()
        }
    )


@dataclass(frozen=True, slots=True)
class StatsWindows:
    """A number of a broker in its three windows."""

    minute: StatsWindow
    hour: StatsWindow
    day: StatsWindow


def decode_stats_windows(content: bytes | str) -> StatsWindows:
    """The number in the body of an answer to 315.

    Raises:
        CodecError: it is none; the message names the field.
    """
    body = load_object(content, "broker statistics")

    def window(name: str) -> StatsWindow:
        part = body.member(name)
        return StatsWindow(part.int64("sum", 0), _rate(part.raw().get("tps")))

    return StatsWindows(window("statsMinute"), window("statsHour"), window("statsDay"))


def _time_text(time_ms: int) -> str:
    """A time as UtilAll.timeMillisToHumanString2 of RocketMQ writes it: local time to the ms."""
    moment = datetime.fromtimestamp(max(time_ms, 0) / 1000).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"


def _rate(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
