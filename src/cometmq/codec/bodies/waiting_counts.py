"""Number of waiting messages by topic: files timermetrics and transactionMetrics, answer to GET_TIMER_METRICS 61.

Source: TimerMetrics and TransactionMetrics of RocketMQ 5.3.3; docs/format/waiting-counts.md.
"""

from collections.abc import Mapping
from dataclasses import field

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import load_object
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
    counts = {
        topic: {"count": count, "timeStamp": changed_ms}
        for topic, (count, changed_ms) in table.counts.items()
    }
    return fastjson.dumps({"dataVersion": table.version.to_json(), member: counts}).decode()


def decode_waiting(text: str, member: str) -> WaitingTable:
    """Decode JSON text to a table of waiting messages, with the counts of its field `member`, TIMER or TRANSACTION.

    Raises CodecError if it is malformed.
    """
    body = load_object(text, member)
    part = body.member(member)
    counts = {}
    for topic in part.names():
        of = part.member(topic)
        counts[topic] = (of.int64("count", 0), of.int64("timeStamp", 0))
    return WaitingTable(body.version("dataVersion"), counts)
