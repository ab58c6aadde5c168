"""Statistics of a broker: queues (202) and groups (300) of a topic, a group's progress (208, 317) and times (303), counters (315).

Source: TopicStatsTable, ConsumeStats, OffsetWrapper, QueryConsumeTimeSpanBody and GroupList of RocketMQ 5.3.3. Offsets
are those of queues. Most times are ms since 1970, 0 or -1 without a message.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from datetime import datetime
from typing import NamedTuple

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.codec.bodies.members import JsonMember, JsonMembers
from cometmq.codec.bodies.queue_table import (
    QUEUE,
    load_queue_tables,
    queue_table_json,
    queue_table_of,
    queue_table_text,
)
from cometmq.model.frozen import dataclass
from cometmq.model.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class QueueBounds:
    """The bounds of a queue.

    Attributes:
        min_offset: Queue offset of the oldest message.
        max_offset: Queue offset of the next message.
        updated_ms: When the last message was stored, ms since 1970; 0 if there is none or it is unknown.
    """

    min_offset: int
    max_offset: int
    updated_ms: int = 0

    @property
    def message_count(self) -> int:
        """The number of messages in the queue, if no offset is missing."""
        return self.max_offset - self.min_offset


@dataclass(frozen=True, slots=True)
class TopicStats:
    """The queues of a topic on one broker, and the messages recently stored per second."""

    queues: Mapping[MessageQueue, QueueBounds] = field(default_factory=dict)
    put_rate: float = 0.0


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """The progress of a group in a queue.

    Attributes:
        broker_offset: Queue offset of the next message to be stored.
        consumer_offset: Next queue offset that the group will consume; an estimate if the group pops.
        pull_offset: Next queue offset to pull or pop, as far as the broker knows it; 0 if not reported.
        consumed_ms: Store time of the message before `consumer_offset`, ms since 1970; 0 if there is none or it is unknown.
        is_committed: Whether the group has committed an offset; True if not reported. If False, `consumer_offset` is usually its start.
        oldest_ms: Store time of the first message that the group has not consumed, ms since 1970; 0 without one, or if unknown.
    """

    broker_offset: int
    consumer_offset: int
    pull_offset: int = 0
    consumed_ms: int = 0
    is_committed: bool = True
    oldest_ms: int = 0

    @property
    def lag(self) -> int:
        """Number of offsets from `consumer_offset` to the end of the queue; 0 if that is beyond the end."""
        return max(self.broker_offset - self.consumer_offset, 0)


@dataclass(frozen=True, slots=True)
class ConsumeStats:
    """The progress of a group in some queues, and the messages consumed per second."""

    queues: Mapping[MessageQueue, QueueProgress] = field(default_factory=dict)
    rate: float = 0.0

    @property
    def lag(self) -> int:
        """Sum of the `lag` of these queues, in queue offsets."""
        return sum(progress.lag for progress in self.queues.values())


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """The progress of a group in a queue, as times.

    Attributes:
        min_ms: Store time of the oldest message, ms since 1970; -1 without one.
        max_ms: Store time of the newest message, ms since 1970; -1 without one.
        consumed_ms: Store time of the message before the group's next one, ms since 1970; `min_ms` or -1 if the broker
            does not have it.
        delay_ms: Age of the next message to be consumed, ms; 0 if there is none.
    """

    queue: MessageQueue
    min_ms: int
    max_ms: int
    consumed_ms: int
    delay_ms: int


_BOUNDS = JsonMembers(
    QueueBounds,
    JsonMember("lastUpdateTimestamp", "updated_ms", JsonObject.int64, 0),
    JsonMember("maxOffset", "max_offset", JsonObject.int64),
    JsonMember("minOffset", "min_offset", JsonObject.int64),
)


def encode_topic_stats(stats: TopicStats) -> bytes:
    """Encode the body of the answer to GET_TOPIC_STATS_INFO 202 in fastjson's form, with objects as keys."""
    table = {queue: _BOUNDS.to_json(bounds) for queue, bounds in stats.queues.items()}
    return fastjson.dumps(
        {"offsetTable": queue_table_json(table), "topicPutTps": float(stats.put_rate)}
    )


def decode_topic_stats(content: bytes | str) -> TopicStats:
    """Decode the answer to GET_TOPIC_STATS_INFO 202. Raises CodecError if it is malformed."""
    body = load_queue_tables(content, "topic statistics")
    queues = queue_table_of(body.member("offsetTable"), _BOUNDS.of)
    return TopicStats(queues, body.rate("topicPutTps"))


def encode_consume_stats(stats: ConsumeStats) -> bytes:
    """Encode the body of the answer to GET_CONSUME_STATS 208 in fastjson's form, with objects as keys."""
    return _consume_stats_text(stats).encode()


