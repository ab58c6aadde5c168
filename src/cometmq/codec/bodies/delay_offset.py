"""The delivered offset of each delay level: delayOffset.json, and the answer to GET_ALL_DELAY_OFFSET 45.

Source: ScheduleMessageService and DelayOffsetSerializeWrapper of RocketMQ 5.3.3. An offset is the next one to deliver
in the level's queue. 4.9 writes the offset table only.
"""

from collections.abc import Mapping
from dataclasses import field

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import JsonObject, load_object
from cometmq.model.data_version import DataVersion
from cometmq.model.frozen import dataclass


@dataclass(frozen=True, slots=True)
class DelayOffsets:
    """The progress of delayed delivery: the next queue offset to deliver, by delay level."""

    version: DataVersion
    offsets: Mapping[int, int] = field(default_factory=dict)


def encode_delay_offsets(table: DelayOffsets) -> str:
    """Encode the delivered offsets of delay levels as the text of delayOffset.json."""
    return fastjson.dumps(
        {"dataVersion": table.version.to_json(), "offsetTable": dict(table.offsets)},
        pretty=True,
    ).decode()


def decode_delay_offsets(text: bytes | str) -> DelayOffsets:
    """Decode the delivered offsets of delay levels. Raises CodecError if the content is malformed."""
    body = load_object(text, "delay offsets")
    return DelayOffsets(
        body.version("dataVersion"), body.numbered("offsetTable", JsonObject.int64)
    )
