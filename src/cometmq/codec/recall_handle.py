"""The handle for cancelling a timed message, as URL-safe base64 of these words.

    v1 TOPIC BROKER TIME KEY        separated by blanks

TIME is the message's property TIMER_OUT_MS plus 1 ms, KEY is its unique key. Source:
RecallMessageHandle of RocketMQ 5.3.3; docs/format/timer.md.
"""

import base64
import binascii
from typing import NamedTuple

from cometmq.model.errors import CodecError

_VERSION = "v1"


class RecallHandle(NamedTuple):
    """The parts of the handle with which a producer cancels a timed message.

    Attributes:
        topic: Topic of the message.
        broker_name: Broker that stores the message.
        time_ms: A time in ms within the message's slot of the timer wheel, as text; not checked here.
        unique_key: Property UNIQ_KEY of the message.
    """

    topic: str
    broker_name: str
    time_ms: str
    unique_key: str


def recall_handle_start(topic: str, broker_name: str) -> bytes:
    """Return the start of the words of a handle, before they are encoded, up to the TIME."""
    return " ".join((_VERSION, topic, broker_name, "")).encode()


def encode_recall_handle(handle: RecallHandle) -> str:
    """Encode the handle for cancelling a timed message as text."""
    return base64.urlsafe_b64encode(" ".join((_VERSION, *handle)).encode()).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Decode the handle for cancelling a timed message; raises CodecError if it is malformed; accepts any TIME."""
    try:
        words = base64.b64decode(text, altchars=b"-_", validate=True).decode().split(" ")
    except (binascii.Error, ValueError):
        words = []
    if len(words) < 1 + len(RecallHandle._fields) or words[0] != _VERSION:
        raise CodecError("recall handle is invalid")
    return RecallHandle(*words[1 : 1 + len(RecallHandle._fields)])
