"""Ids of transactions: the message id and the place of the half message, so that any process can end a transaction.

UNIQ_KEY.BASE64, with base64url of

| queue offset 8 | physical offset 8 | crc32 4 | name of the broker |

The CRC-32 is that of the other bytes and of UNIQ_KEY. Differs: RocketMQ's proxy uses the UNIQ_KEY alone and keeps the
place in its memory, so a transaction cannot be ended after a restart or by another proxy.
"""

import base64
import binascii
import zlib
from struct import Struct
from typing import NamedTuple

_PLACE = Struct(">QQ")
_CRC = Struct(">I")
_HEAD_SIZE = _PLACE.size + _CRC.size


class TransactionPlace(NamedTuple):
    """The identity of a transaction, and the place of its half message.

    Attributes:
        unique_key: Id of the message (UNIQ_KEY).
        queue_offset: Offset of the half message in its queue.
        physical_offset: Offset of the half message in the log, bytes.
        broker_name: The broker that stores it.
    """

    unique_key: str
    queue_offset: int
    physical_offset: int
    broker_name: str


def encode_transaction_id(place: TransactionPlace) -> str:
    """Return a transaction id that holds the place of a half message and its broker, with a checksum over them and its unique key."""
    fixed, name = _PLACE.pack(place.queue_offset, place.physical_offset), place.broker_name
    content = fixed + _CRC.pack(_crc(fixed, name, place.unique_key)) + name.encode()
    tail = base64.urlsafe_b64encode(content).decode().rstrip("=")
    return f"{place.unique_key}.{tail}"


def decode_transaction_id(text: str) -> TransactionPlace | None:
    """Return the parts of a transaction id; None if it is malformed, cut off or made by RocketMQ's proxy."""
    unique_key, dot, tail = text.rpartition(".")
    try:
        content = base64.b64decode(tail + "=" * (-len(tail) % 4), altchars=b"-_", validate=True)
        name = content[_HEAD_SIZE:].decode()
    except (binascii.Error, ValueError):
        return None
    if not dot or len(content) < _HEAD_SIZE:
        return None
    fixed = content[: _PLACE.size]
    if _CRC.unpack_from(content, _PLACE.size)[0] != _crc(fixed, name, unique_key):
        return None
    queue_offset, physical_offset = _PLACE.unpack(fixed)
    return TransactionPlace(unique_key, queue_offset, physical_offset, name)


def _crc(fixed: bytes, broker_name: str, unique_key: str) -> int:
    return zlib.crc32(f"{broker_name}\0{unique_key}".encode(), zlib.crc32(fixed))
