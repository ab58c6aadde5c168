"""Locks on queues: bodies of LOCK_BATCH_MQ 41, UNLOCK_BATCH_MQ 42 and GET_QUEUE_LOCKS, and queueLocks.json.

Source: LockBatchRequestBody, UnlockBatchRequestBody and LockBatchResponseBody of RocketMQ 5.3.3. GET_QUEUE_LOCKS and
the file are only CometMQ's (docs/format/queue-locks.md).
"""

from collections.abc import Iterable, Mapping

from cometmq.codec import fastjson
from cometmq.codec.bodies.json_object import load_object, load_request
from cometmq.codec.bodies.queue_table import QUEUE
from cometmq.model.bounded_cache import keep_short
from cometmq.model.frozen import dataclass
from cometmq.model.queue import MessageQueue


@dataclass(frozen=True, slots=True)
class LockRequest:
    """A client's request to lock or unlock queues for its consumer group."""

    group: str
    client_id: str
    queues: tuple[MessageQueue, ...]


def encode_lock_request(request: LockRequest) -> bytes:
    """Encode the JSON body of LOCK_BATCH_MQ 41 and UNLOCK_BATCH_MQ 42."""
    return fastjson.dumps(
        {
            "clientId": request.client_id,
            "consumerGroup": request.group,
            "mqSet": QUEUE.list_of(request.queues),
            "onlyThisBroker": False,
        }
    )


@keep_short(1024, length_max=1024)  # A client sends the same every 20 s.
def decode_lock_request(content: bytes | str) -> LockRequest:
    """Decode a body of LOCK_BATCH_MQ 41 or UNLOCK_BATCH_MQ 42. Raises CodecError if it is malformed or too large."""
    body = load_request(content, "lock request")
    return LockRequest(
        body.text("consumerGroup"),
        body.text("clientId"),
        QUEUE.all_of(body, "mqSet"),
    )


def encode_locked(queues: Iterable[MessageQueue]) -> bytes:
    """Encode the JSON body of the answer to LOCK_BATCH_MQ 41: the queues that were locked."""
    return fastjson.dumps({"lockOKMQSet": QUEUE.list_of(queues)})


def decode_locked(content: bytes | str) -> tuple[MessageQueue, ...]:
    """Decode the locked queues, the answer to LOCK_BATCH_MQ 41. Raises CodecError if malformed."""
    return QUEUE.all_of(load_object(content, "locked queues"), "lockOKMQSet")


# Client ids that hold locks, by group and queue.
Holders = Mapping[tuple[str, MessageQueue], str]


def encode_locks_file(holders: Holders) -> str:
    """Encode queue locks as the text of queueLocks.json, which is also the answer to GET_QUEUE_LOCKS."""
    locks = [
        {"clientId": client_id, "consumerGroup": group, **QUEUE.to_json(queue)}
        for (group, queue), client_id in sorted(holders.items())
    ]
    return fastjson.dumps({"locks": locks}, pretty=True).decode()


def decode_locks_file(content: bytes | str) -> dict[tuple[str, MessageQueue], str]:
    """Decode queueLocks.json or the answer to GET_QUEUE_LOCKS. Raises CodecError if it is malformed."""
    return {
        (part.text("consumerGroup"), QUEUE.of(part)): part.text("clientId")
        for part in load_object(content, "queue locks").objects("locks")
    }
