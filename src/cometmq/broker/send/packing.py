"""Turns an admitted send into the records that the store appends: one, or those of a batch.

Follows SendMessageProcessor and MessageExtEncoder of RocketMQ 5.3.3: the broker's properties follow the message's own. In
a batch, an item's properties come first, then those of the batch.
"""

from typing import NamedTuple

from cometmq.broker.inner.reroute import RoutedSend
from cometmq.broker.settings.broker_settings import BrokerSettings
from cometmq.broker.tables.lanes import Lane
from cometmq.codec.batch import decode_batch
from cometmq.codec.message_id import UniqueIds
from cometmq.codec.properties import PROPERTIES_SIZE_MAX, decode_properties, join_blocks
from cometmq.model import properties as keys_of
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import CodecError, RequestError
from cometmq.model.java_hash import java_hash
from cometmq.model.names import RETRY_PREFIX, TOPIC_LENGTH_MAX
from cometmq.store.appender import Put

# Properties that request delayed delivery; a batch cannot have them.
_DELAYS = (
    keys_of.DELAY, keys_of.TIMER_DELAY_SEC, keys_of.TIMER_DELAY_MS, keys_of.TIMER_DELIVER_MS,
)  # fmt: skip


class Origin(NamedTuple):
    """The values that all records of one send share.

    Attributes:
        sent: Topic, queue and properties.
        lane: The open queue that is written to.
        flag: The user's flag.
        born_ms: When the client created the message, epoch ms.
        born_host: The client's host, 8 or 20 bytes.
        reconsume_times: How often consumption has failed so far.
    """

    sent: RoutedSend
    lane: Lane
    flag: int
    born_ms: int
    born_host: bytes
    reconsume_times: int


class Packing:
    """An encoder from message bodies to records.

    Attributes:
        property_suffix: The properties that the broker adds to each message, encoded.
        body_size_max: Largest allowed body in bytes (maxMessageSize).
    """

    def __init__(self, settings: BrokerSettings, unique_ids: UniqueIds) -> None:
        self.body_size_max = settings.body_size_max
        self.property_suffix = "".join(
            f"{name}\1{value}\2"
            for name, value in (
                (keys_of.MSG_REGION, settings.region_id),
                (keys_of.CLUSTER, settings.cluster_name),
                (keys_of.TRACE_ON, "true" if settings.is_trace_on else "false"),
            )
        )
        self._suffix = self.property_suffix.encode()
        self._unique_ids = unique_ids

    def single(self, body: bytes, origin: Origin) -> Put:
        """Return the record of a single message; a message without a unique key gets one.

        Raises:
            RequestError: The size of the body or of the properties is not allowed.
        """
        self._check_body(body, "message body size")
        properties = origin.sent.properties
        if keys_of.UNIQ_KEY not in properties:
            properties[keys_of.UNIQ_KEY] = self._unique_ids.next_id()
        block = "".join([f"{name}\1{value}\2" for name, value in properties.items()]).encode()
        joined = join_blocks(block, self._suffix)
        return _pack(body, origin.flag, joined, properties.get(keys_of.TAGS), origin)

    def batch(self, body: bytes, origin: Origin) -> list[Put]:
        """Return the records of a batch of messages.

        Raises:
            RequestError, CodecError: As for `single`, or the batch or properties of its messages cannot be decoded, its
                topic allows no batches, or a message has a delay.
        """
        topic, properties = origin.sent.born_topic, origin.sent.properties
        if len(topic) > TOPIC_LENGTH_MAX or topic.startswith(RETRY_PREFIX):
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL, f"batch request does not support topic {topic}"
            )
        self._check_body(body, "batch size")
        try:
            items = decode_batch(body)
        except CodecError as error:
            raise RequestError(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        # Follows RocketMQ: a batch without a unique id gets none, because it would hide the ids of its items.
        shared = "".join(f"{name}\1{value}\2" for name, value in properties.items())
        block = shared.encode() + self._suffix
        puts = []
        for item in items:
            own = decode_properties(item.property_block)
            _refuse_delay(own)
            tag = properties.get(keys_of.TAGS, own.get(keys_of.TAGS))
            joined = join_blocks(item.property_block, block)
            puts.append(_pack(item.body, item.flag, joined, tag, origin))
        return puts

    def _check_body(self, body: bytes, what: str) -> None:
        if not body:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL, "message body is empty; send at least one byte"
            )
        if len(body) > self.body_size_max:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"{what} {len(body)} exceeds {self.body_size_max} (maxMessageSize)",
            )


def _refuse_delay(own: dict[str, str]) -> None:
    # RocketMQ's client refuses such a batch; its broker would silently deliver without delay.
    for name in _DELAYS:
        if own.get(name, "0") != "0":
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the property {name} requests delayed delivery, which a message of a batch "
                "cannot have; send the message alone",
            )


def _pack(body: bytes, flag: int, block: bytes, tag: str | None, origin: Origin) -> Put:
    if len(block) > PROPERTIES_SIZE_MAX:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            f"message properties length {len(block)} exceeds {PROPERTIES_SIZE_MAX}",
        )
    sent, lane = origin.sent, origin.lane
    return (
        lane.queue, lane.topic_block, body, block,
        None if sent.is_due_coded else java_hash(tag) if tag else 0,
        flag, sent.sys_flag | lane.sys_flag, origin.born_ms, origin.born_host,
        origin.reconsume_times, 0, sent.transaction,
    )  # fmt: skip
