"""The handle by which a timed message can be taken back: text in URL-safe base64.

    v1 TOPIC BROKER TIME KEY        separated by blanks

TIME is the start of the message's second plus 1 ms, KEY its unique key. Source: RecallMessageHandle of
RocketMQ 5.3.3; docs/format/timer.md.
"""

import base64
import binascii
from typing import NamedTuple

from cometmq.model.errors import CodecError

_VERSION = "v1"


class RecallHandle(NamedTuple):
    """The parts of a recall handle.

    Attributes:
        topic: of the message.
        broker_name: who keeps it.
        time_ms: within the slot of its time.
        unique_key: its UNIQ_KEY.
    """

    topic: str
    broker_name: str
    time_ms: str
    unique_key: str


def encode_recall_handle(handle: RecallHandle) -> str:
    """The text."""
    return base64.urlsafe_b64encode(" ".join((_VERSION, *handle)).encode()).decode()


def decode_recall_handle(text: str) -> RecallHandle:
    """Decode a recall handle.

    Raises:
        CodecError: it is no such handle.
    """
    try:
        words = base64.b64decode(text, altchars=b"-_", validate=True).decode().split(" ")
    except (binascii.Error, ValueError):
        words = []
    if len(words) < 1 + len(RecallHandle._fields) or words[0] != _VERSION:
        raise CodecError("recall handle is invalid")
    return RecallHandle(*words[1 : 1 + len(RecallHandle._fields)])
