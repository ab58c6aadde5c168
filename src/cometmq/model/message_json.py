"""The JSON of a stored message, as commands and the dashboard show it."""

from cometmq.model.message import StoredMessage


def message_json(message: StoredMessage) -> dict[str, object]:
    """Return a message as a dict of JSON values; a body that is not UTF-8 is hexadecimal, in `bodyHex`."""
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"bodyHex": message.body.hex()}
    return {
        "topic": message.topic,
        "broker": message.queue.broker_name,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "id": message.message_id,
        "offsetId": message.offset_message_id,
        "tag": message.tag,
        "keys": list(message.keys),
        "properties": message.user_properties,
        "bornMs": message.born_ms,
        "storedMs": message.stored_ms,
        "reconsumeTimes": message.reconsume_times,
        **body,
    }
