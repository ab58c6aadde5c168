"""The forms of a half message, as stored, checked and committed, and the ops that mark its end.

Follows TransactionalMessageBridge, EndTransactionProcessor and DefaultTransactionalMessageCheckListener of RocketMQ 5.3.3.
"""

from typing import NamedTuple

from cometmq.broker.inner.puts import InnerMessage
from cometmq.broker.inner.reroute import RoutedSend
from cometmq.codec.properties import encode_properties
from cometmq.codec.record import HOST_BITS, Record, encode_record
from cometmq.model import properties as keys_of
from cometmq.model.bounded_cache import keep_short
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.model.flags import TRANSACTION_COMMIT, TRANSACTION_MASK
from cometmq.model.names import DLQ_PREFIX, GROUP_LENGTH_MAX, RETRY_PREFIX
from cometmq.model.numbers import whole_number
from cometmq.model.topic import TopicConfig

_new_tuple = tuple.__new__
# Properties that request delayed delivery.
_DELAYS = (
    keys_of.DELAY, keys_of.TIMER_DELAY_SEC, keys_of.TIMER_DELAY_MS, keys_of.TIMER_DELIVER_MS,
)  # fmt: skip
# Properties that only the broker writes and trusts, about its checks.
_OF_THE_BROKER = (keys_of.TRAN_PREPARED_QUEUE_OFFSET, keys_of.TRANSACTION_CHECK_TIMES)
# Limit in characters for a key and for a group, because open transactions are kept in memory.
_NAME_MAX = GROUP_LENGTH_MAX
REMOVE_TAG = "d"  # TransactionalMessageUtil.REMOVE_TAG: marks half messages that have ended.
# Approximate size limit of an op's body in bytes (transactionOpMsgMaxSize of BrokerConfig).
_OP_SIZE_MAX = 4096


class TransactionKey(NamedTuple):
    """The identity of a transaction, which all copies of its half message share if it has a unique key.

    Without a unique key, `message_id` is the physical offset, and each copy that is read has another identity.
    """

    message_id: str
    producer_group: str
    topic: str

    def __str__(self) -> str:
        return f"transaction {self.message_id} of producer group {self.producer_group} for topic {self.topic}"


def is_half(sent: RoutedSend) -> bool:
    """Return whether a send opens a transaction; one to a retry or dead-letter topic does not."""
    is_marked = sent.properties.get(keys_of.TRAN_MSG, "").lower() == "true"
    return is_marked and not sent.born_topic.startswith((RETRY_PREFIX, DLQ_PREFIX))


def as_half(sent: RoutedSend, half_topic: TopicConfig) -> RoutedSend:
    """Return the send as it is stored in the half topic.

    Raises:
        RequestError: The send is a batch, has a delay, or its key or group is too long.
    """
    if sent.is_batch:
        raise RequestError(
            ResponseCode.MESSAGE_ILLEGAL,
            "a batch cannot be part of a transaction; send each message alone",
        )
    for name in _DELAYS:
        if sent.properties.get(name, "0") != "0":
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the property {name} requests delayed delivery, which a transactional message "
                "cannot have; remove the property",
            )
    for name in (keys_of.UNIQ_KEY, keys_of.PRODUCER_GROUP):
        size = len(sent.properties.get(name, ""))
        if size > _NAME_MAX:
            raise RequestError(
                ResponseCode.MESSAGE_ILLEGAL,
                f"the property {name} of a transactional message has {size} characters; at most {_NAME_MAX} are allowed",
            )
    properties = {
        name: text for name, text in sent.properties.items() if name not in _OF_THE_BROKER
    }
    message_id = properties.get(keys_of.UNIQ_KEY)
    if message_id:
        properties[keys_of.TRANSACTION_ID] = message_id
    properties[keys_of.REAL_TOPIC] = sent.topic.name
    properties[keys_of.REAL_QID] = str(sent.queue_id)
    # Cleared, because a half message has an entry in the half queue.
    return sent._replace(
        topic=half_topic,
        queue_id=0,
        properties=properties,
        sys_flag=sent.sys_flag & ~TRANSACTION_MASK,
        transaction=0,
    )


@keep_short(4096, length_max=255)
def _shared(name: str) -> str:
    """Return the same object for equal names if it is cached, because few groups and topics have many transactions."""
    return name


def key_of(record: Record, properties: dict[str, str]) -> TransactionKey:
    """Return the key of a half message's transaction: its unique id, producer group and real topic.

    Without a unique id, the record's physical offset replaces it.
    """
    return _new_tuple(TransactionKey, (
        properties.get(keys_of.UNIQ_KEY) or str(record.physical_offset),
        _shared(properties.get(keys_of.PRODUCER_GROUP, "")),
        _shared(properties.get(keys_of.REAL_TOPIC, "")),
    ))  # fmt: skip


def number_of(properties: dict[str, str], name: str) -> int | None:
    """Return a numeric property; None if it is missing, negative, longer than 18 digits, or not a number."""
    text = properties.get(name)
    return None if text is None else whole_number(text)


def committed(
    record: Record, properties: dict[str, str], topic: TopicConfig, queue_id: int
) -> InnerMessage:
    """Return the committed message of a half message. As in RocketMQ, it keeps all properties."""
    # Takes a third of the time of `InnerMessage(...)`, once for each message.
    return _new_tuple(InnerMessage, (
        topic, queue_id, record.body, properties, record.born_timestamp, record.born_host, record.flag,
        record.sys_flag & ~(HOST_BITS | TRANSACTION_MASK) | TRANSACTION_COMMIT, record.reconsume_times,
        record.physical_offset, TRANSACTION_COMMIT, False, record.property_block, record,
    ))  # fmt: skip


def as_asked(record: Record, properties: dict[str, str]) -> bytes:
    """Return the record of a half message as it is sent to a producer to check it, with its real topic and queue."""
    asked = record._replace(
        topic=properties.get(keys_of.REAL_TOPIC, ""),
        queue_id=number_of(properties, keys_of.REAL_QID) or 0,
        property_block=encode_properties(properties),
    )
    return encode_record(asked)


def encode_op(offsets: list[int]) -> bytes:
    """Encode the body of an op, half offsets as `5` or `5,6,9,` (RocketMQ 4.9 only reads the first form)."""
    if len(offsets) == 1:
        return b"%d" % offsets[0]
    return b"".join(b"%d," % offset for offset in offsets)


def decode_op(body: bytes) -> list[int]:
    """Decode the half offsets of an op, of 4.9 or 5.x; anything but numbers is ignored."""
    return [int(part) for part in body.split(b",") if part.isdigit()]


def ops(
    offsets: list[int], topic: TopicConfig, *, now_ms: int, host: bytes
) -> list[InnerMessage]:
    """Return the op messages that mark these half offsets as ended; `host` is the broker's, as records store it."""
    messages = []
    step = _OP_SIZE_MAX // 20  # Length of the largest offset with its comma.
    for start in range(0, len(offsets), step):
        body = encode_op(offsets[start : start + step])
        messages.append(
            InnerMessage(
                topic, 0, body, {keys_of.TAGS: REMOVE_TAG}, born_ms=now_ms, born_host=host
            )
        )
    return messages
