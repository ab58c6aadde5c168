"""Number of waiting messages by topic: files timermetrics and transactionMetrics, answer to GET_TIMER_METRICS 61.

Source: TimerMetrics and TransactionMetrics of RocketMQ 5.3.3; docs/format/waiting-counts.md.
"""

from collections.abc import Mapping
from dataclasses import field

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.model.data_version import DataVersion
from cometmq.model.frozen import dataclass

TIMER, TRANSACTION = "timingCount", "transactionCount"


@dataclass(frozen=True, slots=True)
class WaitingTable:
    """The number of waiting messages of each topic and when it last changed, ms since 1970; and the table's version."""

    version: DataVersion
    counts: Mapping[str, tuple[int, int]] = field(default_factory=dict)


def encode_waiting(table: WaitingTable, member: str) -> str:
    """Encode a table of waiting messages as JSON text; its field `member`, TIMER or TRANSACTION, has the counts."""
    counts = {topic: waiting_count_json(count) for topic, count in table.counts.items()}
    return fastjson.dumps({"dataVersion": table.version.to_json(), member: counts}).decode()


def decode_waiting(text: str, member: str) -> WaitingTable:
    """Decode JSON text to a table of waiting messages, with the counts of its field `member`, TIMER or TRANSACTION.

    Raises CodecError if it is malformed.
    """
    body = load_object(text, member)
    part = body.member(member)
    counts = {topic: waiting_count(part, topic) for topic in part.names()}
    return WaitingTable(body.version("dataVersion"), counts)


def waiting_count_json(count: tuple[int, int]) -> dict[str, int]:
    """Convert the number of a topic's waiting messages, and when it changed (ms since 1970), to a dict of JSON values."""
    return {"count": count[0], "timeStamp": count[1]}


def waiting_count(part: JsonObject, topic: str) -> tuple[int, int]:
    """Decode what `waiting_count_json` returned from the field of a topic. Raises CodecError if it is malformed."""
    of = part.member(topic)
    return of.int64("count", 0), of.int64("timeStamp", 0)