def _consume_stats_text(stats: ConsumeStats) -> str:
    rate = fastjson.dumps(float(stats.rate)).decode()
    return f'{{"consumeTps":{rate},"offsetTable":{queue_table_text(stats.queues, _progress_text)}}}'


def _progress_text(progress: QueueProgress) -> str:
    # Two fields are ours alone; Java's tools ignore unknown ones.
    own = "" if progress.is_committed else '"committed":false,'
    oldest = f'"oldestTimestamp":{progress.oldest_ms},' if progress.oldest_ms else ""
    return (
        f'{{"brokerOffset":{progress.broker_offset},{own}"consumerOffset":{progress.consumer_offset}'
        f',"lastTimestamp":{progress.consumed_ms},{oldest}"pullOffset":{progress.pull_offset}}}'
    )


def decode_consume_stats(content: bytes | str) -> ConsumeStats:
    """Decode the answer to GET_CONSUME_STATS 208. Raises CodecError if it is malformed."""
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
            part.int64("oldestTimestamp", 0),
        ),
    )
    return ConsumeStats(queues, body.rate("consumeTps"))


def encode_all_consume_stats(
    address: str, groups: Mapping[str, Iterable[ConsumeStats]]
) -> bytes:
    """Encode the body of the answer to GET_BROKER_CONSUME_STATS 317 in fastjson's form, with objects as keys.

    The body contains the statistics of each group, one part per topic.
    """
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
    """Decode the body of the answer to GET_BROKER_CONSUME_STATS 317 to each group's statistics, one part per topic.

    Raises CodecError if it is malformed.
    """
    body = load_queue_tables(content, "consume statistics of a broker")
    return {
        str(group): tuple(_consume_stats(topic) for topic in part.objects(group))
        for part in body.objects("consumeStatsList")
        for group in part.names()
    }


def encode_time_spans(spans: Iterable[TimeSpan]) -> bytes:
    """Encode the JSON body of the answer to QUERY_CONSUME_TIME_SPAN 303."""
    return fastjson.dumps(
        {
            "consumeTimeSpanSet": [
                {
                    "consumeTimeStamp": span.consumed_ms,
                    "consumeTimeStampStr": _time_text(span.consumed_ms),
                    "delayTime": span.delay_ms,
                    "maxTimeStamp": span.max_ms,
                    "maxTimeStampStr": _time_text(span.max_ms),
                    "messageQueue": QUEUE.to_json(span.queue),
                    "minTimeStamp": span.min_ms,
                    "minTimeStampStr": _time_text(span.min_ms),
                }
                for span in spans
            ]
        }
    )


def encode_group_list(groups: Iterable[str]) -> bytes:
    """Encode the JSON body of the answer to QUERY_TOPIC_CONSUME_BY_WHO 300."""
    return fastjson.dumps({"groupList": sorted(groups)})


def decode_group_list(content: bytes | str) -> tuple[str, ...]:
    """Decode the JSON body of the answer to QUERY_TOPIC_CONSUME_BY_WHO 300. Raises CodecError if it is malformed."""
    return load_object(content, "group list").texts("groupList")


class StatsWindow(NamedTuple):
    """A counter in a time window (BrokerStatsItem): its growth, growth per second, and growth per event."""

    sum: int
    per_second: float
    each: float = 0.0


def encode_stats_windows(*, minute: StatsWindow, hour: StatsWindow, day: StatsWindow) -> bytes:
    """Encode the JSON body of the answer to VIEW_BROKER_STATS_DATA 315 (BrokerStatsData)."""
    windows = {"statsDay": day, "statsHour": hour, "statsMinute": minute}
    return fastjson.dumps(
        {
            name: {"avgpt": window.each, "sum": window.sum, "tps": window.per_second}
            for name, window in windows.items()
        }
    )


@dataclass(frozen=True, slots=True)
class StatsWindows:
    """A counter of a broker in three time windows."""

    minute: StatsWindow
    hour: StatsWindow
    day: StatsWindow


def decode_stats_windows(content: bytes | str) -> StatsWindows:
    """Decode the JSON body of the answer to VIEW_BROKER_STATS_DATA 315 without the growth per event, which stays 0.

    Raises CodecError if it is malformed.
    """
    body = load_object(content, "broker statistics")

    def window(name: str) -> StatsWindow:
        part = body.member(name)
        return StatsWindow(part.int64("sum", 0), part.rate("tps"))

    return StatsWindows(window("statsMinute"), window("statsHour"), window("statsDay"))


def _time_text(time_ms: int) -> str:
    """Format a time as RocketMQ's UtilAll.timeMillisToHumanString2: local time with ms."""
    moment = datetime.fromtimestamp(max(time_ms, 0) / 1000).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S},{moment.microsecond // 1000:03d}"
