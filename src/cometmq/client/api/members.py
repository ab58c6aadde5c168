"""Requests of a group member: heartbeats, leaving, other members, queue assignment, locks."""

from collections.abc import Iterable

from cometmq.client.answer_bodies import OWN_SIZE_MAX, read_body
from cometmq.client.api.asking import BrokerRequests, side_by_side
from cometmq.codec.bodies.assignment import (
    Assignment,
    AssignmentQuery,
    decode_assignments,
    encode_assignment_query,
)
from cometmq.codec.bodies.connection import decode_consumer_ids
from cometmq.codec.bodies.lock import LockRequest, decode_locked, encode_lock_request
from cometmq.codec.headers.client import ConsumerGroupRequest, UnregisterClient
from cometmq.model.codes import RequestCode
from cometmq.model.errors import CometError
from cometmq.model.queue import MessageQueue

# 65,536 queues with names of 127 bytes.
_LOCKED_SIZE_MAX = 16 << 20


class MemberApi(BrokerRequests):
    """Sends requests of a group's producers and consumers to brokers.

    All methods but `leave` raise BrokerRefused, NetError and CodecError.
    """

    async def beat(self, address: str, heartbeat: bytes) -> None:
        """Send a heartbeat, encoded with `encode_heartbeat`."""
        await self._ask(address, RequestCode.HEART_BEAT, body=heartbeat)

    async def leave(
        self, addresses: Iterable[str], client_id: str, group: str, *, is_producer: bool
    ) -> dict[str, CometError | None]:
        """Notify brokers that a producer or consumer has left its group; return each broker's error or None, by address."""
        header = UnregisterClient(
            client_id,
            producer_group=group if is_producer else None,
            consumer_group=None if is_producer else group,
        )
        told = list(addresses)
        code = RequestCode.UNREGISTER_CLIENT
        answers = await side_by_side(lambda address: self._ask(address, code, header), told)
        return {
            address: answer if isinstance(answer, CometError) else None
            for address, answer in zip(told, answers, strict=True)
        }

    async def members(self, address: str, group: str) -> tuple[str, ...]:
        """Return the client ids of a consumer group's members at a broker; raise BrokerRefused if none is connected."""
        header = ConsumerGroupRequest(group)
        answer = await self._ask(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, header)
        what = f"the list of members of {group}"
        return await read_body(decode_consumer_ids, answer.body, what, size_max=OWN_SIZE_MAX)

    async def assignment(self, address: str, query: AssignmentQuery) -> list[Assignment] | None:
        """Return the queues that a broker assigns to a member; None without a list, as usually for an unknown group."""
        answer = await self._ask(
            address, RequestCode.QUERY_ASSIGNMENT, body=encode_assignment_query(query)
        )
        what = f"the share of {query.group} in {query.topic}"
        return await read_body(decode_assignments, answer.body, what, size_max=OWN_SIZE_MAX)

    async def lock(self, address: str, request: LockRequest) -> set[MessageQueue]:
        """Lock queues at a broker for a member, or renew its locks; return those of the queues that the member now holds."""
        answer = await self._ask(
            address, RequestCode.LOCK_BATCH_MQ, body=encode_lock_request(request)
        )
        what = f"the answer of {address} to LOCK_BATCH_MQ"
        return set(await read_body(decode_locked, answer.body, what, size_max=_LOCKED_SIZE_MAX))

    async def unlock(self, address: str, request: LockRequest) -> None:
        """Release a member's locks of queues at a broker."""
        await self._ask(address, RequestCode.UNLOCK_BATCH_MQ, body=encode_lock_request(request))
