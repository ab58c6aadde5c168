"""A stored record as the message that users get: decompressed, with its ids and its first topic.

Next: cometmq.kernel.messages
"""

from collections.abc import Callable

from cometmq.client.namespace import NO_NAMESPACE, Namespace
from cometmq.codec.compression import decompress, plain_flag
from cometmq.codec.host import decode_host
from cometmq.codec.message_id import encode_message_id
from cometmq.codec.properties import decode_properties
from cometmq.codec.record import Record, decode_record
from cometmq.kernel import plain_messages
from cometmq.model import properties as keys_of
from cometmq.model.errors import CodecError
from cometmq.model.message import StoredMessage, make_stored_message
from cometmq.model.names import is_retry_topic
from cometmq.model.queue import MessageQueue


def unpack_all(
    body: bytes,
    queue: MessageQueue,
    *,
    body_size_max: int,
    namespace: Namespace = NO_NAMESPACE,
    on_unreadable: Callable[[Record, CodecError], None] | None = None,
) -> list[StoredMessage]:
    """The messages of all records of an answer, as `unpack` gives each, in their order.

    Most records are plain, and these are taken together.

    Args:
        body: records, one behind the other.
        queue: where they were pulled from.
        body_size_max: of each body after decompression, bytes.
        namespace: what users do not see of the topic.
        on_unreadable: told of a record whose body or properties cannot be read, and why; it is left
            out then. None: that is an error.

    Raises:
        CodecError: something else than whole records stands in it, or one cannot be read.
    """
    body = bytes(body)  # No copy if it is bytes already.
    messages: list[StoredMessage] = []
    # In a retry topic each message may come from another one.
    are_plain = namespace is NO_NAMESPACE and not is_retry_topic(queue.topic)
    topic = queue.topic.encode()
    position = 0
    while True:
        if are_plain:
            position = plain_messages(
                body, position, queue, topic, make_stored_message, decode_host, messages
            )
        if position == len(body):
            return messages
        record = decode_record(body, position)
        position += record.store_size
        try:
            message = unpack(record, queue, body_size_max=body_size_max, namespace=namespace)
        except CodecError as error:
            if on_unreadable is None:
                raise
            on_unreadable(record, error)
        else:
            messages.append(message)


def unpack(
    record: Record,
    queue: MessageQueue,
    *,
    body_size_max: int,
    namespace: Namespace = NO_NAMESPACE,
) -> StoredMessage:
    """The message of a record.

    A message that comes back for a retry lies in the group's retry topic; it is given with the
    topic that it was sent to, as RocketMQ's clients do.

    Args:
        record: as pulled.
        queue: where it was pulled from.
        body_size_max: of the body after decompression, bytes.
        namespace: what users do not see of the topic.

    Raises:
        CodecError: its body or properties cannot be read.
    """
    properties = decode_properties(record.property_block)
    first_topic = properties.get(keys_of.RETRY_TOPIC)
    if first_topic and is_retry_topic(queue.topic):
        queue = MessageQueue(first_topic, queue.broker_name, queue.queue_id)
    if namespace is not NO_NAMESPACE:
        topic = namespace.unwrap(queue.topic)
        queue = MessageQueue(topic, queue.broker_name, queue.queue_id)
    offset_message_id = encode_message_id(record.store_host, record.physical_offset)
    body, sys_flag = record.body, record.sys_flag
    if sys_flag:
        body = decompress(body, sys_flag, limit=body_size_max)
        sys_flag = plain_flag(sys_flag)
    return make_stored_message(
        queue,
        record.queue_offset,
        properties.get(keys_of.UNIQ_KEY) or offset_message_id,
        offset_message_id,
        body,
        properties,
        record.born_timestamp,
        decode_host(record.born_host),
        record.store_timestamp,
        decode_host(record.store_host),
        record.flag,
        sys_flag,
        record.reconsume_times,
        record.physical_offset,
        record.store_size,
        record.body_crc,
        record.prepared_offset,
    )
