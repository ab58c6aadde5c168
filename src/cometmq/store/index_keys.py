"""Which keys of a message the index has: its unique key, then each word of its KEYS.

Follows IndexService.buildIndex of RocketMQ 5.3.3: half messages are indexed, under the topic they
are stored in, and records of the kind "rollback" are not.

Next: cometmq.kernel.reference
"""

from cometmq.codec.properties import find_value
from cometmq.model.flags import TRANSACTION_ROLLBACK
from cometmq.model.properties import KEYS, UNIQ_KEY
from cometmq.store.disk import Buffer

_UNIQUE = UNIQ_KEY.encode()
_KEYS = KEYS.encode()

NOT_INDEXED = TRANSACTION_ROLLBACK


def hashed_texts(topic: bytes, block: Buffer) -> list[bytes]:
    """What is hashed for a message, "topic#key" for each of its keys, in the index's order.

    Args:
        topic: its topic with the mark behind it, "topic#".
        block: its properties as the record stores them.
    """
    block = bytes(block)  # No copy if it is bytes already.
    unique = find_value(block, _UNIQUE)
    texts = [] if unique is None else [topic + unique]
    if _KEYS in block:
        words = find_value(block, _KEYS)
        if words is not None:
            texts += [topic + word for word in words.split(b" ") if word]
    return texts
