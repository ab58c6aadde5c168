"""The answers to the sends of one read: one text, made bytes at once.

An answer's header is JSON of which only four numbers and a key change from send to send; so it is put
together from texts that are there already (`Lane.answer_start` is one), by `kernel.encode_answers`.
"""

from cometmq.kernel import as_one, encode_answers, ids_of
from cometmq.kernel.rows import Pending
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.store.positions import Durability

__all__ = ["Pending", "as_late", "as_one", "encode_answers", "ids_of", "too_few_replicas"]

# Every header begins so; that of a message that was not confirmed begins with another code.
_CODE_SIZE = len('{"code":0')
_LATE_CODES = {
    Durability.DISK_LATE: ResponseCode.FLUSH_DISK_TIMEOUT,
    Durability.REPLICA_LATE: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    Durability.NO_REPLICA: ResponseCode.SLAVE_NOT_AVAILABLE,
}


def too_few_replicas(reason: str) -> RequestError:
    """The error for a send with too few replicas: IN_SYNC_REPLICAS_NOT_ENOUGH of RocketMQ 5.3.3."""
    return RequestError(ResponseCode.SYSTEM_ERROR, reason)


def as_late(pending: list[Pending], durability: Durability) -> list[Pending]:
    """Sends that were stored and not confirmed, to be answered with the code for why not."""
    late_start = f'{{"code":{_LATE_CODES[durability]:d}'
    return [
        (opaque, None if start is None else late_start + start[_CODE_SIZE:], key)
        for opaque, start, key in pending
    ]
