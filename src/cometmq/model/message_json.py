"""The JSON of a stored message, as commands and the dashboard show it."""

from collections.abc import Mapping
from typing import NamedTuple

from cometmq.model.message import StoredMessage


class MessageLine(NamedTuple):
    """The JSON of a stored message.

    Attributes:
        topic: Its topic.
        broker: Broker of its queue.
        queue: Queue id.
        offset: Offset in the queue.
        id: Message id that its producer gave it.
        offset_id: Id by which a broker finds it.
        tag: Its tag.
        keys: Its keys.
        properties: Properties that its producer's user set.
        born_ms: Time when it was made, ms since 1970.
        stored_ms: Time when it was stored, ms since 1970.
        reconsume_times: Number of redeliveries.
        body: Its body; if it is not UTF-8, the field is named body_hex and is hexadecimal.
    """

    topic: str
    broker: str
    queue: int
    offset: int
    id: str
    offset_id: str
    tag: str | None
    keys: list[str]
    properties: Mapping[str, str]
    born_ms: int
    stored_ms: int
    reconsume_times: int
    body: str


def message_json(message: StoredMessage) -> dict[str, object]:
    """Return a message as a dict of JSON values; a body that is not UTF-8 is hexadecimal, in `body_hex`."""
    try:
        name, body = "body", message.body.decode()
    except UnicodeDecodeError:
        name, body = "body_hex", message.body.hex()
    line = MessageLine(
        message.topic,
        message.queue.broker_name,
        message.queue.queue_id,
        message.queue_offset,
        message.message_id,
        message.offset_message_id,
        message.tag,
        list(message.keys),
        message.user_properties,
        message.born_ms,
        message.stored_ms,
        message.reconsume_times,
        body,
    )
    fields: dict[str, object] = line._asdict()
    fields[name] = fields.pop("body")
    return fields
