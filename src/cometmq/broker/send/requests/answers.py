"""Encodes the answers to the sends of one read batch together.

The JSON headers of these answers differ only in four numbers and a key. They are therefore assembled from prepared text
such as `Lane.answer_start`, by `kernel.encode_answers`.
"""

from cometmq.kernel import as_one, encode_answers, ids_of
from cometmq.kernel.rows import Pending
from cometmq.model.codes import ResponseCode
from cometmq.model.errors import RequestError
from cometmq.store.positions import Durability

__all__ = ["Pending", "as_late", "as_one", "encode_answers", "ids_of", "too_few_replicas"]

# Every header starts like this. For an unconfirmed message this start is replaced by one with another code.
_CODE_SIZE = len('{"code":0')
_LATE_CODES = {
    Durability.DISK_LATE: ResponseCode.FLUSH_DISK_TIMEOUT,
    Durability.REPLICA_LATE: ResponseCode.FLUSH_SLAVE_TIMEOUT,
    Durability.NO_REPLICA: ResponseCode.SLAVE_NOT_AVAILABLE,
}


def too_few_replicas(reason: str) -> RequestError:
    """Return the error for a send with too few in-sync replicas (IN_SYNC_REPLICAS_NOT_ENOUGH of RocketMQ 5.3.3)."""
    return RequestError(ResponseCode.SYSTEM_ERROR, reason)


def as_late(pending: list[Pending], durability: Durability) -> list[Pending]:
    """Change the answers of stored but unconfirmed sends to the code that says why they are unconfirmed."""
    late_start = f'{{"code":{_LATE_CODES[durability]:d}'
    return [
        (opaque, None if start is None else late_start + start[_CODE_SIZE:], key)
        for opaque, start, key in pending
    ]
