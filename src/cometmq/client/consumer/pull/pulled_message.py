"""A pulled message that decodes most of its record only when an attribute is accessed.

A consumer may pull many thousands of messages a second, of which a listener accesses few attributes. A message is
therefore created with only its body, queue and offset. Its properties are decoded on first access, also for its id if
they contain it, and all other attributes together, which makes the message an ordinary `StoredMessage`.
"""

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, cast

from cometmq.codec.host import decode_host
from cometmq.codec.message_id import encode_message_id
from cometmq.kernel import plain_properties
from cometmq.kernel.messages import record_parts
from cometmq.model import properties as keys_of
from cometmq.model.message import StoredMessage

_AT_ONCE = ("queue", "queue_offset", "body")  # Attributes that are set from the start.
# Slots of the attributes, bypassing immutability and decoding on access.
_record_of = attrgetter("_record")
_PLACES: dict[str, Any] = {name: vars(StoredMessage)[name] for name in StoredMessage.__slots__}


class PulledMessage(StoredMessage):
    """A message of which only body, queue and offset are decoded, until another attribute is accessed."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return _read(self) == other

    def __hash__(self) -> int:
        return hash(_read(self))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _read(self).__reduce_ex__(protocol)


def _properties(message: StoredMessage) -> Mapping[str, str]:
    record = _record_of(
        message
    )  # Read first: a thread that clears it has set the properties before.
    try:
        return cast("Mapping[str, str]", _PLACES["properties"].__get__(message))
    except AttributeError:
        _, block = record_parts(record)
        properties = plain_properties(block)
        assert properties is not None, "looked at when it came"
        _PLACES["properties"].__set__(message, properties)
        return properties


def _message_id(message: StoredMessage) -> str:
    return _properties(message).get(keys_of.UNIQ_KEY) or _read(message).message_id


def _read(message: StoredMessage) -> StoredMessage:
    """Decode all attributes and turn the message into a `StoredMessage`. Safe in parallel threads: the result is the same."""
    record = _record_of(message)
    if record is not None:
        (
            store_size, _, body_crc, _, flag, _, offset, _, born_ms, born_host, stored_ms, store_host, times,
            prepared_offset, _,
        ) = record_parts(record)[0]  # fmt: skip
        properties, offset_id = _properties(message), encode_message_id(store_host, offset)
        values = {
            "message_id": properties.get(keys_of.UNIQ_KEY, offset_id), "offset_message_id": offset_id,
            "born_ms": born_ms, "born_host": decode_host(born_host),
            "stored_ms": stored_ms, "store_host": decode_host(store_host),
            "flag": flag, "sys_flag": 0, "reconsume_times": times, "commitlog_offset": offset,
            "store_size": store_size, "body_crc": body_crc, "prepared_offset": prepared_offset,
        }  # fmt: skip
        for name, value in values.items():
            _PLACES[name].__set__(message, value)
        object.__setattr__(message, "_record", None)
    object.__setattr__(message, "__class__", StoredMessage)
    return message


def _attribute(name: str) -> property:
    if name == "properties":
        return property(_properties)
    if name == "message_id":
        return property(_message_id)
    return property(lambda message: getattr(_read(message), name))


for _name in StoredMessage.__slots__:
    if _name not in _AT_ONCE:
        setattr(PulledMessage, _name, _attribute(_name))
